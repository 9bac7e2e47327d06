/**
 * Holds an algorithm to what its users rely on: a list of named properties, each tried on cases that are drawn from a seed
 * and made small when one fails.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { identity } from "effect/Function"
import * as Layer from "effect/Layer"
import { Algorithm } from "../Algorithm.ts"
import { layerProvided } from "./byteChat.ts"
import * as Rewards from "./internal/Rewards.ts"
import * as Streams from "./internal/Streams.ts"
import * as Training from "./internal/Training.ts"
import { PropertyError, type PropertyOptions, type Subject, Verdict } from "./Property.ts"

export {
  type GroupPlace,
  type Member,
  PropertyError,
  type PropertyOptions,
  type Subject,
  Verdict
} from "./Property.ts"

/** A property by the name that a test report shows. @category model */
export interface Property {
  readonly name: string
  readonly verdict: Effect.Effect<Verdict>
  /** For a test: rejects with `PropertyError`, which names the property, when the algorithm does not keep it. */
  readonly run: () => Promise<void>
}

/** What became of every property. @category model */
export interface Report {
  readonly algorithm: string
  readonly properties: ReadonlyArray<{ readonly name: string; readonly verdict: Verdict }>
  /** no property failed */
  readonly holds: boolean
}

type Expected = boolean | "group"

interface Rule {
  readonly name: string
  /** "group": only of an algorithm that compares rollouts */
  readonly expected: (options: PropertyOptions) => Expected
  readonly test: (algorithm: Subject, options: PropertyOptions) => Effect.Effect<Verdict>
}

const always = () => true
const unlessStateful =
  (option: "exchangeable" | "orderFree" | "separateGroups" | "monotone") => (options: PropertyOptions) =>
    options[option] ?? options.stateful !== true
const ofGroups =
  (option: "shiftInvariant" | "silentWhenEqual") =>
  (options: PropertyOptions): Expected =>
    options[option] ?? (options.stateful === true ? false : "group")

const rules: ReadonlyArray<Rule> = [
  { name: "every rollout of a group gets one credit", expected: always, test: Streams.creditForAll },
  { name: "the same rollouts get the same credit", expected: always, test: Streams.deterministic },
  { name: "scoring leaves rollouts as they were", expected: always, test: Streams.leavesRollouts },
  { name: "credit is finite on every edge case", expected: always, test: Streams.finite },
  { name: "rl claims are about sampled tokens", expected: always, test: Streams.rlOnSampled },
  {
    name: "a constant added to all rewards changes nothing",
    expected: ofGroups("shiftInvariant"),
    test: Rewards.shiftInvariant
  },
  { name: "equal rewards give no rl signal", expected: ofGroups("silentWhenEqual"), test: Rewards.silentWhenEqual },
  {
    name: "a permuted group gets permuted credit",
    expected: unlessStateful("exchangeable"),
    test: Rewards.exchangeable
  },
  { name: "the order of arrival changes nothing", expected: unlessStateful("orderFree"), test: Rewards.orderFree },
  {
    name: "a group's credit is what it is alone",
    expected: unlessStateful("separateGroups"),
    test: Rewards.separateGroups
  },
  {
    name: "a higher reward gets no lower advantage",
    expected: unlessStateful("monotone"),
    test: Rewards.monotone
  },
  {
    name: "one step raises the expected reward",
    expected: ({ improves = true }) => improves,
    test: Training.improves
  },
  { name: "packing changes neither loss nor gradient", expected: always, test: Training.packingFree }
]

/** Whether it compares rollouts with each other; one that does not start is found out by the tests themselves. */
const compares = (algorithm: Subject, { provided = layerProvided }: PropertyOptions) =>
  Algorithm.pipe(
    Effect.map(({ dependsOn }) => dependsOn.name !== "self"),
    Effect.provide(Layer.provide(algorithm, provided)),
    Effect.catchAllCause(() => Effect.succeed(true))
  )

const verdictOf = ({ expected, test }: Rule, algorithm: Subject, options: PropertyOptions): Effect.Effect<Verdict> =>
  Effect.gen(function* () {
    const due = expected(options)
    if (due === false) return Verdict.DoesNotApply({ why: "it is not expected" })
    if (due === "group" && !(yield* compares(algorithm, options))) {
      return Verdict.DoesNotApply({ why: "it scores every rollout by itself" })
    }
    return yield* test(algorithm, options)
  })

/**
 * Every property as a test: `for (const { name, run } of properties(Mine.layer())) it(name, run)`.
 *
 * @category properties
 */
export const properties = (algorithm: Subject, options: PropertyOptions = {}): ReadonlyArray<Property> =>
  rules.map((rule) => {
    const verdict = verdictOf(rule, algorithm, options)
    const held = Effect.flatMap(verdict, (found) =>
      found._tag === "Fails"
        ? Effect.fail(new PropertyError({ property: rule.name, why: found.why, example: found.example }))
        : Effect.void
    )
    return {
      name: rule.name,
      verdict,
      run: () => Effect.runPromise(Effect.either(held)).then(Either.getOrThrowWith(identity))
    }
  })

/** Tries every property, and never fails. @category properties */
export const check = (algorithm: Subject, options: PropertyOptions = {}): Effect.Effect<Report> =>
  Effect.gen(function* () {
    const { type } = yield* Algorithm.pipe(
      Effect.provide(Layer.provide(algorithm, options.provided ?? layerProvided)),
      Effect.catchAllCause(() => Effect.succeed({ type: "an algorithm that does not start" }))
    )
    const found = yield* Effect.forEach(properties(algorithm, options), ({ name, verdict }) =>
      Effect.map(verdict, (verdict) => ({ name, verdict }))
    )
    return { algorithm: type, properties: found, holds: found.every(({ verdict }) => verdict._tag !== "Fails") }
  })

/** A report as lines: what holds, what does not apply, and what fails with why and with which rollouts. @category rendering */
export const reportText = ({ algorithm, properties }: Report): string =>
  [
    algorithm,
    ...properties.flatMap(({ name, verdict }) =>
      Verdict.$match(verdict, {
        Holds: () => [`  holds  ${name}`],
        DoesNotApply: ({ why }) => [`  -      ${name} (${why})`],
        Fails: ({ example, why }) => [`  FAILS  ${name}`, `           ${why}`, `           with ${example}`]
      })
    ),
    ""
  ].join("\n")
