/**
 * Several servers of one model. A request goes to the one with the fewest requests under way; a server that fails is put
 * aside for a while, and asked again when the others are too, or when its time is over. What one request can wait for is
 * bounded by its attempts, and no request waits for the failures of another.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Backoff from "./Backoff.ts"
import { Failure } from "./Failure.ts"

interface Member<S> {
  readonly server: S
  underWay: number
  /** requests so far, so that an idle pool is used in turn */
  served: number
  /** in a row */
  failures: number
  asideUntil: number
}

/** @category model */
export interface Options {
  /** attempts after the first */
  readonly maxRetries: number
  /** requests under way at the same time, over all servers */
  readonly concurrency: number
}

/** @category model */
export interface Pool<S> {
  /** Asks until an answer comes, the failure is one that stays, or the attempts are used up. */
  readonly ask: <A>(request: (server: S) => Effect.Effect<A, Failure>) => Effect.Effect<A, Failure>
}

const before = <S>(a: Member<S>, b: Member<S>, now: number): number =>
  Math.max(a.asideUntil - now, 0) - Math.max(b.asideUntil - now, 0) || a.underWay - b.underWay || a.served - b.served

/** Every server's last word, where there are several. */
const together = (failures: ReadonlyMap<unknown, Failure>, attempts: number): Failure => {
  const all = Array.from(failures.values())
  const what = all.map((failure) => failure.what).join("; ")
  return new Failure({ what: attempts === 1 ? what : `${what} (after ${attempts} attempts)`, passing: false })
}

/** @category constructors */
export const make = <S>(servers: readonly [S, ...Array<S>], options: Options): Pool<S> => {
  const members = servers.map((server): Member<S> => ({ server, underWay: 0, served: 0, failures: 0, asideUntil: 0 }))
  const permits = Effect.unsafeMakeSemaphore(options.concurrency)

  const choose = (now: number) => members.reduce((best, next) => (before(next, best, now) < 0 ? next : best))

  const use = <A>(member: Member<S>, request: (server: S) => Effect.Effect<A, Failure>) =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        member.underWay++
        member.served++
      }),
      () => request(member.server),
      () => Effect.sync(() => member.underWay--)
    )

  const ask = <A>(request: (server: S) => Effect.Effect<A, Failure>): Effect.Effect<A, Failure> => {
    const failures = new Map<S, Failure>()
    const attempt = (count: number): Effect.Effect<A, Failure> =>
      Effect.gen(function* () {
        const member = choose(yield* Clock.currentTimeMillis)
        const answer = yield* Effect.either(use(member, request))
        if (Either.isRight(answer)) {
          member.failures = 0
          member.asideUntil = 0
          return answer.right
        }
        return yield* answer.left.passing ? again(member, answer.left, count) : answer.left
      })
    const again = (member: Member<S>, failure: Failure, count: number): Effect.Effect<A, Failure> =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        member.failures++
        member.asideUntil = now + (failure.retryAfterMs ?? Backoff.afterMs(member.failures))
        failures.delete(member.server)
        failures.set(member.server, failure)
        if (count > options.maxRetries) return yield* together(failures, count)
        const other = members.some(({ asideUntil }) => asideUntil <= now)
        if (!other) yield* Effect.sleep(failure.retryAfterMs ?? Backoff.afterMs(count))
        return yield* attempt(count + 1)
      })
    return attempt(1)
  }

  return { ask: (request) => permits.withPermits(1)(Effect.suspend(() => ask(request))) }
}
