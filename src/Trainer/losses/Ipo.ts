/**
 * IPO, per token: −τ_A·A·r + τ_KL·Δ², where Δ = trainer − inference log-probability and r = exp Δ. The policy term is
 * masked where |exp(trainer) − exp(inference)| is over the threshold, whatever the advantage. The penalty holds on every
 * member.
 */
import * as Schema from "effect/Schema"
import * as RlLoss from "../RlLoss.ts"
import { nonNegative } from "./internal/nonNegative.ts"

const Config = Schema.Struct({
  /** furthest that a probability may move */
  ipo_threshold: nonNegative(0.1),
  /** scale of the policy term */
  adv_tau: nonNegative(1),
  /** scale of the squared log-ratio */
  kl_tau: nonNegative(1e-3)
})

const masked =
  ({ ipo_threshold }: typeof Config.Type) =>
  ({ inference, trainer }: RlLoss.Members) =>
  (i: number) =>
    Math.abs(Math.exp(trainer[i]!) - Math.exp(inference[i]!)) > ipo_threshold

/** Masks on the size of the move alone. @category losses */
export default RlLoss.define({
  type: "ipo",
  Config,
  loss: (config) => (sequence) => {
    const { advantages, inference, trainer } = sequence
    const isMasked = masked(config)({ ...sequence, trainer: trainer.value })
    const delta = trainer.minus(inference)
    const policy = delta
      .exp()
      .times(advantages)
      .times(-config.adv_tau)
      .keep((i) => config.adv_tau * advantages[i]! !== 0 && !isMasked(i))
    return policy.plus(delta.square().times(config.kl_tau))
  },
  masked,
  native: ({ adv_tau, ipo_threshold, kl_tau }) => ({
    kernel: "ipo",
    threshold: ipo_threshold,
    advantageTau: adv_tau,
    klTau: kl_tau
  })
})
