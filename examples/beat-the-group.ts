import { Algorithm, Credit } from "primerl"

/** Reward less the best of the others: push only what beats the group. */
export default Algorithm.define({
  type: "beat-the-group",
  actionLoss: "rl",
  hooks: () => ({
    scoreGroup: (group) =>
      group.map((own) =>
        Credit.uniform(own.reward - Math.max(...group.filter((other) => other !== own).map((other) => other.reward)))
      )
  })
})
