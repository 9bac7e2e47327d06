import { Schema } from "effect"
import { RlLoss } from "primerl"

/** The policy gradient with a pull back to the sampler, per token: −A·ln p(trainer) + tau/2·(ln p(trainer) − ln p(sampler))². */
export default RlLoss.define({
  type: "proximal",
  Config: Schema.Struct({ tau: Schema.optionalWith(Schema.Finite.pipe(Schema.nonNegative()), { default: () => 0.1 }) }),
  loss:
    ({ tau }) =>
    ({ advantages, inference, trainer, weights }) => {
      const logprobs = trainer.value
      const apart = logprobs.map((logprob, i) => logprob - inference[i]!)
      return {
        loss: logprobs.map((logprob, i) => -advantages[i]! * logprob + (tau / 2) * apart[i]! ** 2),
        gradient: apart.map((difference, i) => weights[i]! * (tau * difference - advantages[i]!))
      }
    }
})
