/** An algorithm's two hooks as stages. A failed hook costs its rollouts, and never the stream. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { Algorithm } from "../Algorithm.ts"
import * as Credit from "../Credit.ts"
import type { Scored, Watch } from "../DependentSet.ts"
import { mapSettled, settled } from "../internal/settled.ts"
import { type Absent, absent, type Ended, type Rollout, trainableTokens } from "../Rollout.ts"
import * as Barriers from "./internal/Barriers.ts"
import * as Fibers from "./internal/Fibers.ts"
import { failed } from "./internal/failure.ts"

/** Results that may wait for the consumer, and hooks that may run, before input is no longer pulled. */
const buffer = 512
const running = 256

/** Excludes what no baseline may see: a reward that is not a number, a rollout with nothing to train. @category stages */
export const admissible = (ended: Ended): Ended => {
  if (ended._tag === "Absent") return ended
  if (!Number.isFinite(ended.reward)) return absent(ended, { _tag: "NoReward", reward: ended.reward })
  return trainableTokens(ended) > 0 ? ended : absent(ended, { _tag: "NothingTrainable", stopReason: ended.stopReason })
}

/** Read-only in fact: a hook that writes into it throws, instead of changing what others score and what is trained. */
const asGiven = (rollout: Rollout): Rollout => {
  Object.freeze(rollout.trace.nodes)
  return Object.freeze(rollout)
}

/**
 * Runs `scoreRollout` on every rollout that may be trained; the others become `Absent`, with the reason.
 *
 * @category stages
 */
export const score = <E, R>(self: Stream.Stream<Ended, E, R>): Stream.Stream<Scored | Absent, E, R | Algorithm> =>
  Stream.unwrap(
    Effect.map(Algorithm, ({ scoreRollout, type }) => {
      const writer = `${type}.scoreRollout`
      const settle = (rollout: Rollout, exit: Exit.Exit<Credit.Credit, unknown>): Scored | Absent =>
        Exit.isSuccess(exit)
          ? { _tag: "Scored", rollout, credit: Credit.by(exit.value, writer) }
          : failed(rollout, exit.cause)
      const step = (chunk: Iterable<Ended>) => {
        const now: Array<Scored | Absent> = []
        const later: Array<Fibers.Work<Scored | Absent>> = []
        for (const ended of chunk) {
          const item = admissible(ended)
          if (item._tag === "Absent") {
            now.push(item)
            continue
          }
          const credit = scoreRollout(asGiven(item))
          const known = settled(credit)
          if (known === undefined) {
            later.push(
              Effect.exit(credit).pipe(
                Effect.map((exit) => [settle(item, exit)]),
                Effect.withSpan("Algorithm.scoreRollout", {
                  attributes: { algorithm: type, rollout: item.id },
                  captureStackTrace: false
                })
              )
            )
          } else now.push(settle(item, known))
        }
        return { now, later }
      }
      return Fibers.drive(step, { buffer, running })(self)
    })
  )

/**
 * Runs `scoreGroup` on every dependent set once it opens, and lets a rollout go when all of its sets have: its credits
 * combined, or `Absent` when a set failed (`Failed`), had opened without it (`Late`), or can no longer be whole because
 * the input ended (`Incomplete`). `watch` shows the open sets.
 *
 * @category stages
 */
export const dependentSets = <E, R>(
  self: Stream.Stream<Scored | Absent, E, R>,
  options?: { readonly watch?: Watch | undefined }
): Stream.Stream<Scored | Absent, E, R | Algorithm> =>
  Stream.unwrap(
    Effect.map(Algorithm, ({ dependsOn, scoreGroup, type }) => {
      const writer = `${type}.scoreGroup`
      return Barriers.stage({
        rule: dependsOn,
        scoreGroup: (rollouts, set) =>
          mapSettled(scoreGroup(rollouts, set), (credits) => credits.map((credit) => Credit.by(credit, writer))),
        buffer,
        watch: options?.watch
      })(self)
    })
  )
