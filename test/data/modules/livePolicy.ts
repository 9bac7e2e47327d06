/** Scores by the live policy and by a running mean of rewards, and notes every rollout that it is asked about. */
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as Algorithm from "../../../src/Algorithm.ts"
import * as Credit from "../../../src/Credit.ts"
import { Inference } from "../../../src/Inference.ts"
import type { Rollout } from "../../../src/Rollout.ts"
import { State } from "../../../src/State.ts"

/** Where it notes them: a module that is loaded twice keeps one list. */
const world = globalThis as { asked?: Array<string> }
world.asked ??= []

const Seen = Schema.Struct({ count: Schema.Number, mean: Schema.Number })

export default Algorithm.define({
  type: "live-policy",
  actionLoss: "rl",
  hooks: () =>
    Effect.gen(function* () {
      const policy = yield* Inference
      const state = yield* State
      const seen = yield* state.cell({ name: "seen", schema: Seen, initial: { count: 0, mean: 0 } })
      return {
        scoreRollout: (rollout: Rollout) => {
          world.asked?.push(rollout.id)
          const ids = Int32Array.from(rollout.trace.nodes.flatMap(({ tokenIds }) => Array.from(tokenIds)))
          return Effect.map(policy.score(ids), (logprobs) =>
            Credit.combine(Credit.reference(rollout, logprobs), {
              claims: [{ stream: "refKl", over: "sampled", values: 0.5, writer: "" }]
            })
          )
        },
        scoreGroup: (group: ReadonlyArray<Rollout>) =>
          Effect.gen(function* () {
            const before = yield* Ref.get(seen)
            const count = before.count + group.length
            const sum = group.reduce((total, { reward }) => total + reward, before.count * before.mean)
            yield* Ref.set(seen, { count, mean: sum / count })
            return group.map(({ reward }) => Credit.uniform(reward - before.mean))
          })
      }
    })
})
