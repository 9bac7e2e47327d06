/** Waits for a server that is still starting: a large model takes minutes to load. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Backoff from "./Backoff.ts"
import { Failure } from "./Failure.ts"
import type * as Http from "./Http.ts"
import * as Models from "./Models.ts"

/** A single question may take this long, however little time is left to wait: with none, a server is asked once. */
const answerMs = 10_000

const late = (what: string) => new Failure({ what, passing: true })

/**
 * The models of a server once it answers; its last failure, when it does not in time. Fails at once with what waiting
 * would not change.
 *
 * @category requests
 */
export const ready = (
  server: Http.Server,
  model: string,
  timeoutMs: number
): Effect.Effect<Either.Either<Models.ModelList, Failure>, Failure> =>
  Effect.flatMap(Clock.currentTimeMillis, (begun) => {
    const attempt = (count: number): Effect.Effect<Either.Either<Models.ModelList, Failure>, Failure> =>
      Effect.gen(function* () {
        const left = begun + timeoutMs - (yield* Clock.currentTimeMillis)
        const answer = yield* Models.list(server).pipe(
          Effect.timeoutFail({
            duration: Math.max(left, answerMs),
            onTimeout: () => late(`GET ${server.root}/v1/models: no answer`)
          }),
          Effect.either
        )
        if (Either.isRight(answer)) return answer
        if (!answer.left.passing) return yield* answer.left
        if (begun + timeoutMs - (yield* Clock.currentTimeMillis) <= Backoff.afterMs(count)) {
          const waited = timeoutMs === 0 ? "" : `; it was waited for ${timeoutMs} ms`
          return Either.left(late(`${answer.left.what}${waited}`))
        }
        if (count === 1) yield* Effect.logInfo(`waiting up to ${timeoutMs} ms for ${model}: ${answer.left.what}`)
        yield* Effect.sleep(Backoff.afterMs(count))
        return yield* attempt(count + 1)
      })
    return attempt(1)
  })
