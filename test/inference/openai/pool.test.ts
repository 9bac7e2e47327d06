/** Which of several servers is asked, by the clock alone. */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { Failure } from "../../../src/inference/openai/Failure.ts"
import * as Pool from "../../../src/inference/openai/Pool.ts"

/** Two servers, of which "a" fails the attempts whose numbers are told; gives the servers in the order of attempts. */
const pool = (failing: Readonly<Record<number, number | undefined>>) => {
  const asked: Array<string> = []
  let attemptsAtA = 0
  const { ask } = Pool.make(["a", "b"], { maxRetries: 2, concurrency: 4 })
  const request = ask((server) =>
    Effect.suspend(() => {
      asked.push(server)
      const attempt = server === "a" ? ++attemptsAtA : 0
      return attempt in failing
        ? Effect.fail(new Failure({ what: "busy", passing: true, retryAfterMs: failing[attempt] }))
        : Effect.void
    })
  )
  return { asked, request }
}

describe("a server that failed", () => {
  it.effect("is left alone for as long as it asked to be", () =>
    Effect.gen(function* () {
      const { asked, request } = pool({ 1: 7_000 })
      yield* request
      expect(asked.splice(0)).toEqual(["a", "b"])
      yield* TestClock.adjust(6_999)
      yield* Effect.repeatN(request, 3)
      expect(asked.splice(0)).toEqual(["b", "b", "b", "b"])
      yield* TestClock.adjust(1)
      yield* request
      expect(asked).toEqual(["a"])
    })
  )

  it.effect("and has answered since waits a second again, not two", () =>
    Effect.gen(function* () {
      const { asked, request } = pool({ 1: undefined, 3: undefined })
      yield* request
      yield* TestClock.adjust(1_000)
      yield* Effect.repeatN(request, 2)
      expect(asked.splice(0)).toEqual(["a", "b", "a", "b", "a", "b"])
      yield* TestClock.adjust(1_000)
      yield* request
      expect(asked).toEqual(["a"])
    })
  )
})
