/**
 * Scores of a finished rollout. A score that cannot be computed is a failure with a name: a reward that throws or is not
 * finite takes its rollout out of training, a metric that does so is left out and logged, and neither is ever 0.
 */
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { inWords } from "./internal/inWords.ts"
import type { Message } from "./Message.ts"
import type { StopReason } from "./Rollout.ts"
import type { RuntimeService } from "./Runtime.ts"
import type { Trace } from "./Trace.ts"

/** What a callback may return: a value, a promise of it, or an effect. @category model */
export type Value<A> = A | PromiseLike<A> | Effect.Effect<A, unknown>

/** What a policy made of a task. @category model */
export interface Answer {
  /** text of the last model turn; "" when there is none */
  readonly reply: string
  /** the conversation that ends with the last model turn */
  readonly messages: ReadonlyArray<Message>
  readonly trace: Trace
  /** number of model calls */
  readonly turns: number
  readonly stopReason: StopReason
  /** where it was made, still as the harness left it: its files, and commands in them */
  readonly runtime: RuntimeService
}

/** Says how good an answer is; higher is better. @category model */
export type Score<T> = (task: T, answer: Answer) => Value<number>

/** A score with its share in the reward. @category model */
export interface Weighted<T> {
  readonly score: Score<T>
  /** factor in the reward (1); 0 makes it a metric */
  readonly weight?: number | undefined
}

/** One reward, or several by name. @category model */
export type Rewards<T> = Score<T> | Readonly<Record<string, Score<T> | Weighted<T>>>

/** A reward or metric that could not be computed, or that can never be. @category errors */
export class ScoreError extends Data.TaggedError("ScoreError")<{ readonly part: string; readonly reason: string }> {
  override get message() {
    return this.part === "reward" ? `reward: ${this.reason}` : `reward ${this.part}: ${this.reason}`
  }
}

/** The total is the sum of `rewards`, which already carry their weights; it is not finite when one of them is not. @category model */
export interface Scored {
  readonly reward: number
  readonly rewards: Readonly<Record<string, number>>
  readonly metrics: Readonly<Record<string, number>>
}

const named = (cause: unknown) => (cause instanceof Error ? `${cause.name}: ${cause.message}` : inWords(cause))

const isPromiseLike = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === "object" && value !== null && "then" in value && typeof value.then === "function"

/** Runs a callback of the user's: what it throws, rejects with or fails with comes out as words. @category running */
export const evaluate = <A>(callback: () => Value<A>): Effect.Effect<A, string> =>
  Effect.suspend(() =>
    Either.match(
      Either.try(() => callback()),
      {
        onLeft: (cause) => Effect.fail(named(cause)),
        onRight: (value): Effect.Effect<A, string> => {
          if (Effect.isEffect(value)) return Effect.mapError(value as Effect.Effect<A, unknown>, named)
          if (isPromiseLike(value)) {
            return Effect.tryPromise({ try: () => Promise.resolve(value as PromiseLike<A>), catch: named })
          }
          return Effect.succeed(value as A)
        }
      }
    )
  ).pipe(
    Effect.catchAllDefect((defect) => Effect.fail(`defect: ${named(defect)}`)),
    // One from outside passes by every handler: what comes here, the callback did to itself.
    Effect.catchAllCause((cause) =>
      Cause.isInterruptedOnly(cause) ? Effect.fail("it interrupted itself") : Effect.failCause(cause)
    )
  )

const number = <T>(name: string, score: Score<T>, task: T, answer: Answer): Effect.Effect<number, ScoreError> =>
  evaluate(() => score(task, answer)).pipe(
    Effect.mapError((reason) => new ScoreError({ part: name, reason })),
    Effect.filterOrFail(
      (value) => typeof value === "number",
      (value) => new ScoreError({ part: name, reason: `it returned ${String(value)} (${typeof value}), not a number` })
    )
  )

/** Scores by name, ready to run. @category model */
export type Scorer<T> = (task: T, answer: Answer) => Effect.Effect<Scored, ScoreError>

/**
 * All rewards and metrics of an environment as one scorer. Metrics come first; then rewards, in the order given. A
 * reward of weight 0 is a metric. Throws `ScoreError` for a weight that is not finite, for a name used twice, and when
 * nothing is rewarded.
 *
 * @category constructors
 */
export const make = <T>(rewards: Rewards<T>, metrics: Readonly<Record<string, Score<T>>> = {}): Scorer<T> => {
  const parts = Object.entries(typeof rewards === "function" ? { reward: rewards } : rewards).map(([name, part]) => {
    const { score, weight = 1 } = typeof part === "function" ? { score: part } : part
    if (!Number.isFinite(weight))
      throw new ScoreError({ part: name, reason: `its weight is ${weight}; it must be finite` })
    if (Object.hasOwn(metrics, name)) throw new ScoreError({ part: name, reason: "a metric has the same name" })
    return { name, score, weight }
  })
  if ([...Object.keys(metrics), ...parts.map(({ name }) => name)].includes("__proto__")) {
    throw new ScoreError({ part: "__proto__", reason: "a record cannot hold that name; take another" })
  }
  const weighted = parts.filter(({ weight }) => weight !== 0)
  if (weighted.length === 0) {
    throw new ScoreError({
      part: parts[0]?.name ?? "reward",
      reason: "no part has a weight other than 0: nothing is rewarded"
    })
  }
  const observed = [
    ...Object.entries(metrics).map(([name, score]) => ({ name, score })),
    ...parts.filter(({ weight }) => weight === 0)
  ]
  return Effect.fn("Reward.score")(function* (task: T, answer: Answer) {
    const measured: Record<string, number> = {}
    for (const { name, score } of observed) {
      const value = yield* Effect.either(number(name, score, task, answer))
      if (Either.isRight(value) && Number.isFinite(value.right)) measured[name] = value.right
      else {
        const reason = Either.isLeft(value) ? value.left.reason : `it is ${value.right}`
        yield* Effect.logWarning(`metric ${name} left out: ${reason}`)
      }
    }
    const earned: Record<string, number> = {}
    let reward = 0
    for (const { name, score, weight } of weighted) {
      const value = yield* number(name, score, task, answer)
      if (!Number.isFinite(value)) yield* Effect.logDebug(`reward ${name} is ${value}: the rollout has no reward`)
      earned[name] = weight * value
      reward += weight * value
    }
    return { reward, rewards: earned, metrics: measured }
  })
}
