/** A whole model against its record: forward, loss, gradients, and one step of the optimiser. */
import * as Effect from "effect/Effect"
import * as Engine from "../Trainer/Engine.ts"
import type { NativeBatch } from "../Trainer/Native.ts"
import * as Cases from "./Cases.ts"
import { CaseError, Tally } from "./Check.ts"
import { lossOf } from "./Losses.ts"

const floats = (values: ReadonlyArray<number>) => Float32Array.from(values)
const optional = (values: ReadonlyArray<number> | null) => (values === null ? undefined : floats(values))

const batchOf = (record: typeof Cases.ModelCase.Type): NativeBatch => ({
  tokenIds: Int32Array.from(record.tokenIds),
  sequenceLengths: Int32Array.from(record.sequenceLengths),
  temperatures: floats(record.temperatures),
  mask: Uint8Array.from(record.lossMask, Number),
  logprobs: floats(record.inferenceLogprobs),
  advantages: floats(record.advantages),
  referenceLogprobs: optional(record.referenceLogprobs),
  rlWeights: optional(record.rlWeights),
  ceWeights: optional(record.ceWeights),
  refKlWeights: optional(record.refKlWeights)
})

/** Below this, norms are compared by their difference: what is 0 in the record is rounding in float32. */
const smallestNorm = 1e-5

const norm = (values: Float32Array) => Math.sqrt(values.reduce((total, value) => total + value * value, 0))

const noteEach = (
  tally: Tally,
  quantity: string,
  actual: ArrayLike<number>,
  expected: ReadonlyArray<number>,
  tolerance: number
) => {
  for (const [i, value] of expected.entries()) {
    tally.absolute(quantity, actual[i] ?? Number.NaN, value, tolerance, `token ${i}`)
  }
}

/**
 * The largest deviations allowed. In bfloat16 an operand of a product is off by up to 2^-9 of itself, and a model's
 * figures by what it makes of that. Where a gradient is near 0 its sign may be another, which AdamW turns into a whole
 * learning rate the other way: a step is held to less than what leads to it.
 */
const tolerances = {
  float32: { logprob: 1e-4, stepped: 1e-4, entropy: 1e-3, gradient: 1e-3, parameter: 1e-4, parameterNorm: 1e-4 },
  bfloat16x3: { logprob: 1e-3, stepped: 1e-2, entropy: 1e-3, gradient: 1e-3, parameter: 1e-2, parameterNorm: 1e-3 },
  bfloat16: { logprob: 0.1, stepped: 0.6, entropy: 0.1, gradient: 5e-2, parameter: 1e-2, parameterNorm: 1e-2 }
} as const

/** The checks of `models/NAME`, on one instruction set or the best that the processor has, in float32 unless named. @category checks */
export const check = (folder: string, name: string, options: Pick<Engine.Options, "isa" | "dtype" | "device"> = {}) =>
  Effect.gen(function* () {
    const directory = `${folder}/models/${name}`
    const record = yield* Cases.read(`${directory}/expected.json`, Cases.ModelCase)
    const { afterStep, expected, optimizer } = record
    const loss = yield* lossOf(`${directory}/expected.json`, record.loss)
    if (loss.native === undefined) {
      return yield* new CaseError({ file: directory, reason: `loss ${loss.type} has no native kernel` })
    }
    const engine = yield* Engine.open(directory, { threads: 2, trainable: true, ...options })
    const batch = batchOf(record)
    const score = engine.score(batch.tokenIds, batch.sequenceLengths, batch.temperatures)
    const allowed = tolerances[options.dtype ?? "float32"]
    // A device sums in another order, so other gradients near 0 change their sign.
    const stepped = options.device === "cuda" ? 10 * allowed.stepped : allowed.stepped
    const tally = new Tally(`models/${name}`)

    const before = yield* score
    noteEach(tally, "log-probabilities", before.logprobs, expected.logprobs, allowed.logprob)
    noteEach(tally, "entropy", before.entropy, expected.entropy, allowed.entropy)

    const { ce, refKl, rl } = yield* engine.forwardBackward(batch, record.counts, loss.native)
    tally.absolute("loss", rl + ce + refKl, expected.loss, allowed.logprob, "whole batch")
    tally.holds("tensors", Object.keys(expected.gradients).length === engine.tensors.length, "number of parameters")
    for (const [tensor, { norm: recorded }] of Object.entries(expected.gradients)) {
      const gradient = yield* engine.readGradient(tensor)
      tally.relative("gradient norms", norm(gradient), recorded, allowed.gradient, tensor, smallestNorm)
    }

    const { gradNorm } = yield* engine.optimizerStep({
      learningRate: optimizer.lr,
      beta1: optimizer.betas[0],
      beta2: optimizer.betas[1],
      eps: optimizer.eps,
      weightDecay: optimizer.weightDecay,
      maxGradNorm: optimizer.maxGradNorm ?? undefined
    })
    tally.relative("global gradient norm", gradNorm, expected.gradNorm, allowed.gradient, "whole model", smallestNorm)

    for (const [tensor, { first, norm: recorded }] of Object.entries(afterStep.parameters)) {
      const values = yield* engine.readTensor(tensor)
      for (const [i, value] of first.entries()) {
        tally.absolute("parameters after a step", values[i]!, value, allowed.parameter, `${tensor} ${i}`)
      }
      tally.relative(
        "parameter norms after a step",
        norm(values),
        recorded,
        allowed.parameterNorm,
        tensor,
        smallestNorm
      )
    }
    noteEach(tally, "log-probabilities after a step", (yield* score).logprobs, afterStep.logprobs, stepped)
    return tally.checks
  }).pipe(Effect.scoped)
