/**
 * RAE: advantage = reward − b(seat), then b(seat) ← decay · b(seat) + (1 − decay) · reward, with b at first 0: the running
 * mean of what each seat earns, taken before this reward moves it (SPIRAL, arXiv 2506.24119, role-conditioned advantage
 * estimation).
 */
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as Algorithm from "../Algorithm.ts"
import * as Credit from "../Credit.ts"
import * as DependentSet from "../DependentSet.ts"
import type { Rollout } from "../Rollout.ts"
import { State } from "../State.ts"

const Decay = Schema.Number.pipe(Schema.greaterThanOrEqualTo(0), Schema.lessThan(1))

/** RAE. @category algorithms */
export default Algorithm.define({
  type: "rae",
  actionLoss: "rl",
  dependsOn: DependentSet.self,
  Config: Schema.Struct({ decay: Schema.optionalWith(Decay, { exact: true, default: () => 0.95 }) }),
  hooks: ({ decay }) =>
    Effect.gen(function* () {
      const state = yield* State
      const baselines = yield* state.cell({
        name: "baselines",
        schema: Schema.Record({ key: Schema.String, value: Schema.Finite }),
        initial: {}
      })
      return {
        scoreGroup: ([rollout]: ReadonlyArray<Rollout>) =>
          Ref.modify(baselines, (all) => {
            const { reward, seat } = rollout!
            const baseline = Object.hasOwn(all, seat) ? all[seat]! : 0
            return [[Credit.uniform(reward - baseline)], { ...all, [seat]: decay * baseline + (1 - decay) * reward }]
          })
      }
    })
})
