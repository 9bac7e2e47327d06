/**
 * IcePop, per token: −r·A where α ≤ r ≤ β, and nothing elsewhere, where r is the trainer's over the sampler's probability
 * (Ring-1T, arXiv 2510.18855). Trainer and sampler that disagree so much on a token say nothing about it; the paper's
 * second ratio, between two trainers, is 1 when every batch is trained on once, as here.
 */
import * as Schema from "effect/Schema"
import * as RlLoss from "../RlLoss.ts"
import { nonNegative } from "./internal/nonNegative.ts"
import { shares } from "./internal/shares.ts"

const Config = Schema.Struct({
  /** α: 0.5, the paper's */
  mask_low: nonNegative(0.5),
  /** β: 5, the paper's */
  mask_high: nonNegative(5)
})

const ratios =
  ({ inference, trainer }: RlLoss.Members) =>
  (i: number) =>
    Math.exp(trainer[i]! - inference[i]!)

const masked =
  ({ mask_high, mask_low }: typeof Config.Type) =>
  (members: RlLoss.Members) => {
    const ratio = ratios(members)
    return (i: number) => ratio(i) < mask_low || ratio(i) > mask_high
  }

/** Leaves out tokens on which trainer and sampler disagree. @category losses */
export default RlLoss.define({
  type: "icepop",
  Config,
  loss: (config) => (sequence) => {
    const { advantages, inference, trainer } = sequence
    const isMasked = masked(config)({ ...sequence, trainer: trainer.value })
    return trainer
      .minus(inference)
      .exp()
      .times(advantages)
      .negate()
      .keep((i) => advantages[i] !== 0 && !isMasked(i))
  },
  masked,
  metrics:
    ({ mask_high, mask_low }) =>
    (members) => {
      const ratio = ratios(members)
      return shares(members.trainer.length, {
        is_masked_low: (i) => ratio(i) < mask_low,
        is_masked_high: (i) => ratio(i) > mask_high
      })
    },
  native: ({ mask_high, mask_low }) => ({ kernel: "icepop", ratioLow: mask_low, ratioHigh: mask_high })
})
