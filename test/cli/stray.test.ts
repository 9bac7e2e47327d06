import { EventEmitter } from "node:events"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { ending } from "../../cli/exit.ts"
import { guarded } from "../../cli/stray.ts"

describe("an error that strays", () => {
  it.effect("interrupts the command in order and is its one line, however many follow", () =>
    Effect.gen(function* () {
      for (const event of ["uncaughtException", "unhandledRejection"]) {
        const emitter = new EventEmitter()
        let closed = 0
        const command = Effect.onInterrupt(Effect.never, () => Effect.sync(() => closed++))
        const fiber = yield* Effect.fork(Effect.exit(guarded(emitter)(command)))
        yield* Effect.yieldNow()
        while (emitter.listenerCount(event) === 0) yield* Effect.yieldNow()
        emitter.emit(event, new TypeError("no such tool"))
        emitter.emit(event, new Error("later"))
        const { code, text } = ending(yield* Fiber.join(fiber))
        expect([code, closed]).toEqual([1, 1])
        expect(text).toMatch(
          /^primerl: an error that nothing caught.*: TypeError: no such tool \(at .*stray\.test\.ts.*\)\n$/
        )
        emitter.emit(event, new Error("and later still"))
      }
    })
  )

  it.effect("a command that ends by itself is what it was", () =>
    Effect.gen(function* () {
      expect(yield* guarded(new EventEmitter())(Effect.succeed(1))).toBe(1)
      expect(yield* Effect.flip(guarded(new EventEmitter())(Effect.fail("own")))).toBe("own")
    })
  )
})
