/**
 * Dependent sets as fibers. A set that waits is one fiber, asleep until its members have ended; it owns the set's name,
 * its interruption and its span. A set that is whole when first seen, and whose formula is plain, needs no fiber.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import type { Credit } from "../../Credit.ts"
import type { Progress, Rule, Scored, Watch } from "../../DependentSet.ts"
import { settled } from "../../internal/settled.ts"
import type { Absent, Rollout } from "../../Rollout.ts"
import * as Fibers from "./Fibers.ts"
import * as Ledger from "./Ledger.ts"

export interface Options<E> {
  readonly rule: Rule
  readonly scoreGroup: (rollouts: ReadonlyArray<Rollout>, set: Progress) => Effect.Effect<ReadonlyArray<Credit>, E>
  /** finished rollouts that may wait for the consumer before input is no longer pulled */
  readonly buffer: number
  readonly watch?: Watch | undefined
}

const opening = (entry: Ledger.Entry): Effect.Effect<void> =>
  Effect.async((resume) => {
    if (entry.opened !== undefined) resume(Effect.void)
    else entry.wake = () => resume(Effect.void)
  })

export const stage =
  <SE>({ buffer, rule, scoreGroup, watch }: Options<SE>) =>
  <E, R>(self: Stream.Stream<Scored | Absent, E, R>): Stream.Stream<Scored | Absent, E, R> =>
    Stream.unwrapScoped(
      Effect.gen(function* () {
        const ledger = Ledger.make(rule)
        const score = (entry: Ledger.Entry): Effect.Effect<ReadonlyArray<Credit>, SE> =>
          entry.cut || entry.broken !== undefined || entry.members.length === 0
            ? Exit.succeed([])
            : // a hook that took one out would lose it
              scoreGroup(Object.freeze(entry.members), entry.opened!)
        const settle = (entry: Ledger.Entry, credits: Effect.Effect<ReadonlyArray<Credit>, SE>) =>
          Effect.exit(credits).pipe(
            Effect.map((exit) => ledger.settle(entry, exit)),
            Effect.withSpan("DependentSet.score", {
              attributes: { rule: rule.name, set: entry.key },
              captureStackTrace: false
            }),
            Effect.annotateLogs("dependentSet", `${rule.name} ${entry.key}`)
          )
        const life = (entry: Ledger.Entry) =>
          Effect.flatMap(opening(entry), () => {
            const credits = score(entry)
            const known = settled(credits)
            return known === undefined ? settle(entry, credits) : Effect.succeed(ledger.settle(entry, known))
          })

        const onFibers = (count: number) => {
          if (watch === undefined) return
          watch.fibers = count
          watch.maxFibers = Math.max(watch.maxFibers, count)
        }
        if (watch !== undefined) {
          watch.sets = ledger.sets
          watch.pending = ledger.pending
        }
        yield* Effect.addFinalizer(() =>
          Effect.sync(() => {
            ledger.clear()
            onFibers(0)
          })
        )
        const step = (chunk: Iterable<Scored | Absent>) => {
          const { final, opened, waiting } = ledger.end(chunk)
          const later: Array<Fibers.Work<Scored | Absent>> = []
          for (const entry of opened) {
            if (entry.awaited) {
              later.push(() => entry.wake?.())
              continue
            }
            const credits = score(entry)
            const known = settled(credits)
            if (known === undefined) later.push(settle(entry, credits))
            else final.push(...ledger.settle(entry, known))
          }
          for (const entry of waiting) later.push(life(entry))
          return { now: final, later }
        }
        return Fibers.drive(step, { buffer, onEnd: ledger.close, onFibers })(self)
      })
    )
