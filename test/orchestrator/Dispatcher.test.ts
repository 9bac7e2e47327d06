import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { Algorithm, define } from "../../src/Algorithm.ts"
import Grpo from "../../src/algorithms/Grpo.ts"
import * as Credit from "../../src/Credit.ts"
import * as DependentSet from "../../src/DependentSet.ts"
import * as Journal from "../../src/Journal.ts"
import * as Dispatcher from "../../src/orchestrator/Dispatcher.ts"
import * as Permits from "../../src/Permits.ts"
import { absent, type Ended, type Planned, plannedOf } from "../../src/Rollout.ts"
import { group } from "../../src/testing/index.ts"

const source = <E>(name: string, algorithm: Layer.Layer<Algorithm, E>) => ({
  name,
  algorithm,
  firstSequence: 0,
  run: (planned: Planned) => Effect.succeed({ ...group([planned.sequence % 2])[0]!, ...planned })
})

const planned = (name: string, size: number): ReadonlyArray<Planned> =>
  group(Array.from({ length: size }, () => 0)).map((one, sequence) => ({
    ...one,
    id: `${name}/${sequence}`,
    source: name,
    sequence,
    group: { id: name, size }
  }))

/** How much a scope still has to close. */
const openFinalizers = (scope: Scope.Scope): number => {
  const state: unknown = Reflect.get(scope, "state")
  if (!Predicate.hasProperty(state, "finalizers") || !Predicate.isMap(state.finalizers)) return Number.NaN
  return state.finalizers.size
}

const services = Layer.merge(Journal.layerNone, Permits.layer(3))

describe("Dispatcher", () => {
  it.scoped("gives back what was planned, in the order of the plan, whatever order it ended in", () =>
    Effect.gen(function* () {
      const slow = source("slow", Grpo.layer())
      const dispatcher = yield* Dispatcher.make(
        [
          source("quick", Grpo.layer()),
          {
            ...slow,
            run: (one: Planned) => Effect.delay(slow.run(one), 10 - one.sequence)
          }
        ],
        Effect.succeed(0)
      )
      const plan = [...planned("slow", 4), ...planned("quick", 4)]
      const running = yield* Effect.fork(dispatcher.run(1, plan))
      yield* TestClock.adjust(100)
      const items = yield* Fiber.join(running)
      expect(items.map((item) => (item._tag === "Absent" ? item.planned.id : item.rollout.id))).toEqual(
        plan.map(({ id }) => id)
      )
    }).pipe(Effect.provide(services))
  )

  it.scoped("LEAK-01: steps leave nothing behind in the scope that they share", () =>
    Effect.gen(function* () {
      const scope = yield* Effect.scope
      const dispatcher = yield* Dispatcher.make([source("math", Grpo.layer())], Effect.succeed(0))
      const counts = new Set<number>()
      for (let step = 1; step <= 300; step++) {
        const plan = planned("math", 4).map((one, i) => ({
          ...one,
          id: `math/${step}/${i}`,
          sequence: (step - 1) * 4 + i,
          group: { id: `math/${step}`, size: 4 }
        }))
        yield* dispatcher.run(step, plan)
        counts.add(openFinalizers(scope))
      }
      expect(counts.size).toBe(1)
      expect(Math.max(...counts)).toBeLessThan(10)
    }).pipe(Effect.provide(services))
  )

  it.scoped("what the journal holds comes back under the plan of this process, absences too", () =>
    Effect.gen(function* () {
      const [first, second, ...rest] = planned("math", 4)
      const old = { policyVersion: 9, labels: { plan: "old" } }
      const known = new Map<string, Ended>([
        [first!.id, { ...group([1])[0]!, ...first!, ...old }],
        [second!.id, absent({ ...second!, ...old }, { _tag: "NoReward", reward: Number.NaN })]
      ])
      const journal = Layer.succeed(Journal.Journal, {
        find: (id) => Option.fromNullable(known.get(id)),
        append: () => Effect.void,
        seal: () => Effect.void,
        sealed: () => Effect.succeedNone
      })
      yield* Effect.gen(function* () {
        const dispatcher = yield* Dispatcher.make([source("math", Grpo.layer())], Effect.succeed(0))
        const items = yield* dispatcher.run(1, [first!, second!, ...rest])
        const plans = items.map((item) => (item._tag === "Absent" ? item.planned : item.rollout))
        expect(items.map(({ _tag }) => _tag)).toEqual(["Compiled", "Absent", "Compiled", "Compiled"])
        expect(plans.map(({ labels, policyVersion }) => [policyVersion, labels])).toEqual(Array(4).fill([0, {}]))
      }).pipe(Effect.provide(Layer.merge(journal, Permits.layer(3))))
    })
  )

  it.scoped("a rollout that is stopped with the process has no end that a resumed run would find", () =>
    Effect.gen(function* () {
      const written: Array<string> = []
      const journal = Layer.succeed(Journal.Journal, {
        find: () => Option.none(),
        append: (_, ended) => Effect.sync(() => void written.push(plannedOf(ended).id)),
        seal: () => Effect.void,
        sealed: () => Effect.succeedNone
      })
      const math = source("math", Grpo.layer())
      const stopped = {
        ...math,
        run: (one: Planned): Effect.Effect<Ended> =>
          one.sequence === 1 ? Effect.succeed(absent(one, { _tag: "Cancelled", why: "shutdown" })) : math.run(one)
      }
      yield* Effect.gen(function* () {
        const dispatcher = yield* Dispatcher.make([stopped], Effect.succeed(0))
        const exit = yield* Effect.exit(dispatcher.run(1, planned("math", 2)))
        expect(Exit.isInterrupted(exit)).toBe(true)
        expect(written).not.toContain("math/1")
      }).pipe(Effect.provide(Layer.merge(journal, Permits.layer(3))))
    })
  )

  it.scoped("an algorithm that cannot start is an error before anything runs", () =>
    Effect.gen(function* () {
      const noTeacher = Layer.effect(Algorithm, Effect.fail("no teacher"))
      const made = Dispatcher.make([source("fine", Grpo.layer()), source("broken", noTeacher)], Effect.succeed(0))
      expect(yield* Effect.exit(made)).toEqual(Exit.fail("no teacher"))
    }).pipe(Effect.provide(services))
  )

  it.scoped("a set that a step cannot fill is an error, not a wait without end", () =>
    Effect.gen(function* () {
      const all = define({
        type: "all",
        actionLoss: "rl",
        dependsOn: DependentSet.count(24, () => "all"),
        hooks: () => ({ scoreGroup: (members) => members.map(() => Credit.uniform(0)) })
      })
      const dispatcher = yield* Dispatcher.make([source("math", all.layer())], Effect.succeed(0))
      const exit = yield* Effect.exit(dispatcher.run(1, planned("math", 16)))
      expect(Exit.isFailure(exit) && String(exit.cause)).toMatch(/"all".*has 24 members and a step plans 16/)
      const whole = yield* dispatcher.run(2, planned("math", 24))
      expect(whole).toHaveLength(24)
    }).pipe(Effect.provide(services))
  )

  it.scoped("a rule of the user's own that throws costs the rollouts it was asked about, and not the run", () =>
    Effect.gen(function* () {
      const moody = define({
        type: "moody",
        actionLoss: "rl",
        dependsOn: DependentSet.make({
          name: "by label",
          of: ({ id, sequence }) => {
            if (sequence === 1) throw new Error("it has no label")
            return [{ key: id, size: 1 }]
          }
        }),
        hooks: () => ({ scoreGroup: (members) => members.map(() => Credit.uniform(1)) })
      })
      const dispatcher = yield* Dispatcher.make([source("math", moody.layer())], Effect.succeed(0))
      const [first, second] = yield* dispatcher.run(1, planned("math", 2))
      expect(first!._tag).toBe("Compiled")
      expect(second).toMatchObject({
        reason: { _tag: "Failed", blame: "algorithm", message: 'rule "by label": it has no label' }
      })
    }).pipe(Effect.provide(services))
  )
})
