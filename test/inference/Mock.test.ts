import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import * as Mock from "../../src/inference/Mock.ts"

const promptIds = Int32Array.of(1, 2, 3)
const sampling = { temperature: 1, maxTokens: 5, stopTokenIds: [9, 8], seed: 1 }

it.effect("a scripted reply is said to the letter, ended by the stop token, cut at the limit", () =>
  Effect.gen(function* () {
    const reply = (ids: Int32Array) => (ids[0] === 1 ? [4, 5, 6] : ids[0] === 2 ? [4, 8, 6] : undefined)
    const mock = yield* Mock.make({ vocabularySize: 12, reply })
    const said = yield* mock.generate(promptIds, sampling)
    expect([...said.tokenIds]).toEqual([4, 5, 6, 9])
    expect(said.finishReason).toBe("stop")
    const scored = yield* mock.score(Int32Array.from([...promptIds, ...said.tokenIds]))
    expect(scored.subarray(3)).toEqual(said.logprobs)
    const cut = yield* mock.generate(promptIds, { ...sampling, maxTokens: 2 })
    expect([[...cut.tokenIds], cut.finishReason]).toEqual([[4, 5], "length"])
    const stopped = yield* mock.generate(Int32Array.of(2), sampling)
    expect([[...stopped.tokenIds], stopped.finishReason]).toEqual([[4, 8], "stop"])
    const open = yield* mock.generate(promptIds, { ...sampling, stopTokenIds: [] })
    expect([[...open.tokenIds], open.finishReason]).toEqual([[4, 5, 6], "length"])
    const free = yield* mock.generate(Int32Array.of(3), { ...sampling, stopTokenIds: [] })
    expect(free.tokenIds.length).toBe(5)
  })
)

it.effect("a scripted id outside the vocabulary is an error", () =>
  Effect.gen(function* () {
    const mock = yield* Mock.make({ vocabularySize: 12, reply: () => [12] })
    expect((yield* Effect.flip(mock.generate(promptIds, sampling))).message).toMatch(/reply\[0\] is 12/)
  })
)

it.effect("a generation takes its time by the clock, and is stamped with the version at its start", () =>
  Effect.gen(function* () {
    const mock = yield* Mock.make({ durationMs: () => 50 })
    const fiber = yield* Effect.fork(mock.generate(promptIds, sampling))
    yield* TestClock.adjust(49)
    yield* mock.adopt({ version: 7, snapshot: { bytes: 0 } })
    expect(Option.isNone(yield* Fiber.poll(fiber))).toBe(true)
    yield* TestClock.adjust(1)
    expect((yield* Fiber.join(fiber)).policyVersion).toBe(0)
    const later = yield* Effect.fork(mock.generate(promptIds, sampling))
    yield* TestClock.adjust(50)
    expect((yield* Fiber.join(later)).policyVersion).toBe(7)
  })
)

it.effect("the share of draws follows the log-probabilities", () =>
  Effect.gen(function* () {
    const mock = yield* Mock.make({ vocabularySize: 5 })
    const counts = new Float64Array(5)
    const seeds = 4000
    for (let seed = 0; seed < seeds; seed++) {
      const { tokenIds } = yield* mock.generate(promptIds, { ...sampling, maxTokens: 1, stopTokenIds: [], seed })
      counts[tokenIds[0]!]! += 1 / seeds
    }
    for (let id = 0; id < 5; id++) {
      const scored = yield* mock.score(Int32Array.from([...promptIds, id]))
      expect(Math.abs(counts[id]! - Math.exp(scored[3]!))).toBeLessThan(0.03)
    }
  })
)
