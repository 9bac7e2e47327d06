import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Ref, Schema } from "effect"
import * as Algorithm from "../../src/Algorithm.ts"
import Echo from "../../src/algorithms/Echo.ts"
import Grpo from "../../src/algorithms/Grpo.ts"
import HierarchicalGrpo from "../../src/algorithms/HierarchicalGrpo.ts"
import MaxRl from "../../src/algorithms/MaxRl.ts"
import Opd from "../../src/algorithms/Opd.ts"
import Opsd from "../../src/algorithms/Opsd.ts"
import Rae from "../../src/algorithms/Rae.ts"
import Sft from "../../src/algorithms/Sft.ts"
import * as Credit from "../../src/Credit.ts"
import type { Rollout } from "../../src/Rollout.ts"
import { registry } from "../../src/Run.ts"
import * as RlLoss from "../../src/Trainer/RlLoss.ts"
import * as Testing from "../../src/testing/index.ts"

const few = { runs: 5 }

type Tried = readonly [layer: Testing.Subject, options: Testing.PropertyOptions]

const builtIn: Readonly<Record<string, Tried>> = {
  grpo: [Grpo.layer(), few],
  max_rl: [MaxRl.layer(), { ...few, shiftInvariant: false }],
  rae: [Rae.layer(), { ...few, stateful: true }],
  hierarchical_grpo: [HierarchicalGrpo.layer({ episode_agents: ["solver"] }), few],
  opd: [Opd.layer({ teacher: { name: "expert", base_url: "http://localhost:1/v1" } }), few],
  opsd: [Opsd.layer(), { ...few, runs: 3 }],
  sft: [Sft.layer(), few],
  echo: [Echo.layer(), few]
}

describe("every built-in algorithm keeps what is expected of it", () => {
  it("and every one is tried", () => {
    assert.sameMembers(Object.keys(builtIn), [...registry.known])
  })
  for (const [type, [layer, options]] of Object.entries(builtIn)) {
    describe(type, () => {
      for (const { name, run } of Testing.properties(layer, options)) it(name, run)
    })
  }
})

/** Solvers of one problem within their episode, its proposer across the group: two problems, two solvers each. */
const proposed: Testing.PropertyOptions["group"] = (members, { group, sequence }) => {
  const seats = ["proposer", "solver", "solver"]
  return members.map(({ reward, trace }, i) =>
    Testing.rollout({
      id: `${group}/${i}`,
      example: group,
      sequence: sequence + i,
      seat: seats[i % 3]!,
      group: { id: group, size: members.length },
      episode: { id: `${group}/e${Math.floor(i / 3)}`, size: 3 },
      reward,
      trace
    })
  )
}

describe("hierarchical_grpo with several seats", () => {
  const options = { ...few, group: proposed, exchangeable: false, monotone: false, improves: false }
  const layer = HierarchicalGrpo.layer({ episode_agents: ["solver"] })
  for (const { name, run } of Testing.properties(layer, options)) it(name, run)
})

const ofGroup = (type: string, scoreGroup: (group: ReadonlyArray<Rollout>) => ReadonlyArray<Credit.Credit>) =>
  Algorithm.define({ type, actionLoss: "rl", hooks: () => ({ scoreGroup }) })

const mean = (group: ReadonlyArray<Rollout>) => group.reduce((sum, { reward }) => sum + reward, 0) / group.length

/** Which of the named properties an algorithm does not keep. */
const failing = (layer: Testing.Subject, ...names: ReadonlyArray<string>) =>
  Effect.filter(names, (name) =>
    Effect.map(
      Testing.properties(layer).find((property) => property.name === name)!.verdict,
      ({ _tag }) => _tag === "Fails"
    )
  )

/** It keeps none of them. */
const fails = (layer: Testing.Subject, ...names: ReadonlyArray<string>) =>
  Effect.map(failing(layer, ...names), (found) => assert.deepStrictEqual(found, names))

const names = {
  all: "every rollout of a group gets one credit",
  same: "the same rollouts get the same credit",
  left: "scoring leaves rollouts as they were",
  finite: "credit is finite on every edge case",
  sampled: "rl claims are about sampled tokens",
  shift: "a constant added to all rewards changes nothing",
  equal: "equal rewards give no rl signal",
  permuted: "a permuted group gets permuted credit",
  arrival: "the order of arrival changes nothing",
  alone: "a group's credit is what it is alone",
  monotone: "a higher reward gets no lower advantage",
  improves: "one step raises the expected reward",
  packing: "packing changes neither loss nor gradient"
}

describe("an algorithm that is wrong fails by name", () => {
  it.effect("a GRPO whose sign is wrong", () =>
    Effect.gen(function* () {
      const wrong = ofGroup("wrong_sign", (group) => group.map(({ reward }) => Credit.uniform(mean(group) - reward)))
      yield* fails(wrong.layer(), names.monotone, names.improves)
    })
  )

  it.effect("one that leaks between groups", () =>
    Effect.gen(function* () {
      const leaking = Algorithm.define({
        type: "leaking",
        actionLoss: "rl",
        hooks: () =>
          Effect.map(Ref.make<ReadonlyArray<number>>([]), (seen) => ({
            scoreGroup: (group: ReadonlyArray<Rollout>) =>
              Effect.map(
                Ref.updateAndGet(seen, (all) => [...all, ...group.map(({ reward }) => reward)]),
                (all) => {
                  const baseline = all.reduce((sum, reward) => sum + reward, 0) / all.length
                  return group.map(({ reward }) => Credit.uniform(reward - baseline))
                }
              )
          }))
      })
      yield* fails(leaking.layer(), names.alone, names.arrival)
    })
  )

  it.effect("one that returns NaN where rewards are equal", () =>
    Effect.gen(function* () {
      const divided = ofGroup("divided", (group) => {
        const deviation = Math.sqrt(mean(group.map((one) => ({ ...one, reward: (one.reward - mean(group)) ** 2 }))))
        return group.map(({ reward }) => Credit.uniform((reward - mean(group)) / deviation))
      })
      yield* fails(divided.layer(), names.finite)
    })
  )

  it.effect("ADV-03: one whose mean of equal rewards is not quite that reward", () =>
    Effect.gen(function* () {
      const rounding = ofGroup("rounding", (group) => group.map(({ reward }) => Credit.uniform(reward - mean(group))))
      yield* fails(rounding.layer(), names.equal)
      const below = ofGroup("below", (group) => group.map(() => Credit.uniform(-1)))
      yield* fails(below.layer(), names.equal)
    })
  )

  it.effect("one that is trained on a loss that knows how often it was asked", () =>
    Effect.gen(function* () {
      let asked = 0
      const counting = RlLoss.make(
        RlLoss.define({
          type: "counting",
          Config: Schema.Struct({}),
          loss:
            () =>
            ({ advantages, trainer }) =>
              trainer.times(advantages).times(++asked)
        }),
        {}
      )
      const packing = Testing.properties(Grpo.layer(), { loss: counting }).find(({ name }) => name === names.packing)!
      const verdict = yield* packing.verdict
      assert(verdict._tag === "Fails")
      assert.match(verdict.why, /^one sample in each micro-batch: the (rl loss|gradient of token)/)
    })
  )

  it.effect("one that goes by who arrives first", () =>
    Effect.gen(function* () {
      const first = ofGroup("first", (group) => group.map((_, i) => Credit.uniform(i === 0 ? 1 : -1)))
      yield* fails(first.layer(), names.permuted, names.arrival, names.equal, names.monotone)
    })
  )

  it.effect("one that compares with nothing", () =>
    Effect.gen(function* () {
      const raw = ofGroup("raw", (group) => group.map(({ reward }) => Credit.uniform(reward)))
      yield* fails(raw.layer(), names.shift, names.equal)
      assert.deepStrictEqual(yield* failing(raw.layer(), names.monotone, names.permuted, names.alone), [])
    })
  )

  it.effect("one that forgets a member, one that is never the same, one that changes what it reads", () =>
    Effect.gen(function* () {
      const short = ofGroup("short", (group) => group.slice(1).map(() => Credit.uniform(0)))
      yield* fails(short.layer(), names.all, names.finite)
      let calls = 0
      const moody = ofGroup("moody", (group) => group.map(() => Credit.uniform(calls++)))
      yield* fails(moody.layer(), names.same)
      const careless = ofGroup("careless", (group) => {
        for (const { trace } of group) trace.nodes[0]!.tokenIds[0] = 7
        return group.map(() => Credit.uniform(0))
      })
      yield* fails(careless.layer(), names.left)
    })
  )

  it.effect("one that claims advantages over what a tool said", () =>
    Effect.gen(function* () {
      const over = Algorithm.define({
        type: "over",
        actionLoss: "rl",
        hooks: () => ({
          scoreGroup: (group) =>
            group.map(({ reward, trace }) =>
              trace.nodes.reduce(
                (all, _, node) =>
                  Credit.combine(all, { claims: [{ stream: "advantages", over: node, values: reward, writer: "" }] }),
                Credit.empty
              )
            )
        })
      })
      yield* fails(over.layer(), names.sampled)
    })
  )

  it.effect("one that does not start", () =>
    Effect.gen(function* () {
      const broken = Algorithm.define({ type: "broken", actionLoss: "rl", hooks: () => Effect.fail("no teacher") })
      const { algorithm, holds, properties } = yield* Testing.check(broken.layer(), few)
      assert.strictEqual(algorithm, "an algorithm that does not start")
      assert.isFalse(holds)
      for (const { verdict } of properties) {
        assert(verdict._tag === "Fails" && verdict.why.includes("no teacher"))
      }
    })
  )

  it.effect("and the message says which property, what is wrong, and with which rollouts, as few as do", () =>
    Effect.gen(function* () {
      const wrong = ofGroup("wrong_sign", (group) => group.map(({ reward }) => Credit.uniform(mean(group) - reward)))
      const property = Testing.properties(wrong.layer(), few).find(({ name }) => name === names.monotone)
      const exit = yield* Effect.exit(Effect.tryPromise({ try: () => property!.run(), catch: (error) => error }))
      const error = Exit.isFailure(exit) && exit.cause._tag === "Fail" ? exit.cause.error : undefined
      assert(error instanceof Testing.PropertyError)
      assert.strictEqual(
        error.message,
        "a higher reward gets no lower advantage: reward 0.125 gets -0.0625 and reward 0, which is less, gets 0.0625\n  with rewards [0, 0.125]"
      )
    })
  )
})

it.effect("of one that remembers nothing is expected that memory breaks, unless it is asked for", () =>
  Effect.gen(function* () {
    const raw = ofGroup("raw", (group) => group.map(({ reward }) => Credit.uniform(reward))).layer()
    const verdicts = (options: Testing.PropertyOptions) =>
      Effect.forEach([names.shift, names.equal, names.permuted, names.arrival, names.alone, names.monotone], (name) =>
        Effect.map(Testing.properties(raw, options).find((one) => one.name === name)!.verdict, ({ _tag }) => _tag)
      )
    assert.deepStrictEqual(yield* verdicts({ ...few, stateful: true }), Array(6).fill("DoesNotApply"))
    const [shift] = yield* verdicts({ ...few, stateful: true, shiftInvariant: true })
    assert.strictEqual(shift, "Fails")
  })
)

it.effect("what does not apply is told apart from what holds", () =>
  Effect.gen(function* () {
    const text = Testing.reportText(yield* Testing.check(Sft.layer(), few))
    assert.include(text, "holds  every rollout of a group gets one credit\n")
    assert.include(text, "-      equal rewards give no rl signal (it scores every rollout by itself)\n")
    assert.include(text, "-      one step raises the expected reward (nothing of what it says is concerned)\n")
  })
)
