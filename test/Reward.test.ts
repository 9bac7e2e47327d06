import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Logger from "effect/Logger"
import * as Reward from "../src/Reward.ts"
import * as Trace from "../src/Trace.ts"

const answer: Reward.Answer = {
  reply: "four",
  messages: [],
  trace: Trace.empty,
  turns: 1,
  stopReason: "done",
  runtime: { name: "none", alive: Effect.succeed(true) }
}

/** The scores and every warning that was logged on the way. */
const score = (rewards: Reward.Rewards<string>, metrics?: Readonly<Record<string, Reward.Score<string>>>) => {
  const warnings: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => {
    warnings.push(`${logLevel.label} ${String(message)}`)
  })
  return Reward.make(rewards, metrics)("2 + 2", answer).pipe(
    Effect.provide(Logger.replace(Logger.defaultLogger, logger)),
    Effect.either,
    Effect.map((result) => ({ result, warnings }))
  )
}

describe("rewards", () => {
  it.effect("are summed by weight and reported weighted, by name", () =>
    Effect.gen(function* () {
      const { result } = yield* score({
        lcs: { score: () => 0.125, weight: 2 },
        exact: { score: () => 1, weight: 0.5 },
        format: () => 1
      })
      expect(result).toEqual(Either.right({ reward: 1.75, rewards: { lcs: 0.25, exact: 0.5, format: 1 }, metrics: {} }))
    })
  )

  it("of no part at all are refused: a sum of nothing would be 0", () => {
    expect(() => Reward.make({})).toThrow(/nothing is rewarded/)
    expect(() => Reward.make({ seen: { score: () => 1, weight: 0 } })).toThrow(/reward seen: .*nothing is rewarded/)
  })

  it.effect("see the task and the answer", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      yield* score((task, { reply, turns }) => seen.push(task, reply, turns))
      expect(seen).toEqual(["2 + 2", "four", 1])
    })
  )

  it.effect("of weight 0 are metrics: not even NaN touches the reward", () =>
    Effect.gen(function* () {
      const { result } = yield* score({ main: () => 0.5, watched: { score: () => 40, weight: 0 } })
      expect(result).toEqual(Either.right({ reward: 0.5, rewards: { main: 0.5 }, metrics: { watched: 40 } }))
      const odd = yield* score({ main: () => 0.5, watched: { score: () => Number.NaN, weight: 0 } })
      expect(odd.result).toEqual(Either.right({ reward: 0.5, rewards: { main: 0.5 }, metrics: {} }))
    })
  )

  it.effect("a negative reward stays negative, an infinite one infinite", () =>
    Effect.gen(function* () {
      expect((yield* score(() => -2)).result).toMatchObject({ right: { reward: -2 } })
      const { result, warnings } = yield* score({ a: () => 1, b: () => Number.NEGATIVE_INFINITY })
      expect(result).toMatchObject({ right: { reward: Number.NEGATIVE_INFINITY } })
      // The rollout's absence says it; a step has many.
      expect(warnings).toEqual([])
    })
  )

  it.effect("name the one that broke", () =>
    Effect.gen(function* () {
      const judge = () => Effect.fail(new RangeError("no verdict"))
      const { result } = yield* score({ fine: () => 1, judge })
      expect(Either.getLeft(result)).toMatchObject({
        value: { message: "reward judge: RangeError: no verdict" }
      })
    })
  )

  it("with a weight that is not finite, or a name used twice, are refused", () => {
    expect(() => Reward.make({ a: { score: () => 1, weight: Number.POSITIVE_INFINITY } })).toThrow("weight is Infinity")
    expect(() => Reward.make({ a: () => 1 }, { a: () => 1 })).toThrow("a metric has the same name")
  })
})

describe("metrics", () => {
  it.effect("that break are left out and logged, and the reward stands", () =>
    Effect.gen(function* () {
      const { result, warnings } = yield* score(() => 1, {
        words: () => 3,
        broken: () => Promise.reject(new Error("offline")),
        undefinedRatio: () => 0 / 0
      })
      expect(result).toEqual(Either.right({ reward: 1, rewards: { reward: 1 }, metrics: { words: 3 } }))
      expect(warnings).toEqual([
        expect.stringContaining("WARN metric broken left out: Error: offline"),
        expect.stringContaining("metric undefinedRatio left out: it is NaN")
      ])
    })
  )
})
