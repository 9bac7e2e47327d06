/**
 * The policy gradient corrected for who sampled, per token: −r·A, where r is the trainer's over the sampler's probability
 * (the surrogate that PPO clips: arXiv 1707.06347, equation 6). Nothing bounds r: on-policy it is 1 and this is REINFORCE;
 * the older the samples, the noisier the gradient. A ratio that no longer fits into a number is an error, never a zero.
 */
import * as RlLoss from "../RlLoss.ts"

/** Without a trust region; for samples of the policy's own, or of one that is close. @category losses */
export default RlLoss.define({
  type: "importance_sampling",
  loss:
    () =>
    ({ advantages, inference, trainer }) =>
      trainer
        .minus(inference)
        .exp()
        .times(advantages)
        .negate()
        .keep((i) => advantages[i] !== 0),
  native: () => ({ kernel: "importance_sampling" })
})
