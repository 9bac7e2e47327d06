/** `loss.json` against the formula in float64 and against the native kernel in float32. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { builtIn } from "../run/Losses.ts"
import * as Addon from "../Trainer/Addon.ts"
import * as PackedLoss from "../Trainer/PackedLoss.ts"
import type { RlLoss } from "../Trainer/RlLoss.ts"
import * as Cases from "./Cases.ts"
import { CaseError, Tally } from "./Check.ts"

/** The loss that a case names, with its configuration. @category decoding */
export const lossOf = (
  file: string,
  loss: { readonly type: string; readonly [key: string]: unknown }
): Either.Either<RlLoss, CaseError> => {
  const { type, ...config } = loss
  const decode = Object.hasOwn(builtIn, type) ? builtIn[type] : undefined
  if (decode === undefined) {
    const known = Object.keys(builtIn).join(", ")
    return Either.left(new CaseError({ file, reason: `loss type "${type}" is unknown; there are ${known}` }))
  }
  return Either.mapLeft(decode(config), (error) => new CaseError({ file, reason: `loss ${type}: ${error.message}` }))
}

type Case = (typeof Cases.LossCases.Type)["cases"][number]
type Sequence = Case["sequences"][number]

const flat = (sequences: ReadonlyArray<Sequence>, of: (sequence: Sequence) => ReadonlyArray<number>) =>
  Float32Array.from(sequences.flatMap((sequence) => of(sequence)))

/** A stream of the whole case; a sequence that lacks it while another has it gets `absent`. */
const optional = (
  sequences: ReadonlyArray<Sequence>,
  of: (sequence: Sequence) => ReadonlyArray<number> | null,
  absent: number
) =>
  sequences.some((sequence) => of(sequence) !== null)
    ? flat(sequences, (sequence) => of(sequence) ?? sequence.lossMask.map(() => absent))
    : undefined

/** The streams of a case as one batch; only the loss reads it, so token ids and temperatures are any. */
const batchOf = ({ sequences }: Case) => {
  const mask = Uint8Array.from(sequences.flatMap((sequence) => sequence.lossMask.map(Number)))
  return {
    tokenIds: new Int32Array(mask.length),
    sequenceLengths: Int32Array.from(sequences, (sequence) => sequence.lossMask.length),
    temperatures: new Float32Array(mask.length).fill(1),
    mask,
    logprobs: flat(sequences, (sequence) => sequence.inferenceLogprobs),
    advantages: flat(sequences, (sequence) => sequence.advantages),
    referenceLogprobs: optional(sequences, (sequence) => sequence.referenceLogprobs, 0),
    rlWeights: optional(sequences, (sequence) => sequence.rlWeights, 1),
    ceWeights: optional(sequences, (sequence) => sequence.ceWeights, 0),
    refKlWeights: optional(sequences, (sequence) => sequence.refKlWeights, 0)
  }
}

const components = ["rl", "ce", "refKl"] as const

const noteLoss = (
  tally: Tally,
  kind: string,
  tolerance: number,
  name: string,
  actual: PackedLoss.Components,
  expected: Case["expected"]
) => {
  for (const component of components) {
    tally.relative(
      `${kind} components`,
      actual[component],
      expected.components[component],
      tolerance,
      `${name} ${component}`
    )
  }
  tally.relative(`${kind} total`, actual.rl + actual.ce + actual.refKl, expected.loss, tolerance, name)
}

const oracle = (tally: Tally, testCase: Case, loss: RlLoss) =>
  Either.gen(function* () {
    const sums = { rl: 0, ce: 0, refKl: 0 }
    const metrics: Record<string, Array<number>> = {}
    for (const [index, sequence] of testCase.sequences.entries()) {
      const at = `${testCase.name} sequence ${index}`
      const streams = {
        rollout: at,
        mask: sequence.lossMask.map(Number),
        logprobs: sequence.inferenceLogprobs,
        advantages: sequence.advantages,
        referenceLogprobs: sequence.referenceLogprobs ?? undefined,
        rlWeights: sequence.rlWeights ?? undefined,
        ceWeights: sequence.ceWeights ?? undefined,
        refKlWeights: sequence.refKlWeights ?? undefined
      }
      const one = yield* PackedLoss.ofSample(streams, sequence.trainerLogprobs, testCase.counts, loss)
      for (const component of components) sums[component] += one.components[component]
      for (const [i, expected] of sequence.expectedGradient.entries()) {
        tally.relative("float64 gradients", one.gradient[i]!, expected, 1e-6, `${at} token ${i}`)
      }
      for (const [metric, value] of Object.entries(one.metrics)) metrics[metric] = [...(metrics[metric] ?? []), value]
    }
    noteLoss(tally, "float64", 1e-6, testCase.name, sums, testCase.expected)
    for (const [metric, values] of Object.entries(testCase.expected.metrics)) {
      const ours = metrics[metric] ?? []
      tally.holds("metrics present", ours.length === values.length, `${testCase.name} ${metric}`)
      for (const [i, value] of values.entries()) {
        tally.relative("float64 metrics", ours[i] ?? Number.NaN, value, 1e-6, `${testCase.name} ${metric} ${i}`)
      }
    }
  })

/** @category checks */
export const check = (folder: string) =>
  Effect.gen(function* () {
    const file = `${folder}/loss.json`
    const { cases } = yield* Cases.read(file, Cases.LossCases)
    const addon = yield* Addon.load
    const tally = new Tally("loss.json")
    for (const testCase of cases) {
      const loss = yield* lossOf(file, testCase.loss)
      yield* Either.mapLeft(
        oracle(tally, testCase, loss),
        (error) => new CaseError({ file, reason: `${testCase.name}: ${error.message}` })
      )
      if (loss.native === undefined) continue
      const trainer = flat(testCase.sequences, (sequence) => sequence.trainerLogprobs)
      const { gradient, ...sums } = addon.packedLoss(trainer, batchOf(testCase), testCase.counts, loss.native)
      const expected = testCase.sequences.flatMap((sequence) => sequence.expectedGradient)
      for (const [i, value] of expected.entries()) {
        tally.relative("float32 kernel gradients", gradient[i]!, value, 1e-4, `${testCase.name} token ${i}`)
      }
      noteLoss(tally, "float32 kernel", 1e-4, testCase.name, sums, testCase.expected)
    }
    return tally.checks
  })
