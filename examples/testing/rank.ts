import { Algorithm, Credit } from "primerl"

/**
 * Ranks: advantage = (rollouts of the group that it beats − rollouts that beat it) / (n − 1), between −1 and 1 however
 * far apart the rewards are (rank transformation of evolution strategies, arXiv 1703.03864, §2).
 */
export default Algorithm.define({
  type: "rank",
  actionLoss: "rl",
  hooks: () => ({
    scoreGroup: (group) => {
      const others = Math.max(1, group.length - 1)
      return group.map(({ reward }) => {
        const beaten = group.reduce((sum, other) => sum + Math.sign(reward - other.reward), 0)
        return Credit.uniform(beaten / others)
      })
    }
  })
})
