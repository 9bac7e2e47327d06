/**
 * DPPO with a divergence penalty, per token: −τ_A·A·r + τ_KL·Δ², where Δ = trainer − inference log-probability and
 * r = exp Δ. The policy term is masked where the probability has moved too far in the direction that the advantage
 * pushes it, with Δp = exp(trainer) − exp(inference): A > 0 and Δp > high, or A ≤ 0 and Δp < −low (DPPO, arXiv
 * 2602.04879, with its binary estimate of total variation). The penalty holds on every member.
 */
import * as Schema from "effect/Schema"
import * as RlLoss from "../RlLoss.ts"
import { nonNegative } from "./internal/nonNegative.ts"

const Config = Schema.Struct({
  /** furthest that a probability may fall, on a token whose advantage is not positive */
  dppo_mask_low: nonNegative(0.2),
  /** furthest that a probability may rise, on a token whose advantage is positive */
  dppo_mask_high: nonNegative(0.2),
  /** scale of the policy term */
  adv_tau: nonNegative(1),
  /** scale of the squared log-ratio */
  kl_tau: nonNegative(1e-3)
})

const masked =
  ({ dppo_mask_high, dppo_mask_low }: typeof Config.Type) =>
  ({ advantages, inference, trainer }: RlLoss.Members) =>
  (i: number) => {
    const moved = Math.exp(trainer[i]!) - Math.exp(inference[i]!)
    return advantages[i]! > 0 ? moved > dppo_mask_high : moved < -dppo_mask_low
  }

/** The default loss of sampled tokens. @category losses */
export default RlLoss.define({
  type: "dppo",
  Config,
  loss: (config) => (sequence) => {
    const { advantages, inference, trainer } = sequence
    const isMasked = masked(config)({ ...sequence, trainer: trainer.value })
    const delta = trainer.minus(inference)
    // A token of advantage 0 has no policy term, even where its ratio overflows.
    const policy = delta
      .exp()
      .times(advantages)
      .times(-config.adv_tau)
      .keep((i) => config.adv_tau * advantages[i]! !== 0 && !isMasked(i))
    return policy.plus(delta.square().times(config.kl_tau))
  },
  masked,
  metrics: (config) => (members) => {
    const { advantages } = members
    const isMasked = masked(config)(members)
    let [all, positive, negative] = [0, 0, 0]
    for (let i = 0; i < advantages.length; i++) {
      if (!isMasked(i)) continue
      all++
      if (advantages[i]! > 0) positive++
      if (advantages[i]! < 0) negative++
    }
    const share = (part: number, whole: number) => (whole === 0 ? 0 : part / whole)
    return {
      is_masked_low: share(negative, advantages.length),
      is_masked_high: share(positive, advantages.length),
      masked_advantage_positive: share(positive, all),
      masked_advantage_negative: share(negative, all)
    }
  },
  native: ({ adv_tau, dppo_mask_high, dppo_mask_low, kl_tau }) => ({
    kernel: "dppo",
    maskLow: dppo_mask_low,
    maskHigh: dppo_mask_high,
    advantageTau: adv_tau,
    klTau: kl_tau
  })
})
