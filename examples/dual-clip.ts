import { Schema } from "effect"
import { RlLoss } from "primerl"

const positive = (fallback: number) =>
  Schema.optionalWith(Schema.Finite.pipe(Schema.positive()), { default: () => fallback })

/**
 * PPO with a second bound (arXiv 1912.09729, equation 5): where A < 0, the loss is −max(min(r·A, clip(r)·A), cap·A), so
 * that a token which became far more probable than it was sampled cannot dominate a step.
 */
export default RlLoss.define({
  type: "dual_clip",
  Config: Schema.Struct({ clip: positive(0.2), cap: positive(3) }),
  loss:
    ({ cap, clip }) =>
    ({ advantages, inference, trainer }) => {
      const ratio = trainer.minus(inference).exp()
      const least = advantages.map((advantage) => (advantage < 0 ? cap * advantage : Number.NEGATIVE_INFINITY))
      return ratio
        .times(advantages)
        .min(ratio.clamp(1 - clip, 1 + clip).times(advantages))
        .max(least)
        .negate()
        .keep((i) => advantages[i] !== 0)
    }
})
