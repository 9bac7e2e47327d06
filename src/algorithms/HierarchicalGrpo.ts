/**
 * Hierarchical GRPO: advantage = reward − mean reward of the rollout's peers. Those of a seat in `episode_agents` are
 * compared within their episode (solvers of one problem), those of any other seat across the group (the problems'
 * proposers); a rollout without a peer gets 0. It is GRPO (arXiv 2402.03300, §4.1.2) on each set of peers.
 */
import * as Schema from "effect/Schema"
import * as Algorithm from "../Algorithm.ts"
import * as Credit from "../Credit.ts"
import { centredWithin, checkGroupSize } from "./internal/rewards.ts"

/** Hierarchical GRPO. @category algorithms */
export default Algorithm.define({
  type: "hierarchical_grpo",
  actionLoss: "rl",
  Config: Schema.Struct({
    episode_agents: Schema.Array(Schema.NonEmptyString).pipe(
      Schema.filter((seats) => seats.length > 0 || "it must name at least one seat")
    )
  }),
  check: ({ episode_agents }, source) => [
    ...checkGroupSize(source),
    ...episode_agents
      .filter((seat) => !source.seats.includes(seat))
      .map((seat) => ({
        path: "algo.episode_agents",
        message: `source "${source.name}" trains no seat "${seat}"; its seats are ${source.seats.join(", ")}`
      }))
  ],
  hooks: ({ episode_agents }) => ({
    scoreGroup: (group) =>
      centredWithin(group, ({ episode, seat }) =>
        episode_agents.includes(seat) ? JSON.stringify([seat, episode.id]) : JSON.stringify([seat])
      ).map(Credit.uniform)
  })
})
