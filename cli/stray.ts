/** Errors that escape from a user's code: a promise that nobody awaits, a callback that throws. They end the command in order. */
import type { EventEmitter } from "node:events"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"

/** @category errors */
export class StrayError extends Data.TaggedError("StrayError")<{ readonly thrown: unknown }> {
  override get message() {
    const { thrown } = this
    const what = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown)
    // The first line of a stack that is a place says whose code it was.
    const frame = thrown instanceof Error ? /^\s+(at .*)$/m.exec(thrown.stack ?? "")?.[1] : undefined
    return `an error that nothing caught, in a promise without await or in a callback: ${what}${frame === undefined ? "" : ` (${frame})`}`
  }
}

/** Runs an effect until it ends or an error strays; then it is interrupted as Ctrl-C would. @category combinators */
export const guarded =
  (emitter: EventEmitter) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | StrayError, R> => {
    // The listeners stay: what strays while the command ends must not end it halfway.
    const stray = Effect.async<never, StrayError>((resume) => {
      const listener = (thrown: unknown) => resume(Effect.fail(new StrayError({ thrown })))
      emitter.on("uncaughtException", listener)
      emitter.on("unhandledRejection", listener)
    })
    return Effect.raceFirst(effect, stray)
  }
