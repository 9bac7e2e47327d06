/**
 * MaxRL: advantage = (reward − mean) / mean, over the rewards of the group (arXiv 2602.02710, its estimator with the mean
 * as baseline). It is derived for rewards of 0 and 1: a mean of 0 is no signal, and a group with a reward below 0 gets no
 * credit.
 */
import * as Effect from "effect/Effect"
import * as Algorithm from "../Algorithm.ts"
import * as Credit from "../Credit.ts"
import { once } from "./internal/once.ts"
import { centred, checkGroup, mean, ofOneSeat } from "./internal/rewards.ts"

/** MaxRL. @category algorithms */
export default Algorithm.define({
  type: "max_rl",
  actionLoss: "rl",
  check: checkGroup,
  hooks: () =>
    Effect.map(once, (warn) => ({
      scoreGroup: ofOneSeat((group) => {
        const rewards = group.map(({ reward }) => reward)
        const negative = group.find(({ reward }) => reward < 0)
        if (negative !== undefined) {
          const none = Credit.counted(Credit.uniform(0), "max_rl/negative_reward")
          return Effect.as(
            warn(
              `max_rl needs rewards of 0 or more, and "${negative.source}" gave ${negative.reward} (rollout ${negative.id}): such groups get no credit and are counted as max_rl/negative_reward; scale its rewards to [0, 1], or use grpo`
            ),
            group.map(() => none)
          )
        }
        const baseline = mean(rewards)
        return centred(rewards).map((difference) => Credit.uniform(baseline > 0 ? difference / baseline : 0))
      })
    }))
})
