/** GRPO with the deviation: advantage = (reward − mean) / (σ + ε), σ over n − 1 (arXiv 2402.03300, §4.1.2). */
import { Schema } from "effect"
import { Algorithm, Credit } from "primerl"

export default Algorithm.define({
  type: "normalized_grpo",
  actionLoss: "rl",
  Config: Schema.Struct({
    epsilon: Schema.optionalWith(Schema.Number.pipe(Schema.positive()), { exact: true, default: () => 1e-6 })
  }),
  check: (_config, { groupSize, name }) =>
    groupSize < 2 ? [{ path: "group_size", message: `source "${name}" has nothing to compare: use 2 or more` }] : [],
  hooks: ({ epsilon }) => ({
    scoreGroup: (group) => {
      const rewards = group.map(({ reward }) => reward)
      // equal rewards are no signal, whatever their mean is in floating point
      if (rewards.every((reward) => reward === rewards[0])) return rewards.map(() => Credit.uniform(0))
      const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length
      const squares = rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0)
      const deviation = Math.sqrt(squares / (rewards.length - 1))
      return rewards.map((reward) => Credit.uniform((reward - mean) / (deviation + epsilon)))
    }
  })
})
