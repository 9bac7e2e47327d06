import { Algorithm, Credit } from "primerl"

/** RLOO: advantage = reward − mean reward of the other rollouts of the group (arXiv 2402.14740). */
export default Algorithm.define({
  type: "rloo",
  actionLoss: "rl",
  hooks: () => ({
    scoreGroup: (group) =>
      group.map(({ reward }) => {
        // the differences to all, so that equal rewards give exactly 0
        const ahead = group.reduce((sum, other) => sum + (reward - other.reward), 0)
        return Credit.uniform(ahead / Math.max(1, group.length - 1))
      })
  })
})
