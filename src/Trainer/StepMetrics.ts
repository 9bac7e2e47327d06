/** What a step's log-probabilities and entropies say about it, over exactly the tokens that were trained. */
import type { MicroBatch } from "../MicroBatch.ts"

/** Running sums; a mean is its sum over its count, and 0 when nothing was counted. @category model */
export interface StepMetrics {
  mismatchKl: number
  ratioTokens: number
  entropy: number
  trainedTokens: number
}

/** @category constructors */
export const empty = (): StepMetrics => ({ mismatchKl: 0, ratioTokens: 0, entropy: 0, trainedTokens: 0 })

/**
 * Adds one micro-batch: the mismatch r − ln r − 1 of each `rl` or `refKl` member, and the entropy at each member of any
 * component. `logprobs` and `entropy` have one entry per token of the micro-batch.
 *
 * @category combinators
 */
export const add = (
  metrics: StepMetrics,
  batch: MicroBatch,
  logprobs: Float32Array,
  entropy: Float32Array
): StepMetrics => {
  let start = 0
  for (const length of batch.sequenceLengths) {
    for (let t = start + 1; t < start + length; t++) {
      const rl = batch.mask[t] === 1 && (batch.rlWeights === undefined || batch.rlWeights[t] !== 0)
      const refKl = (batch.refKlWeights?.[t] ?? 0) !== 0
      if (rl || refKl) {
        const delta = logprobs[t]! - batch.logprobs[t]!
        metrics.mismatchKl += Math.exp(delta) - delta - 1
        metrics.ratioTokens++
      }
      if (rl || refKl || (batch.ceWeights?.[t] ?? 0) !== 0) {
        metrics.entropy += entropy[t]!
        metrics.trainedTokens++
      }
    }
    start += length
  }
  return metrics
}
