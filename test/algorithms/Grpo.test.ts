import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import * as FastCheck from "effect/FastCheck"
import Grpo from "../../src/algorithms/Grpo.ts"
import * as Pipeline from "../../src/Pipeline.ts"
import { absent, type Ended, type Rollout } from "../../src/Rollout.ts"
import * as Testing from "../../src/testing/index.ts"

const { conversation, group, node, rollout, score } = Testing

/** Advantages by id, rounded, of a group of rewards. */
const advantagesOf = (ended: Iterable<Ended>, layer = Grpo.layer()) =>
  Effect.map(score(layer, ended), (outcomes) =>
    Object.fromEntries(
      Object.entries(Testing.advantages(outcomes)).map(([id, value]) => [
        id,
        typeof value === "number" ? Number(value.toFixed(6)) : value
      ])
    )
  )
const valuesOf = (ended: ReadonlyArray<Ended>, layer = Grpo.layer()) =>
  Effect.map(advantagesOf(ended, layer), (all) =>
    ended.map((one) => all[one._tag === "Absent" ? one.planned.id : one.id])
  )
const exact = (ended: Iterable<Ended>) =>
  Effect.map(score(Grpo.layer(), ended), (outcomes) => Object.values(Testing.advantages(outcomes)))

const withTrace = (rollouts: ReadonlyArray<Rollout>, traces: ReadonlyArray<Rollout["trace"]>) =>
  rollouts.map((rollout, i) => ({ ...rollout, trace: traces[i]! }))
const lengths = (output: number, input = 1, turns = 1) =>
  conversation(
    node("user", Array(input).fill(1)),
    ...Array.from({ length: turns }, (_, turn) =>
      node("assistant", Array(turn === 0 ? output - (turns - 1) : 1).fill(2))
    )
  )

describe("Grpo", () => {
  it.effect("the advantage is the reward less the group's mean: above it is pushed up, below it is pushed down", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* valuesOf(group([1, 0.5, 0.8])), [0.233333, -0.266667, 0.033333])
      assert.deepStrictEqual(yield* valuesOf(group([0.7])), [0])
    })
  )

  it.effect("a sampled token's advantage reaches the sample, and is positive for the better rollout", () =>
    Effect.gen(function* () {
      const items = yield* Stream.fromIterable(group([1, 0])).pipe(
        Pipeline.score,
        Pipeline.dependentSets,
        Pipeline.samples,
        Testing.collect,
        Effect.provide(Grpo.layer())
      )
      const streams = items.map((item) => item._tag === "Compiled" && Array.from(item.samples[0]!.advantages!))
      assert.deepStrictEqual(streams, [
        [0, 0, 0.5, 0.5],
        [0, 0, -0.5, -0.5]
      ])
    })
  )

  it.effect("ADV-02: rollouts of one task are one group, whatever their ids", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* valuesOf(group([1, 0, 0, 1])), [0.5, -0.5, -0.5, 0.5])
    })
  )

  it.effect("ADV-03: equal rewards give exactly zero credit, and no signal", () =>
    Effect.gen(function* () {
      const flat = [
        Array(3).fill(0.1),
        Array(8).fill(0.2),
        Array(10).fill(0.7),
        Array(8).fill(0.95),
        Array(3).fill(0.3),
        Array(16).fill(0.25)
      ]
      for (const rewards of flat) {
        assert.deepStrictEqual(
          yield* exact(group(rewards)),
          rewards.map(() => 0)
        )
      }
      assert.notInclude(yield* exact(group([0.1, 0.1, 0.1001])), 0)
      const signals = (rewards: ReadonlyArray<number>) =>
        Stream.fromIterable(group(rewards)).pipe(
          Pipeline.score,
          Pipeline.dependentSets,
          Pipeline.samples,
          Stream.map((item) => item._tag === "Compiled" && [item.signal, item.samples.length, item.withoutSignal]),
          Testing.collect,
          Effect.provide(Grpo.layer())
        )
      assert.deepStrictEqual(yield* signals([0.1, 0.1, 0.1]), Array(3).fill([false, 0, 1]))
      assert.deepStrictEqual(yield* signals([0.1, 0.1, 0.1001]), Array(3).fill([true, 1, 0]))
    })
  )

  it.effect("ADV-06: a reward that is not a number is excluded and counted, and is in no baseline", () =>
    Effect.gen(function* () {
      for (const broken of [Number.NaN, Number.POSITIVE_INFINITY]) {
        assert.deepStrictEqual(yield* valuesOf(group([1, broken, 0, 1])), [0.333333, "NoReward", -0.666667, 0.333333])
      }
    })
  )

  it.effect("rewards whose sum overflows ship nothing that is not finite", () =>
    Effect.gen(function* () {
      const items = yield* Stream.fromIterable(group([1e308, 1e308, 1])).pipe(
        Pipeline.score,
        Pipeline.dependentSets,
        Pipeline.samples,
        Testing.collect,
        Effect.provide(Grpo.layer())
      )
      assert.deepStrictEqual(
        items.map((item) => item._tag === "Absent" && item.reason._tag),
        ["Failed", "Failed", "Failed"]
      )
    })
  )

  it.effect("ADV-12: a rollout with nothing to train is not in the baseline", () =>
    Effect.gen(function* () {
      const empty = conversation(node("user", [1, 2]), node("assistant", [3, 4], { mask: [0, 0] }))
      const full = rollout().trace
      assert.deepStrictEqual(yield* valuesOf(withTrace(group([100, 1]), [empty, full])), ["NothingTrainable", 0])
      assert.deepStrictEqual(yield* valuesOf(withTrace(group([100, 1, 0]), [empty, full, full])), [
        "NothingTrainable",
        0.5,
        -0.5
      ])
    })
  )

  it.effect("ADV-14: groups are keyed by example, in any order of arrival", () =>
    Effect.gen(function* () {
      const a = group([1, 0], { group: "a" })
      const b = group([0, 0], { group: "b" })
      const expected = { "a/0": 0.5, "a/1": -0.5, "b/0": 0, "b/1": 0 }
      const all = [a[0]!, b[0]!, a[1]!, b[1]!]
      assert.deepStrictEqual(yield* advantagesOf(all), expected)
      yield* Effect.promise(() =>
        FastCheck.assert(
          FastCheck.asyncProperty(FastCheck.shuffledSubarray(all, { minLength: 4 }), async (order) =>
            assert.deepStrictEqual(await Effect.runPromise(advantagesOf(order)), expected)
          ),
          { numRuns: 24 }
        )
      )
    })
  )

  it.effect("ADV-15: several seats in one group are refused, and the error names them", () =>
    Effect.gen(function* () {
      const [first, second] = group([1, -1])
      const outcomes = yield* score(Grpo.layer(), [
        { ...first!, seat: "player0" },
        { ...second!, seat: "player1" }
      ])
      for (const outcome of outcomes) {
        assert(outcome._tag === "Absent" && outcome.reason._tag === "Failed")
        assert.strictEqual(outcome.reason.blame, "algorithm")
        assert.include(outcome.reason.message, "grpo.scoreGroup of g0: seats player0, player1")
      }
      const source = { name: "chess", groupSize: 2, seats: ["player0", "player1"], frozen: false }
      const [problem] = Grpo.check({}, source)
      assert.include(problem?.message, "player0, player1")
    })
  )

  it("ADV-01: groups of one, and rollouts of a frozen model, are refused before anything runs", () => {
    const problems = (source: { groupSize?: number; frozen?: boolean }) =>
      Grpo.check({}, { name: "math", groupSize: 8, seats: ["policy"], frozen: false, ...source })
    assert.deepStrictEqual(problems({}), [])
    assert.deepStrictEqual(
      problems({ groupSize: 1 }).map(({ path }) => path),
      ["group_size"]
    )
    const [frozen] = problems({ frozen: true })
    assert.strictEqual(frozen?.path, "sampling.source")
    assert.include(frozen?.message, 'source "math" samples from a frozen model')
  })

  it.effect("a member that failed or was cancelled releases the group and is not in its baseline", () =>
    Effect.gen(function* () {
      const [a, b, c] = group([1, 0, 5])
      const ended = [a!, b!, absent(c!, { _tag: "Cancelled", why: "overload" })]
      assert.deepStrictEqual(yield* valuesOf(ended), [0.5, -0.5, "Cancelled"])
    })
  )

  it.effect("credit sums to zero over a group and does not move when all rewards do", () =>
    Effect.promise(() =>
      FastCheck.assert(
        FastCheck.asyncProperty(
          FastCheck.array(FastCheck.integer({ min: -100, max: 100 }), { minLength: 2, maxLength: 8 }),
          FastCheck.integer({ min: -50, max: 50 }),
          async (rewards, shift) => {
            const credits = (await Effect.runPromise(exact(group(rewards)))) as ReadonlyArray<number>
            const moved = (await Effect.runPromise(
              exact(group(rewards.map((r) => r + shift)))
            )) as ReadonlyArray<number>
            assert.closeTo(
              credits.reduce((a, b) => a + b, 0),
              0,
              1e-9
            )
            for (const [i, credit] of credits.entries()) assert.closeTo(moved[i]!, credit, 1e-9)
          }
        ),
        { numRuns: 50 }
      )
    )
  )
})

describe("Grpo with a length penalty", () => {
  const only = (weights: { output?: number; input?: number; turns?: number }) =>
    Grpo.layer({
      length_penalty: {
        type: "linear",
        num_output_tokens_weight: weights.output ?? 0,
        num_input_tokens_weight: weights.input ?? 0,
        num_turns_weight: weights.turns ?? 0
      }
    })

  it.effect("equal lengths change nothing", () =>
    Effect.gen(function* () {
      const layer = Grpo.layer({ length_penalty: { type: "linear" } })
      assert.deepStrictEqual(yield* valuesOf(group([1, 0, 1]), layer), [0.333333, -0.666667, 0.333333])
    })
  )

  it.effect("of rollouts that are as good, the shorter is preferred: by output, by input, by turns", () =>
    Effect.gen(function* () {
      const byOutput = withTrace(group([1, 1, 1]), [lengths(10), lengths(20), lengths(30)])
      assert.deepStrictEqual(yield* valuesOf(byOutput, only({ output: 0.25 })), [0.083333, 0, -0.083333])
      const byInput = withTrace(group([1, 1]), [lengths(4, 1), lengths(4, 101)])
      assert.deepStrictEqual(yield* valuesOf(byInput, only({ input: 0.25 })), [0.123762, -0.123762])
      const byTurns = withTrace(group([1, 1]), [lengths(4, 1, 1), lengths(4, 1, 4)])
      assert.deepStrictEqual(yield* valuesOf(byTurns, only({ turns: 0.25 })), [0.09375, -0.09375])
    })
  )

  it.effect("a length that no rollout has is held to 1: nothing is divided by 0, and no share of a token is one", () =>
    Effect.gen(function* () {
      const bare = conversation(node("assistant", [2, 2, 2]))
      assert.deepStrictEqual(yield* valuesOf(withTrace(group([1, 1]), [bare, bare]), only({ input: 0.25 })), [0, 0])
      const one = withTrace(group([1, 1]), [bare, lengths(3, 1)])
      assert.deepStrictEqual(yield* valuesOf(one, only({ input: 0.25 })), [0.125, -0.125])
    })
  )

  it.effect("ADV-19: the penalty is for all, failures included: pinned numbers", () =>
    Effect.gen(function* () {
      const rollouts = withTrace(group([1, 0, 0]), [lengths(10), lengths(10), lengths(100)])
      assert.deepStrictEqual(yield* valuesOf(rollouts, only({ output: 1 })), [0.766667, -0.233333, -0.533333])
    })
  )

  it.effect("longer is never preferred, not even where the mean reward is negative or above 1", () =>
    Effect.gen(function* () {
      const traces = [lengths(10), lengths(20)]
      assert.deepStrictEqual(yield* valuesOf(withTrace(group([-1, -1]), traces), only({ output: 0.5 })), [0, 0])
      assert.deepStrictEqual(yield* valuesOf(withTrace(group([7, 7]), traces), only({ output: 0.5 })), [0.125, -0.125])
    })
  )
})
