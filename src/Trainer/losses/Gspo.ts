/**
 * GSPO: with s = exp(mean of trainer − inference over a sequence's members), every member has the loss
 * −min(s·A, clip(s, 1 − ε_low, 1 + ε_high)·A), and the gradient goes through s, to all members alike (arXiv 2507.18071,
 * equations 5 and 7). A sequence is left out as one, once s has left the range in the direction that A pushes it. The mean
 * over the step is over tokens, as for every loss here, where the paper has one over sequences.
 */
import * as Schema from "effect/Schema"
import * as RlLoss from "../RlLoss.ts"
import { nonNegative } from "./internal/nonNegative.ts"
import { shares } from "./internal/shares.ts"

const Config = Schema.Struct({
  /** ε_low: 3·10⁻⁴, the paper's; s is a mean over tokens and moves little */
  clip_low: nonNegative(3e-4),
  /** ε_high: 4·10⁻⁴, the paper's */
  clip_high: nonNegative(4e-4)
})

const ratioOf = ({ inference, trainer }: RlLoss.Members) =>
  Math.exp(trainer.reduce((sum, value, i) => sum + (value - inference[i]!), 0) / trainer.length)

const clipped =
  ({ clip_high, clip_low }: typeof Config.Type) =>
  (members: RlLoss.Members) => {
    const ratio = ratioOf(members)
    const { advantages } = members
    return (i: number) => (advantages[i]! > 0 ? ratio > 1 + clip_high : advantages[i]! < 0 && ratio < 1 - clip_low)
  }

/** One ratio for a whole sequence. @category losses */
export default RlLoss.define({
  type: "gspo",
  Config,
  loss:
    ({ clip_high, clip_low }) =>
    ({ advantages, inference, trainer }) => {
      const ratio = trainer.minus(inference).mean().exp()
      return ratio
        .times(advantages)
        .min(ratio.clamp(1 - clip_low, 1 + clip_high).times(advantages))
        .negate()
        .keep((i) => advantages[i] !== 0)
    },
  masked: clipped,
  metrics: (config) => (members) => {
    const isClipped = clipped(config)(members)
    return {
      sequence_ratio: ratioOf(members),
      ...shares(members.advantages.length, {
        is_clipped_low: (i) => isClipped(i) && members.advantages[i]! < 0,
        is_clipped_high: (i) => isClipped(i) && members.advantages[i]! > 0
      })
    }
  }
})
