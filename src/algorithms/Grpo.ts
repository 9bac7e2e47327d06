/**
 * GRPO: advantage = reward − mean reward of the group (arXiv 2402.03300, §4.1.2, without division by the deviation, as in
 * arXiv 2503.20783).
 */
import * as Schema from "effect/Schema"
import * as Algorithm from "../Algorithm.ts"
import * as Credit from "../Credit.ts"
import { centred, checkGroup, LengthPenalty, ofOneSeat, shapedRewards } from "./internal/rewards.ts"

/** GRPO. @category algorithms */
export default Algorithm.define({
  type: "grpo",
  actionLoss: "rl",
  Config: Schema.Struct({ length_penalty: Schema.optionalWith(LengthPenalty, { exact: true }) }),
  check: checkGroup,
  hooks: ({ length_penalty }) => ({
    scoreGroup: ofOneSeat((group) => centred(shapedRewards(group, length_penalty)).map(Credit.uniform))
  })
})
