import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import * as Deadlines from "../../../src/inference/openai/Deadlines.ts"

it.scoped("each limit runs out at its own time, unless what it was for has come", () =>
  Effect.gen(function* () {
    const { after } = yield* Deadlines.make
    const late: Array<string> = []
    const limit = (name: string, ms: number) => after(ms, () => late.push(name))
    const came = limit("came", 10)
    limit("ten", 10)
    limit("long", 1_000)
    limit("never", Number.POSITIVE_INFINITY)
    yield* TestClock.adjust(5)
    limit("ten later", 10)
    came()
    yield* TestClock.adjust(4)
    expect(late).toEqual([])
    yield* TestClock.adjust(1)
    expect(late).toEqual(["ten"])
    yield* TestClock.adjust(5)
    expect(late).toEqual(["ten", "ten later"])
    // a watcher that has gone home comes again
    limit("ten again", 10)
    yield* TestClock.adjust(10)
    expect(late).toEqual(["ten", "ten later", "ten again"])
    yield* TestClock.adjust(975)
    expect(late.at(-1)).toBe("long")
  })
)
