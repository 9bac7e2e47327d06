/**
 * Time limits of many requests on one watcher. A timer and two fibers for every request cost more than the rest of it; and
 * since limits of one length run out in the order in which they began, one fiber asleep until the first is enough.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import type * as Scope from "effect/Scope"

/** @category model */
export interface Deadlines {
  /** Calls back once `limitMs` have passed, unless what it gives was called before. Infinity never passes. */
  readonly after: (limitMs: number, expired: () => void) => () => void
}

interface Entry {
  readonly atMs: number
  readonly expired: () => void
}

/** On the clock of the fiber that makes it; nothing is called back after the scope. @category constructors */
export const make: Effect.Effect<Deadlines, never, Scope.Scope> = Effect.gen(function* () {
  const clock = yield* Effect.clock
  const run = yield* FiberSet.makeRuntime<never, void, never>()
  /** in the order in which they run out, by their length */
  const waiting = new Map<number, Set<Entry>>()

  const watch = (limitMs: number, entries: Set<Entry>): Effect.Effect<void> =>
    Effect.suspend(() => {
      const now = clock.unsafeCurrentTimeMillis()
      for (const entry of entries) {
        if (entry.atMs > now)
          return Effect.zipRight(clock.sleep(Duration.millis(entry.atMs - now)), watch(limitMs, entries))
        entries.delete(entry)
        entry.expired()
      }
      waiting.delete(limitMs)
      return Effect.void
    })

  return {
    after: (limitMs, expired) => {
      if (limitMs === Number.POSITIVE_INFINITY) return () => {}
      const entry = { atMs: clock.unsafeCurrentTimeMillis() + limitMs, expired }
      const watched = waiting.get(limitMs)
      const entries = watched ?? new Set<Entry>()
      entries.add(entry)
      if (watched === undefined) {
        waiting.set(limitMs, entries)
        run(watch(limitMs, entries))
      }
      return () => {
        entries.delete(entry)
      }
    }
  }
})
