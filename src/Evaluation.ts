/**
 * A policy measured on held-out examples. Attempts that failed are counted beside the score and are not in it, neither
 * as zeros nor as anything else.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Environment from "./Environment.ts"
import * as Permits from "./Permits.ts"
import type { EvalReport } from "./Report.ts"
import { type Ended, explain, type Planned, type Rollout } from "./Rollout.ts"

/** What is measured, on how many attempts, and under which name. @category model */
export interface Options {
  /** the environment's name unless given */
  readonly name?: string | undefined
  readonly environment: Environment.Environment
  /** held-out examples, from the first on; at most those that there are, each once */
  readonly examples: number
  /** attempts per example */
  readonly groupSize: number
  readonly seed: number
  readonly sampling?: Environment.Sampling | undefined
  /** how the report names what was measured */
  readonly model: string
  readonly policyVersion?: number | undefined
}

/**
 * Unbiased probability that at least one of `k` attempts passes, when `c` of `n` passed: 1 − C(n−c, k)/C(n, k)
 * (arXiv 2107.03374, §2.1).
 *
 * @category estimators
 */
export const passAtK = (n: number, c: number, k: number): number => {
  if (n - c < k) return 1
  let none = 1
  for (let i = n - c + 1; i <= n; i++) none *= 1 - k / i
  return 1 - none
}

const plan = (options: Options, examples: number): ReadonlyArray<Planned> =>
  Array.from({ length: examples * options.groupSize }, (_, sequence): Planned => {
    const index = Math.floor(sequence / options.groupSize)
    const id = `eval/${options.environment.name}/${index}`
    const attempt = `${id}/${sequence % options.groupSize}`
    return {
      id: attempt,
      sequence,
      source: options.environment.name,
      example: Environment.exampleKey(options.environment, index, "eval"),
      group: { id, size: options.groupSize },
      episode: { id: attempt, size: 1 },
      seat: "policy",
      policyVersion: options.policyVersion ?? 0,
      labels: { split: "eval" }
    }
  })

/** Why an attempt does not count, in words. */
const why = (ended: Ended): string =>
  explain(ended._tag === "Rollout" ? { _tag: "NoReward", reward: ended.reward } : ended.reason)

const isScored = (ended: Ended): ended is Rollout => ended._tag === "Rollout" && Number.isFinite(ended.reward)

const mean = (values: ReadonlyArray<number>) => values.reduce((a, b) => a + b, 0) / values.length

/**
 * Mean reward and its standard error. Attempts at one example are not independent, so their deviations from the mean are
 * summed before they are squared (cluster-robust; arXiv 2411.00640, §2.2). What nothing was measured of is NaN, never 0.
 */
const moments = (scored: ReadonlyArray<Rollout>) => {
  const center = mean(scored.map(({ reward }) => reward))
  const deviations = new Map<string, number>()
  for (const { group, reward } of scored) {
    deviations.set(group.id, (deviations.get(group.id) ?? 0) + (reward - center))
  }
  const examples = deviations.size
  const squares = Array.from(deviations.values()).reduce((sum, deviation) => sum + deviation ** 2, 0)
  return { mean: center, standardError: Math.sqrt((squares * examples) / (examples - 1)) / scored.length }
}

/** Summarises attempts; an id that comes twice counts once. @category constructors */
export const summarize = (
  ended: ReadonlyArray<Ended>,
  of: { readonly name: string; readonly model: string; readonly examples: number; readonly seconds: number }
): EvalReport => {
  const once = new Map(ended.map((one) => [one._tag === "Absent" ? one.planned.id : one.id, one]))
  const scored = Array.from(once.values()).filter(isScored)
  const absent: Record<string, number> = {}
  let lastFailure = ""
  for (const one of once.values()) {
    if (isScored(one)) continue
    const key = one._tag === "Absent" ? one.reason._tag : "NoReward"
    absent[key] = (absent[key] ?? 0) + 1
    lastFailure = why(one)
  }
  const reward = moments(scored)
  const names = new Set(scored.flatMap((one) => Object.keys(one.metrics)))
  const metrics: Record<string, number> = {}
  for (const name of names) {
    metrics[name] = mean(scored.flatMap((one) => one.metrics[name] ?? []))
  }
  return { ...of, rollouts: scored.length, reward, metrics, absent, lastFailure }
}

/** Runs every attempt under the current weights. @category constructors */
export const run = Effect.fn("Evaluation.run")(function* (options: Options) {
  const started = yield* Clock.currentTimeMillis
  const permits = yield* Permits.Permits
  const { environment, model, sampling, seed } = options
  const examples = Math.min(options.examples, environment.examples.size("eval"))
  const ended = yield* Effect.forEach(
    plan(options, examples),
    (planned) => Environment.rollout(environment, planned, { seed, sampling }).pipe(permits.withPermits(planned.id)),
    { concurrency: "unbounded" }
  )
  const seconds = ((yield* Clock.currentTimeMillis) - started) / 1000
  return summarize(ended, { name: options.name ?? environment.name, model, examples, seconds })
})
