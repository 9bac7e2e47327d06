/**
 * Matchers for vitest: `expect.extend(matchers)`. A module of its own, so that only a program that has vitest sees its
 * types; nothing of vitest is loaded.
 */
import * as Effect from "effect/Effect"
// for its types alone: a compilation that has no test in it knows vitest by this line
import type {} from "vitest"
import { type Reason, explain as reasonInWords } from "../Rollout.ts"
import { type Component, components, type ExplainedRollout } from "./Explanation.ts"
import type { PropertyOptions, Subject } from "./Property.ts"
import { check, reportText } from "./properties.ts"
import { advantages, type Outcome } from "./scoring.ts"

/** What a matcher tells the test runner. @category model */
export interface MatcherResult {
  readonly pass: boolean
  readonly message: () => string
  readonly actual?: unknown
  readonly expected?: unknown
}

/** Advantages by the id of the rollout, or in the order of the outcomes; an absence is the tag of its reason. @category model */
export type ExpectedAdvantages = Readonly<Record<string, number | string>> | ReadonlyArray<number | string>

const isNear = (a: unknown, b: unknown, digits: number): boolean =>
  typeof a === "number" && typeof b === "number" ? Math.abs(a - b) < 10 ** -digits / 2 : Object.is(a, b)

const shown = (value: unknown): string => JSON.stringify(value, (_, inner: unknown) => inner ?? "no advantage")

const verdict = (pass: boolean, what: string, actual: unknown, expected: unknown): MatcherResult => ({
  pass,
  message: () => `expected ${what} ${pass ? "not " : ""}to be ${shown(expected)}, and found ${shown(actual)}`,
  actual,
  expected
})

const toHaveAdvantages = (
  outcomes: ReadonlyArray<Outcome>,
  expected: ExpectedAdvantages,
  digits = 6
): MatcherResult => {
  const found = advantages(outcomes)
  const actual: Readonly<Record<string, unknown>> | ReadonlyArray<unknown> = Array.isArray(expected)
    ? Object.values(found)
    : found
  const [a, b] = [Object.entries(actual), new Map(Object.entries(expected))]
  const pass = a.length === b.size && a.every(([id, value]) => b.has(id) && isNear(value, b.get(id), digits))
  return verdict(pass, "advantages", actual, expected)
}

const toHaveWeights = (
  rollout: ExplainedRollout,
  component: Component,
  expected: ReadonlyArray<number>,
  digits = 6
): MatcherResult => {
  if (!components.includes(component)) {
    const message = () => `there is no component "${component}"; there are ${components.join(", ")}`
    return { pass: false, message }
  }
  const actual = rollout.branches.flatMap(({ tokens }) =>
    tokens.map(({ terms }) => terms.find((term) => term.component === component)?.weight ?? 0)
  )
  const pass = actual.length === expected.length && actual.every((weight, i) => isNear(weight, expected[i], digits))
  return verdict(pass, `${component} weights of rollout ${rollout.id}`, actual, expected)
}

const toBeAbsent = (outcome: Outcome | ExplainedRollout, reason?: Reason["_tag"] | RegExp): MatcherResult => {
  const tag = "_tag" in outcome && outcome._tag === "Absent" ? outcome.reason._tag : undefined
  const words =
    "_tag" in outcome ? (outcome._tag === "Absent" ? reasonInWords(outcome.reason) : undefined) : outcome.absent
  const pass =
    words !== undefined && (reason === undefined || (typeof reason === "string" ? tag === reason : reason.test(words)))
  const wanted = reason === undefined ? "" : ` (${reason instanceof RegExp ? reason : reason})`
  const found = words === undefined ? "it counts" : `it does not count: ${tag === undefined ? "" : `${tag}, `}${words}`
  return { pass, message: () => `expected the rollout ${pass ? "not " : ""}to be absent${wanted}, and ${found}` }
}

const toPassProperties = (algorithm: Subject, options?: PropertyOptions): Promise<MatcherResult> =>
  Effect.runPromise(
    Effect.map(check(algorithm, options), (report) => ({
      pass: report.holds,
      message: () => `expected every property ${report.holds ? "not " : ""}to hold\n${reportText(report)}`
    }))
  )

/** For `expect.extend`. @category matchers */
export const matchers = { toHaveAdvantages, toHaveWeights, toBeAbsent, toPassProperties }

/** What `expect` can do with them. @category matchers */
export interface AlgorithmMatchers {
  /** Of outcomes, as `score` gives them: the advantage of each, up to 6 digits behind the point unless told. */
  toHaveAdvantages: (expected: ExpectedAdvantages, digits?: number) => void
  /** Of an explained rollout: the weight of each token of each branch in a component, 0 where it is no member. */
  toHaveWeights: (component: Component, expected: ReadonlyArray<number>, digits?: number) => void
  /** Of an outcome or an explained rollout: it does not count, for this reason or in these words. */
  toBeAbsent: (reason?: Reason["_tag"] | RegExp) => void
  /** Of an algorithm's Layer: it keeps every property that is expected of it. */
  toPassProperties: (options?: PropertyOptions) => Promise<void>
}

declare module "vitest" {
  interface Matchers<T> extends AlgorithmMatchers {}
}
