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
  /** what the loss measures, per sequence, times the sequence's `rl` members */
  readonly loss: Record<string, number>
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
  loss: {},
  rlTokens: 0,
  entropy: 0,
  trainedTokens: 0
})

/** Adds what the loss says of one sequence: its `rl` members whose policy term is left out, and what else it measures. */
const addLoss = (
  metrics: StepMetrics,
  batch: MicroBatch,
  members: ReadonlyArray<number>,
  logprobs: Float32Array,
  loss: RlLoss.RlLoss
): void => {
  const gather = (from: Float32Array) => Float64Array.from(members, (t) => from[t]!)
  const sequence = {
    trainer: gather(logprobs),
    inference: gather(batch.logprobs),
    advantages: gather(batch.advantages),
    reference: batch.referenceLogprobs && gather(batch.referenceLogprobs)
  }
  const isMasked = loss.masked?.(sequence)
  if (isMasked !== undefined) for (const i of members.keys()) if (isMasked(i)) metrics.masked++
  for (const [name, value] of Object.entries(loss.metrics?.(sequence) ?? {})) {
    metrics.loss[name] = (metrics.loss[name] ?? 0) + value * members.length
  }
}

/**
 * Adds one micro-batch: the mismatch r − ln r − 1 of each sampled `rl` or `refKl` member, with r the trainer's over the sampler's
 * probability; what the loss masks and measures of its `rl` members; and the entropy at each member of any component. Fails
 * with `LossError` when the loss cannot say it.
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
  let start = 0
  for (const [index, length] of batch.sequenceLengths.entries()) {
    const rlMembers: Array<number> = []
    for (let t = start + 1; t < start + length; t++) {
      const [rl, refKl] = [isRl(batch, t), isRefKl(batch, t)]
      if (rl) rlMembers.push(t)
      // Only what the policy sampled has a log-probability of its sampler to compare with.
      if ((rl || refKl) && batch.mask[t] === 1) {
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
    if (rlMembers.length === 0) continue
    metrics.rlTokens += rlMembers.length
    const rollout = batch.samples[index]?.rollout ?? `at sequence ${index}`
    const added = RlLoss.guarded(loss, rollout, () => addLoss(metrics, batch, rlMembers, logprobs, loss))
    if (Either.isLeft(added)) return added
  }
  return Either.void
}

const mean = (sum: number, count: number) => (count === 0 ? 0 : sum / count)

/** @category getters */
export const means = (
  metrics: StepMetrics
): Pick<TrainReport, "entropy" | "logRatio" | "lossMetrics" | "maskedShare" | "mismatchKl"> => ({
  mismatchKl: mean(metrics.mismatchKl, metrics.ratioTokens),
  logRatio: mean(metrics.logRatio, metrics.ratioTokens),
  entropy: mean(metrics.entropy, metrics.trainedTokens),
  maskedShare: mean(metrics.masked, metrics.rlTokens),
  lossMetrics: Object.fromEntries(
    Object.entries(metrics.loss).map(([name, sum]) => [name, mean(sum, metrics.rlTokens)] as const)
  )
})
