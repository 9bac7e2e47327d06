import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Logger, Stream } from "effect"
import MaxRl from "../../src/algorithms/MaxRl.ts"
import * as Pipeline from "../../src/Pipeline.ts"
import { absent, type Ended } from "../../src/Rollout.ts"
import * as Testing from "../../src/testing/index.ts"

const { group, score } = Testing

/** Runs with every log line in a list. */
const logged = <A, E, R>(self: Effect.Effect<A, E, R>) => {
  const lines: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => void lines.push(`${logLevel.label} ${message}`))
  return Effect.map(
    Effect.provide(self, Logger.replace(Logger.defaultLogger, logger)),
    (value) => [value, lines] as const
  )
}
const valuesOf = (ended: Iterable<Ended>) =>
  Effect.map(score(MaxRl.layer(), ended), (outcomes) => Object.values(Testing.advantages(outcomes)))
const exactly = (rewards: ReadonlyArray<number>, expected: ReadonlyArray<number>) =>
  Effect.map(valuesOf(group(rewards)), (values) => {
    assert.strictEqual(values.length, expected.length)
    for (const [i, value] of values.entries()) assert.closeTo(value as number, expected[i]!, 1e-12, `${rewards}`)
  })

describe("MaxRl", () => {
  it.effect("the advantage is (reward − mean) / mean: the rarer a success, the more it weighs", () =>
    Effect.gen(function* () {
      yield* exactly([1, 0, 0, 0], [3, -1, -1, -1])
      yield* exactly([1, 1, 1, 0], [1 / 3, 1 / 3, 1 / 3, -1])
      yield* exactly([1, 0], [1, -1])
    })
  )

  it.effect("a group without a success, and one of equals, get exactly 0", () =>
    Effect.gen(function* () {
      for (const rewards of [[0, 0], [1, 1], [0.1, 0.1, 0.1], Array(8).fill(0.95), [0.7], [5e-324, 0]]) {
        assert.deepStrictEqual(
          yield* valuesOf(group(rewards)),
          rewards.map(() => 0),
          `${rewards}`
        )
      }
    })
  )

  it.effect("ADV-09: a mean of 0 or less gives zeros, and positive rewards the formula", () =>
    Effect.gen(function* () {
      const [, lines] = yield* logged(
        Effect.gen(function* () {
          for (const rewards of [
            [-1, 1],
            [-1, -1, 0, 0],
            [0, 0, 0, 0]
          ]) {
            assert.deepStrictEqual(
              yield* valuesOf(group(rewards)),
              rewards.map(() => 0)
            )
          }
        })
      )
      assert.lengthOf(lines, 2)
      yield* exactly([1, 0, 0, 0], [3, -1, -1, -1])
      yield* exactly([0.5, 0.25], [1 / 3, -1 / 3])
    })
  )

  it.effect(
    "ADV-10: a negative reward withholds the group's credit, is counted, and is warned of once by its source",
    () =>
      Effect.gen(function* () {
        const ended = [
          ...group([1, -0.99, 0, 0], { group: "a", source: "chess" }),
          ...group([1, 0], { group: "b", source: "chess" }),
          ...group([-1, 1], { group: "c", source: "chess" })
        ]
        const [outcomes, lines] = yield* logged(score(MaxRl.layer(), ended))
        assert.deepStrictEqual(Testing.advantages(outcomes), {
          ...{ "a/0": 0, "a/1": 0, "a/2": 0, "a/3": 0 },
          ...{ "b/0": 1, "b/1": -1 },
          ...{ "c/0": 0, "c/1": 0 }
        })
        const counted = outcomes.flatMap((one) =>
          one._tag === "Scored" && one.credit.counts !== undefined ? [[one.rollout.id, one.credit.counts]] : []
        )
        assert.deepStrictEqual(Object.fromEntries(counted), {
          ...{ "a/0": { "max_rl/negative_reward": 1 }, "a/1": { "max_rl/negative_reward": 1 } },
          ...{ "a/2": { "max_rl/negative_reward": 1 }, "a/3": { "max_rl/negative_reward": 1 } },
          ...{ "c/0": { "max_rl/negative_reward": 1 }, "c/1": { "max_rl/negative_reward": 1 } }
        })
        assert.lengthOf(lines, 1)
        assert.match(lines[0]!, /^WARN .*"chess" gave -0\.99/)
      })
  )

  it.effect("each source is warned of its own", () =>
    Effect.gen(function* () {
      const layer = MaxRl.layer()
      const of = (name: string) =>
        Pipeline.source({ name, algorithm: layer, rollouts: Stream.fromIterable(group([-1, 1], { source: name })) })
      const [, lines] = yield* logged(Stream.runDrain(Pipeline.merge(of("chess"), of("go"))))
      assert.deepStrictEqual(lines.map((line) => /"(\w+)" gave/.exec(line)?.[1]).sort(), ["chess", "go"])
    })
  )

  it("ADV-11: groups of one are refused before anything runs, and so are several seats", () => {
    const source = { name: "math", groupSize: 1, seats: ["policy"], frozen: false }
    const [problem, ...more] = MaxRl.check({}, source)
    assert.deepStrictEqual([problem?.path, more], ["group_size", []])
    assert.include(problem?.message, 'source "math" has groups of 1')
    assert.deepStrictEqual(MaxRl.check({}, { ...source, groupSize: 4 }), [])
  })

  it.effect("ADV-15: several seats in one group are refused, and the error names them", () =>
    Effect.gen(function* () {
      const [a, b] = group([1, 0])
      const outcomes = yield* score(MaxRl.layer(), [
        { ...a!, seat: "player0" },
        { ...b!, seat: "player1" }
      ])
      for (const outcome of outcomes) {
        assert(outcome._tag === "Absent" && outcome.reason._tag === "Failed")
        assert.include(outcome.reason.message, "max_rl.scoreGroup of g0: seats player0, player1")
      }
      const seats = ["player0", "player1"]
      const [problem] = MaxRl.check({}, { name: "chess", groupSize: 2, seats, frozen: false })
      assert.include(problem?.message, "player0, player1")
    })
  )

  it.effect("who failed or has no reward is not in the mean", () =>
    Effect.gen(function* () {
      const [a, b, c, d] = group([1, 0, 5, Number.NaN])
      const gone = absent(c!, { _tag: "Failed", blame: "tools", message: "sandbox died" })
      assert.deepStrictEqual(Testing.advantages(yield* score(MaxRl.layer(), [a!, b!, gone, d!])), {
        "g0/0": 1,
        "g0/1": -1,
        "g0/2": "Failed",
        "g0/3": "NoReward"
      })
    })
  )

  it.effect("what overflows ships nothing", () =>
    Effect.gen(function* () {
      const items = yield* Stream.fromIterable(group([1e308, 1e308, 1])).pipe(
        Pipeline.score,
        Pipeline.dependentSets,
        Pipeline.samples,
        Testing.collect,
        Effect.provide(MaxRl.layer())
      )
      assert.deepStrictEqual(
        items.map(({ _tag }) => _tag),
        ["Absent", "Absent", "Absent"]
      )
    })
  )

  it("takes no keys, and says so", () => {
    const left = Either.getLeft(MaxRl.configure({ length_penalty: {} }))
    assert(left._tag === "Some")
    assert.strictEqual(left.value.message, "algorithm max_rl, length_penalty: is unexpected; it takes no keys")
  })
})
