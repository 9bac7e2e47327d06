/** Reward less the best of the others: push only what beats the group. */
import * as Algorithm from "../../../src/Algorithm.ts"
import * as Credit from "../../../src/Credit.ts"

export default Algorithm.define({
  type: "beat-the-group",
  actionLoss: "rl",
  hooks: () => ({
    scoreGroup: (group) =>
      group.map((own) => {
        const others = group.filter((other) => other !== own).map(({ reward }) => reward)
        return Credit.uniform(own.reward - Math.max(...others))
      })
  })
})
