/** What a step's log-probabilities and entropies say about it, over exactly the tokens that were trained. */
import * as Either from "effect/Either"
import type { MicroBatch } from "../MicroBatch.ts"
import { isCe, isRefKl, isRl } from "../TrainingSample.ts"
import type { NativeLossReport } from "./Native.ts"
import * as RlLoss from "./RlLoss.ts"
import type { TrainReport } from "./Trainer.ts"

/** Running sums and what they are over. @category model */
export interface StepMetrics {
  mismatchKl: number
  logRatio: number
  ratioTokens: number
  masked: number
  rlTokens: number
  entropy: number
  trainedTokens: number
}

/** @category constructors */
export const empty = (): StepMetrics => ({
  mismatchKl: 0,
  logRatio: 0,
  ratioTokens: 0,
  masked: 0,
  rlTokens: 0,
  entropy: 0,
  trainedTokens: 0
})

/** Members of `rl` whose policy term the loss leaves out. */
const maskedOf = (
  batch: MicroBatch,
  members: ReadonlyArray<number>,
  logprobs: Float32Array,
  loss: RlLoss.RlLoss
): number => {
  if (loss.masked === undefined || members.length === 0) return 0
  const gather = (from: Float32Array) => Float64Array.from(members, (t) => from[t]!)
  const isMasked = loss.masked({
    trainer: gather(logprobs),
    inference: gather(batch.logprobs),
    advantages: gather(batch.advantages),
    reference: batch.referenceLogprobs && gather(batch.referenceLogprobs)
  })
  return members.reduce((count, _, i) => count + (isMasked(i) ? 1 : 0), 0)
}

/**
 * Adds one micro-batch: the mismatch r − ln r − 1 of each `rl` or `refKl` member, with r the trainer's over the sampler's
 * probability; which `rl` members are masked; and the entropy at each member of any component. Fails with `LossError` when
 * the loss cannot say what it masks.
 *
 * @category combinators
 */
export const add = (
  metrics: StepMetrics,
  batch: MicroBatch,
  loss: RlLoss.RlLoss,
  report: NativeLossReport
): Either.Either<void, RlLoss.LossError> => {
  const { entropy, logprobs } = report
  const rlMembers: Array<number> = []
  let start = 0
  for (const length of batch.sequenceLengths) {
    for (let t = start + 1; t < start + length; t++) {
      const [rl, refKl] = [isRl(batch, t), isRefKl(batch, t)]
      if (rl) rlMembers.push(t)
      if (rl || refKl) {
        const delta = logprobs[t]! - batch.logprobs[t]!
        metrics.mismatchKl += Math.exp(delta) - delta - 1
        metrics.logRatio += Math.abs(delta)
        metrics.ratioTokens++
      }
      if (rl || refKl || isCe(batch, t)) {
        metrics.entropy += entropy[t]!
        metrics.trainedTokens++
      }
    }
    start += length
  }
  metrics.rlTokens += rlMembers.length
  const rollouts = batch.samples.map(({ rollout }) => rollout).join(", ")
  return Either.map(
    RlLoss.guarded(loss, rollouts, () => maskedOf(batch, rlMembers, logprobs, loss)),
    (masked) => {
      metrics.masked += masked
    }
  )
}

const mean = (sum: number, count: number) => (count === 0 ? 0 : sum / count)

/** @category getters */
export const means = (
  metrics: StepMetrics
): Pick<TrainReport, "entropy" | "logRatio" | "maskedShare" | "mismatchKl"> => ({
  mismatchKl: mean(metrics.mismatchKl, metrics.ratioTokens),
  logRatio: mean(metrics.logRatio, metrics.ratioTokens),
  entropy: mean(metrics.entropy, metrics.trainedTokens),
  maskedShare: mean(metrics.masked, metrics.rlTokens)
})
