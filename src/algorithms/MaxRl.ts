/**
 * MaxRL: advantage = (reward − mean) / mean, over the rewards of the group (arXiv 2602.02710, its estimator with the mean
 * as baseline). It is derived for rewards of 0 and 1: a mean of 0 is no signal, and a group with a reward below 0 gets no
 * credit.
 */
import * as Effect from "effect/Effect"
import * as Algorithm from "../Algorithm.ts"
import * as Credit from "../Credit.ts"
import { ofNonNegative } from "./internal/nonNegative.ts"
import { centred, checkGroup, mean, ofOneSeat } from "./internal/rewards.ts"

/** MaxRL. @category algorithms */
export default Algorithm.define({
  type: "max_rl",
  actionLoss: "rl",
  check: checkGroup,
  hooks: () =>
    Effect.map(
      ofNonNegative("max_rl", (group) => {
        const rewards = group.map(({ reward }) => reward)
        const baseline = mean(rewards)
        return centred(rewards).map((difference) => Credit.uniform(baseline > 0 ? difference / baseline : 0))
      }),
      (formula) => ({ scoreGroup: ofOneSeat(formula) })
    )
})
