/**
 * PPO's clipped objective, per token: −min(r·A, clip(r, 1 − ε_low, 1 + ε_high)·A), where r is the trainer's over the
 * sampler's probability (arXiv 1707.06347, equation 7). A token whose ratio has left the range in the direction that its
 * advantage pushes it has no gradient; one that has left it in the other direction is pushed back, however far it is.
 */
import * as Schema from "effect/Schema"
import * as RlLoss from "../RlLoss.ts"
import { nonNegative } from "./internal/nonNegative.ts"
import { shares } from "./internal/shares.ts"

const Config = Schema.Struct({
  /** ε_low: 0.2, as in the paper's best setting */
  clip_low: nonNegative(0.2),
  /** ε_high: 0.2 likewise; DAPO has 0.28 (arXiv 2503.14476) */
  clip_high: nonNegative(0.2)
})

const clipped =
  ({ clip_high, clip_low }: typeof Config.Type) =>
  ({ advantages, inference, trainer }: RlLoss.Members) =>
  (i: number) => {
    const ratio = Math.exp(trainer[i]! - inference[i]!)
    return advantages[i]! > 0 ? ratio > 1 + clip_high : advantages[i]! < 0 && ratio < 1 - clip_low
  }

/** The clipped objective that GRPO was published with. @category losses */
export default RlLoss.define({
  type: "ppo_clip",
  Config,
  loss:
    ({ clip_high, clip_low }) =>
    ({ advantages, inference, trainer }) => {
      const ratio = trainer.minus(inference).exp()
      return ratio
        .times(advantages)
        .min(ratio.clamp(1 - clip_low, 1 + clip_high).times(advantages))
        .negate()
        .keep((i) => advantages[i] !== 0)
    },
  masked: clipped,
  metrics: (config) => (members) => {
    const isClipped = clipped(config)(members)
    return shares(members.advantages.length, {
      is_clipped_low: (i) => isClipped(i) && members.advantages[i]! < 0,
      is_clipped_high: (i) => isClipped(i) && members.advantages[i]! > 0
    })
  },
  native: ({ clip_high, clip_low }) => ({ kernel: "ppo_clip", clipLow: clip_low, clipHigh: clip_high })
})
