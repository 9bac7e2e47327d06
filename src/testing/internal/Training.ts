/** What becomes of credit in the trainer: the same however it is packed, and a step in the direction of more reward. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as MicroBatch from "../../MicroBatch.ts"
import Dppo from "../../Trainer/losses/Dppo.ts"
import * as PackedLoss from "../../Trainer/PackedLoss.ts"
import * as RlLoss from "../../Trainer/RlLoss.ts"
import * as TrainingSample from "../../TrainingSample.ts"
import type { PropertyOptions, Subject } from "../Property.ts"
import { conversation, node } from "../traces.ts"
import * as Cases from "./Cases.ts"
import * as Trial from "./Trial.ts"

const dppo = RlLoss.make(Dppo, {})

/** Loss by component and, for every sample, its gradient by the trainer's log-probabilities. */
interface Computed {
  readonly components: PackedLoss.Components
  readonly gradients: ReadonlyMap<TrainingSample.TrainingSample, Float32Array>
}

const compute = (
  samples: ReadonlyArray<TrainingSample.TrainingSample>,
  packing: MicroBatch.PackOptions,
  trainer: (sample: TrainingSample.TrainingSample) => ArrayLike<number>,
  { loss = dppo }: PropertyOptions
): Effect.Effect<Computed, string> =>
  Effect.gen(function* () {
    const { counts, microBatches } = MicroBatch.pack(samples, packing)
    const components = { rl: 0, ce: 0, refKl: 0 }
    const gradients = new Map<TrainingSample.TrainingSample, Float32Array>()
    for (const batch of microBatches.flat()) {
      if (batch.dummy) continue
      const logprobs = new Float32Array(batch.tokens)
      let at = 0
      for (const sample of batch.samples) {
        logprobs.set(trainer(sample), at)
        at += sample.tokenIds.length
      }
      const one = yield* Either.mapLeft(PackedLoss.ofBatch(batch, logprobs, counts, loss), ({ message }) => message)
      at = 0
      for (const sample of batch.samples) {
        gradients.set(sample, one.gradient.slice(at, at + sample.tokenIds.length))
        at += sample.tokenIds.length
      }
      components.rl += one.components.rl
      components.ce += one.components.ce
      components.refKl += one.components.refKl
    }
    return { components, gradients }
  })

const samplesOf = (outcomes: Trial.Outcomes) =>
  Array.from(outcomes.values()).flatMap((outcome) => (outcome._tag === "Absent" ? [] : outcome.samples))

/** A trainer that has moved a little, by an amount that follows from the token. */
const moved = ({ logprobs, tokenIds }: TrainingSample.TrainingSample) =>
  logprobs.map((logprob, i) => (logprob === 0 ? -0.7 : logprob) + ((tokenIds[i]! % 5) - 2) / 50)

const packings: ReadonlyArray<{
  readonly name: string
  readonly options: (longest: number) => MicroBatch.PackOptions
}> = [
  { name: "one sample in each micro-batch", options: (longest) => ({ maxSequenceLength: longest }) },
  { name: "over two workers", options: () => ({ maxSequenceLength: 4096, workers: 2 }) },
  { name: "over four workers, padded", options: (n) => ({ maxSequenceLength: 2 * n, workers: 4, padToMultipleOf: 8 }) }
]

const close = (a: number, b: number) => Math.abs(a - b) <= 1e-6 * Math.max(1, Math.abs(a), Math.abs(b))

const changed = (whole: Computed, other: Computed): string | undefined => {
  for (const name of ["rl", "ce", "refKl"] as const) {
    const [a, b] = [whole.components[name], other.components[name]]
    if (!close(a, b)) return `the ${name} loss is ${a} and becomes ${b}`
  }
  for (const [sample, gradient] of whole.gradients) {
    const there = other.gradients.get(sample)
    if (there === undefined) return `rollout ${sample.rollout} is not in it`
    const at = gradient.findIndex((value, i) => !close(value, there[i]!))
    if (at !== -1) return `the gradient of token ${at} of ${sample.rollout} is ${gradient[at]} and becomes ${there[at]}`
  }
  return undefined
}

/** Loss and gradient do not depend on how samples are packed, in what order, and over how many workers. */
export const packingFree = (algorithm: Subject, options: PropertyOptions) =>
  Cases.all(
    options,
    FastCheck.array(Cases.members(options), { minLength: 1, maxLength: 3 }),
    (groups) =>
      Effect.gen(function* () {
        const rollouts = Cases.rolloutsOf(groups, options).flat()
        const samples = samplesOf(yield* Trial.of(algorithm, rollouts, options))
        if (samples.length === 0) return Cases.fine(false)
        const longest = samples.reduce((most, { tokenIds }) => Math.max(most, tokenIds.length), 0)
        const whole = yield* compute(samples, { maxSequenceLength: 4096 }, moved, options)
        for (const packing of packings) {
          const other = yield* compute(samples.toReversed(), packing.options(longest), moved, options)
          const why = changed(whole, other)
          if (why !== undefined) return Cases.wrong(`${packing.name}: ${why}`)
        }
        return Cases.fine()
      }),
    Cases.shown
  )

/** Ids of the two arms; a rollout is one of them, after a prompt of one token. */
const arms: ReadonlyArray<number> = [3, 4]

/**
 * A two-armed bandit: a softmax over two logits is sampled, scored, and takes one step down the gradient of the loss. The
 * probability of the better arm must rise.
 */
export const improves = (algorithm: Subject, options: PropertyOptions) => {
  const [low, high] = options.rewards ?? [0, 1]
  return Cases.all(
    options,
    FastCheck.record({
      better: FastCheck.constantFrom(0, 1),
      worth: FastCheck.constantFrom([low, high] as const, [low, (low + high) / 2] as const),
      pairs: FastCheck.integer({ min: 2, max: 4 })
    }),
    ({ better, pairs, worth: [bad, good] }) =>
      Effect.gen(function* () {
        const logits = [0.1, -0.1]
        const total = logits.reduce((sum, logit) => sum + Math.exp(logit), 0)
        const logprobs = logits.map((logit) => logit - Math.log(total))
        const pulled = (arm: number) =>
          conversation(node("user", [1]), {
            ...node("assistant", [arms[arm]!]),
            logprobs: Float32Array.of(logprobs[arm]!)
          })
        const members = Array.from({ length: 2 * pairs }, (_, i) => {
          const arm = i % 2 === 0 ? better : 1 - better
          return { reward: arm === better ? good : bad, trace: pulled(arm) }
        })
        const [rollouts] = Cases.rolloutsOf([members], options)
        const samples = samplesOf(yield* Trial.of(algorithm, rollouts!, options))
        const trained = samples.filter((sample) => sample.mask.some((_, i) => i > 0 && TrainingSample.isRl(sample, i)))
        if (trained.length === 0) return Cases.fine(false)
        const { gradients } = yield* compute(samples, { maxSequenceLength: 4096 }, ({ logprobs }) => logprobs, options)
        // d log p(arm) / d logit of the better arm = [arm is the better one] − p(better)
        let slope = 0
        for (const [{ tokenIds }, gradient] of gradients) {
          for (const [i, id] of tokenIds.entries()) {
            const arm = arms.indexOf(id)
            if (arm === -1) continue
            slope += gradient[i]! * ((arm === better ? 1 : 0) - Math.exp(logprobs[better]!))
          }
        }
        return slope < 0
          ? Cases.fine()
          : Cases.wrong(
              `one step ${slope === 0 ? "leaves the expected reward as it is" : "lowers the expected reward"}: the sign of the advantage is wrong, or it is 0`
            )
      }),
    ({ pairs, worth: [bad, good] }) => `a bandit whose arms are worth ${bad} and ${good}, each pulled ${pairs} times`
  )
}
