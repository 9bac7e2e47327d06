import { Algorithm, Credit } from "primerl"

/** RLOO: advantage = reward − mean reward of the other rollouts of the group (arXiv 2402.14740, §2.4). */
export default Algorithm.define({
  type: "rloo",
  actionLoss: "rl",
  hooks: () => ({
    scoreGroup: (group) => {
      const sum = group.reduce((total, { reward }) => total + reward, 0)
      const others = Math.max(1, group.length - 1)
      return group.map(({ reward }) => Credit.uniform(reward - (sum - reward) / others))
    }
  })
})
