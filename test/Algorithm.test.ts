import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Ref, Schema, Stream } from "effect"
import * as Algorithm from "../src/Algorithm.ts"
import Grpo from "../src/algorithms/Grpo.ts"
import Sft from "../src/algorithms/Sft.ts"
import * as Credit from "../src/Credit.ts"
import * as DependentSet from "../src/DependentSet.ts"
import * as Pipeline from "../src/Pipeline.ts"
import type { Rollout } from "../src/Rollout.ts"
import * as State from "../src/State.ts"
import * as Testing from "../src/testing/index.ts"

const { advantages, group, rollout, score } = Testing

const messages = (outcomes: ReadonlyArray<Testing.Outcome>) =>
  outcomes.map((outcome) =>
    outcome._tag === "Absent" && outcome.reason._tag === "Failed" ? outcome.reason.message : outcome._tag
  )
const withHooks = (hooks: Algorithm.Hooks) => Algorithm.define({ type: "mine", actionLoss: "rl", hooks: () => hooks })

/** The running mean of a seat's rewards, before this one moves it. */
const Running = Algorithm.define({
  type: "running",
  actionLoss: "rl",
  dependsOn: DependentSet.self,
  Config: Schema.Struct({
    decay: Schema.optionalWith(Schema.Number.pipe(Schema.between(0, 1)), { default: () => 0.95 })
  }),
  hooks: ({ decay }) =>
    Effect.gen(function* () {
      const baselines = yield* (yield* State.State).cell({
        name: "baselines",
        schema: Schema.Record({ key: Schema.String, value: Schema.Number }),
        initial: {}
      })
      return {
        scoreGroup: ([rollout]: ReadonlyArray<Rollout>) =>
          Ref.modify(baselines, (all) => {
            const { reward, seat } = rollout!
            const baseline = all[seat] ?? 0
            return [[Credit.uniform(reward - baseline)], { ...all, [seat]: decay * baseline + (1 - decay) * reward }]
          })
      }
    })
})

describe("Algorithm.define", () => {
  it.effect("that return what is no credit fail by name, and are no defect", () =>
    Effect.gen(function* () {
      const returns = (value: unknown) => ({
        whole: withHooks({ scoreGroup: () => value as ReadonlyArray<Credit.Credit> }),
        single: withHooks({ scoreRollout: () => value as Credit.Credit })
      })
      for (const value of [
        undefined,
        1,
        [1, 1],
        { claims: 5 },
        [undefined],
        Credit.uniform("1" as unknown as number)
      ]) {
        const { single, whole } = returns(value)
        assert.match(
          messages(yield* score(whole.layer(), group([1, 0])))[0]!,
          /^mine\.scoreGroup of .*no (list of credits|credit)/
        )
        assert.match(messages(yield* score(single.layer(), group([1, 0])))[0]!, /^mine\.scoreRollout of .*no credit/)
      }
    })
  )

  it.effect("what a hook throws, fails with or miscounts names the algorithm, the hook and its subject", () =>
    Effect.gen(function* () {
      const boom = () => {
        throw new RangeError("no such turn")
      }
      const all = (hooks: Algorithm.Hooks) => Effect.map(score(withHooks(hooks).layer(), group([1, 0])), messages)
      assert.deepStrictEqual(yield* all({ scoreRollout: boom }), [
        "mine.scoreRollout of g0/0: no such turn",
        "mine.scoreRollout of g0/1: no such turn"
      ])
      const whole = (reason: string) => Array(2).fill(`mine.scoreGroup of g0: ${reason}`)
      assert.deepStrictEqual(yield* all({ scoreGroup: boom }), whole("no such turn"))
      assert.deepStrictEqual(yield* all({ scoreGroup: () => Effect.fail("judge is down") }), whole("judge is down"))
      assert.deepStrictEqual(yield* all({ scoreGroup: () => [Credit.empty] }), whole("1 credits for 2 rollouts"))
      assert.deepStrictEqual(
        yield* all({ scoreGroup: () => Effect.succeed([Credit.empty]) }),
        whole("1 credits for 2 rollouts")
      )
      assert.deepStrictEqual(yield* all({ scoreGroup: () => Effect.die("bug") }), Array(2).fill("defect: bug"))
    })
  )

  it.effect("a claim on a stream that does not exist is no credit", () =>
    Effect.gen(function* () {
      const claims = [{ stream: "advantage" as Credit.Stream, over: "sampled" as const, values: 1, writer: "" }]
      const out = messages(yield* score(withHooks({ scoreRollout: () => ({ claims }) }).layer(), group([1])))
      assert.match(out[0]!, /^mine\.scoreRollout of .*no credit/)
    })
  )

  it("a loss on actions that does not exist is refused where the algorithm is defined", () => {
    const define = () => Algorithm.define({ type: "mine", actionLoss: "RL" as "rl", hooks: () => ({}) })
    assert.throws(define, "algorithm mine, actionLoss: it is RL; it must be one of rl, ce, refKl")
  })

  it("a check that throws, or returns anything else, is a problem of its own", () => {
    const source = { name: "math", groupSize: 2, seats: ["policy"], frozen: false }
    const checked = (check: () => Iterable<Algorithm.Problem>) =>
      Algorithm.define({ type: "mine", actionLoss: "rl", check, hooks: () => ({}) }).check({}, source)
    const broken = checked(() => {
      throw new RangeError("no such teacher")
    })
    assert.deepStrictEqual(broken, [{ path: "algo.type", message: "its check is broken: no such teacher" }])
    for (const value of [5, ["bad teacher"], [{ path: "teacher" }], [undefined]]) {
      const [problem, ...more] = checked(() => value as unknown as Iterable<Algorithm.Problem>)
      assert.strictEqual(more.length, 0)
      assert.match(problem!.message, /^its check is broken: /)
    }
  })

  it.effect("a hook may be a plain value or an effect, with the same credit", () =>
    Effect.gen(function* () {
      const plain = withHooks({ scoreGroup: (members) => members.map(({ reward }) => Credit.uniform(reward)) })
      const effect = withHooks({
        scoreGroup: (members) =>
          Effect.as(
            Effect.yieldNow(),
            members.map(({ reward }) => Credit.uniform(reward))
          )
      })
      const [a, b] = yield* Effect.forEach([plain, effect], (one) => score(one.layer(), group([3, 4])))
      assert.deepStrictEqual(a, b)
      assert.deepStrictEqual(advantages(a!), { "g0/0": 3, "g0/1": 4 })
    })
  )

  it.effect("an algorithm that sets no advantage for rl is an error, never a zero", () =>
    Effect.gen(function* () {
      const [item] = yield* Stream.fromIterable(group([1])).pipe(
        Pipeline.score,
        Pipeline.dependentSets,
        Pipeline.samples,
        Testing.collect,
        Effect.provide(withHooks({}).layer())
      )
      assert(item?._tag === "Absent" && item.reason._tag === "Failed")
      assert.include(item.reason.message, "no advantage")
    })
  )

  it.effect("a NaN in a credit is an error that names the rollout", () =>
    Effect.gen(function* () {
      const hooks = { scoreGroup: (members: ReadonlyArray<Rollout>) => members.map(() => Credit.uniform(Number.NaN)) }
      const [item] = yield* Stream.fromIterable(group([1])).pipe(
        Pipeline.score,
        Pipeline.dependentSets,
        Pipeline.samples,
        Testing.collect,
        Effect.provide(withHooks(hooks).layer())
      )
      assert(item?._tag === "Absent" && item.reason._tag === "Failed")
      assert.include(item.reason.message, "g0/0")
    })
  )

  it.effect("two hooks that set one token differently are named, both", () =>
    Effect.gen(function* () {
      const greedy = withHooks({
        scoreRollout: () => Credit.uniform(1),
        scoreGroup: (members) => members.map(() => Credit.uniform(2))
      })
      const [item] = yield* Stream.fromIterable(group([1])).pipe(
        Pipeline.score,
        Pipeline.dependentSets,
        Pipeline.samples,
        Testing.collect,
        Effect.provide(greedy.layer())
      )
      assert(item?._tag === "Absent" && item.reason._tag === "Failed")
      assert.include(item.reason.message, "mine.scoreRollout and mine.scoreGroup both set advantages (1 and 2)")
    })
  )

  it.effect("hooks that are an effect live as long as their layer", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const note = (what: string) => Effect.sync(() => log.push(what))
      const teacher = Algorithm.define({
        type: "teacher",
        actionLoss: "rl",
        hooks: () =>
          Effect.as(
            Effect.acquireRelease(note("open"), () => note("close")),
            { scoreRollout: () => Effect.as(note("ask"), Credit.uniform(1)) }
          )
      })
      yield* score(teacher.layer(), group([0, 0]))
      assert.deepStrictEqual(log, ["open", "ask", "ask", "close"])
    })
  )

  it.effect("a layer that cannot be built fails its stream at once", () =>
    Effect.gen(function* () {
      const broken = Algorithm.define({
        type: "broken",
        actionLoss: "rl",
        hooks: () => Effect.fail("no teacher" as const)
      })
      const sources = Pipeline.merge(
        Pipeline.source({ name: "a", rollouts: Stream.never, algorithm: Grpo.layer() }),
        Pipeline.source({ name: "b", rollouts: Stream.never, algorithm: broken.layer() })
      )
      assert.deepStrictEqual(yield* Effect.exit(Stream.runDrain(sources)), Exit.fail("no teacher" as const))
    })
  )

  it.effect("a config that a program gives is checked too", () =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(
        Effect.scoped(Layer.build(Layer.provide(Running.layer({ decay: 2 }), State.layer())))
      )
      assert(Exit.isFailure(exit))
      assert.include(Cause.pretty(exit.cause), "algorithm running, decay:")
    })
  )
})

describe("an algorithm's state", () => {
  it.effect("ADV-16: a restart in the middle changes no credit", () =>
    Effect.gen(function* () {
      const rewards = [1, 1, 0, -1]
      const run = (rewards: ReadonlyArray<number>, restored: State.Snapshot) =>
        Effect.gen(function* () {
          const ended = rewards.map((reward, i) => rollout({ id: `${i}`, reward, seat: "player0" }))
          const out = yield* Testing.through(ended)
          const values = Object.values(advantages(out)) as ReadonlyArray<number>
          return { values, state: yield* Effect.flatMap(State.State, ({ snapshot }) => snapshot) }
        }).pipe(Effect.provide(Layer.provideMerge(Running.layer(), State.layer(restored))))
      const whole = yield* run(rewards, {})
      assert.deepStrictEqual(
        whole.values.map((value) => Number(value.toFixed(6))),
        [1, 0.95, -0.0975, -1.092625]
      )
      const before = yield* run(rewards.slice(0, 2), {})
      const after = yield* run(rewards.slice(2), JSON.parse(JSON.stringify(before.state)))
      assert.deepStrictEqual([...before.values, ...after.values], [...whole.values])
      assert.deepStrictEqual(after.state, whole.state)
    })
  )

  it.effect("one layer value given to two sources is one instance each, with state under their names", () =>
    Effect.gen(function* () {
      const shared = Running.layer()
      const of = (name: string, reward: number) =>
        Pipeline.source({ name, algorithm: shared, rollouts: Stream.make(rollout({ id: name, source: name, reward })) })
      yield* Stream.runDrain(Pipeline.merge(of("a", 1), of("b", -1)))
      const snapshot = yield* Effect.flatMap(State.State, (state) => state.snapshot)
      assert.deepStrictEqual(Object.keys(snapshot).sort(), ["a/baselines", "b/baselines"])
      assert.closeTo((snapshot["a/baselines"] as { policy: number }).policy, 0.05, 1e-9)
      assert.closeTo((snapshot["b/baselines"] as { policy: number }).policy, -0.05, 1e-9)
    }).pipe(Effect.provide(State.layer()))
  )
})

describe("Algorithm.bySeat", () => {
  it.effect("each seat is scored by its own algorithm, in its own sets", () =>
    Effect.gen(function* () {
      const layer = Algorithm.bySeat({ "a/b": Grpo.layer(), a: Sft.layer() })
      const pair = group([1, 0]).map((member) => ({ ...member, seat: "a/b" }))
      const out = yield* Stream.make(
        ...pair,
        rollout({ id: "s", seat: "a" }),
        rollout({ id: "x", seat: "nobody" })
      ).pipe(Pipeline.score, Pipeline.dependentSets, Pipeline.samples, Testing.collect, Effect.provide(layer))
      const streams = (id: string) => {
        const item = out.find((item) => item._tag === "Compiled" && item.rollout.id === id)
        assert(item?._tag === "Compiled")
        const { advantages, ceWeights } = item.samples[0]!
        return [advantages && Array.from(advantages), ceWeights && Array.from(ceWeights)]
      }
      assert.deepStrictEqual(streams("g0/0"), [[0, 0, 0.5, 0.5], undefined])
      assert.deepStrictEqual(streams("s"), [undefined, [0, 0, 1, 1]])
      const nobody = out.find((item) => item._tag === "Absent")
      assert.include(JSON.stringify(nobody), 'no algorithm for seat \\"nobody\\"')
    })
  )

  it.effect("ADV-15: a running baseline of each seat is its own, and is taken before the reward moves it", () =>
    Effect.gen(function* () {
      const rewards = [1, 1, -1]
      const ended = rewards.flatMap((reward, i) => [
        rollout({ id: `a${i}`, seat: "player0", reward }),
        rollout({ id: `b${i}`, seat: "player1", reward: -reward })
      ])
      const out = advantages(yield* score(Layer.provide(Running.layer(), State.layer()), ended))
      const rounded = (ids: ReadonlyArray<string>) => ids.map((id) => Number((out[id] as number).toFixed(6)))
      assert.deepStrictEqual(rounded(["a0", "a1", "a2"]), [1, 0.95, -1.0975])
      assert.deepStrictEqual(rounded(["b0", "b1", "b2"]), [-1, -0.95, 1.0975])
    })
  )
})
