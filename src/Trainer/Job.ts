/** Calls of the addon as effects that fail with `NativeError`. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Native from "./Native.ts"
import { fromUnknown, type NativeError } from "./NativeError.ts"

/** Starts a job; interruption cancels it and waits until it has stopped. @category running */
export const run = <A>(operation: string, start: () => Native.Job<A>): Effect.Effect<A, NativeError> =>
  Effect.async((resume) => {
    const started = Either.try({ try: start, catch: (cause) => fromUnknown(operation, cause) })
    if (Either.isLeft(started)) return resume(Effect.fail(started.left))
    const job = started.right
    job.done.then(
      (value) => resume(Effect.succeed(value)),
      (cause) => resume(Effect.fail(fromUnknown(operation, cause)))
    )
    return stop(job)
  })

const ignore = () => {}

/** Cancels the job, and waits until it has stopped. @category running */
export const stop = <A>(job: Native.Job<A>): Effect.Effect<void> =>
  Effect.suspend(() => {
    job.cancel()
    return Effect.promise(() => job.done.then(ignore, ignore))
  })

/** What is computed at once. @category running */
export const now = <A>(operation: string, compute: () => A): Effect.Effect<A, NativeError> =>
  Effect.try({ try: compute, catch: (cause) => fromUnknown(operation, cause) })
