/** Time that passes when a test says so: what sleeps, retries or times out in it ends at once and always alike. */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import { TestContext } from "effect/TestContext"

export { TestClock }

/** A clock that stands still; `it.effect` of @effect/vitest has one already. @category layers */
export const layerClock = TestContext

/**
 * Runs an effect while this much time passes on the test's clock. It waits for an effect that has not ended by then,
 * which on a clock that stands still is for ever.
 *
 * @category running
 */
export const during = <A, E, R>(duration: Duration.DurationInput, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(effect)
    yield* TestClock.adjust(duration)
    return yield* Fiber.join(fiber)
  })
