/**
 * From a `type` in a config to an algorithm. A value, never a global: what a run knows is what it was given, plus the
 * modules that its config names. Invariant: a definition is recognised by its mark, whichever copy of this package made
 * it, and one that was made for another contract or another line of Effect is refused in those words.
 */
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as Algorithm from "./Algorithm.ts"
import type * as DependentSet from "./DependentSet.ts"
import type { Endpoints } from "./Endpoints.ts"
import type { Inference } from "./Inference.ts"
import { inWords } from "./internal/inWords.ts"
import { didYouMean } from "./internal/Nearest.ts"
import { isPath, type ModuleError } from "./ModuleLoader.ts"
import type { Renderer } from "./Renderer.ts"
import type { State } from "./State.ts"
import type { Tokenizer } from "./Tokenizer.ts"

/** The services that a run offers to the Layers its config names. @category model */
export type Provided = Inference | State | Endpoints | Renderer | Tokenizer

/** An algorithm with its config, ready for a run. @category model */
export type Resolved = Algorithm.Configured<Algorithm.AlgorithmStartError, Provided>

/** What is known of an algorithm without a config. @category model */
export interface Facts {
  readonly type: string
  readonly actionLoss: Algorithm.ActionLoss
  readonly dependsOn: DependentSet.Rule
}

/** What the registry needs of a definition: any whose Layer asks only for what a run provides. @category model */
export interface Entry extends Facts {
  readonly [Algorithm.TypeId]: Algorithm.Line
  readonly configure: (
    input: unknown
  ) => Either.Either<Algorithm.Configured<unknown, Provided>, Algorithm.AlgorithmConfigError>
}

/** No algorithm for a `type`. @category errors */
export class AlgorithmNotFound extends Data.TaggedError("AlgorithmNotFound")<{
  readonly type: string
  readonly known: ReadonlyArray<string>
  readonly reason: string
  /** nothing goes by that name, as opposed to a module that is there and does not do */
  readonly missing: boolean
}> {
  override get message() {
    const what = `algorithm "${this.type}": ${this.reason}`
    return isPath(this.type) || !this.missing
      ? what
      : `${what}. ${didYouMean(this.type, this.known)}Built in: ${this.known.join(", ")}`
  }
}

/** A `type` with the algorithm's own keys beside it, as in `[orchestrator.algo]`. @category model */
export interface AlgorithmConfig {
  readonly type: string
  readonly [key: string]: unknown
}

/** Which algorithms a config can name. @category model */
export interface Registry {
  readonly known: ReadonlyArray<string>
  readonly builtIn: ReadonlyArray<Facts>
  readonly resolve: (
    config: AlgorithmConfig
  ) => Effect.Effect<Resolved, AlgorithmNotFound | Algorithm.AlgorithmConfigError>
}

const major = (version: string) => version.split(".")[0]

/** Why a default export is no definition that fits; undefined when it is one. */
const misfit = (found: unknown): string | undefined => {
  if (!Predicate.hasProperty(found, Algorithm.TypeId)) return "its default export is not Algorithm.define({ … })"
  const mark = found[Algorithm.TypeId]
  const { contract, effect } = (Predicate.isRecord(mark) ? mark : {}) as Partial<Algorithm.Line>
  const { line } = Algorithm
  if (typeof effect !== "string" || major(effect) !== major(line.effect)) {
    return `it was made with Effect ${effect}, this run has ${line.effect}; install effect ^${line.effect} where the module lives`
  }
  return contract === line.contract
    ? undefined
    : `it was made with another version of primerl (contract ${contract}, this run has ${line.contract}); install the same primerl where the module lives`
}
/** Whatever keeps it from starting carries its name; an interruption stays one. */
const named = (algorithm: Algorithm.Configured<unknown, Provided>): Resolved => ({
  ...algorithm,
  layer: Layer.catchAllCause(algorithm.layer, (cause) =>
    Layer.failCause(
      Cause.isInterruptedOnly(cause)
        ? (cause as Cause.Cause<never>)
        : Cause.fail(new Algorithm.AlgorithmStartError({ type: algorithm.type, reason: inWords(Cause.squash(cause)) }))
    )
  )
})

const isEntry = (found: unknown): found is Entry => misfit(found) === undefined

/**
 * A registry of definitions. `load` gives the default export of a module that a config names, as
 * `(specifier) => ModuleLoader.load(specifier, directory)` does.
 *
 * @category constructors
 */
export const make = (
  entries: ReadonlyArray<Entry>,
  load: (specifier: string) => Effect.Effect<unknown, ModuleError>
): Registry => {
  const builtIn = new Map(entries.map((entry) => [entry.type, entry]))
  const known = Array.from(builtIn.keys())
  const refused = (type: string, reason: string, missing = false) =>
    new AlgorithmNotFound({ type, known, reason, missing })
  return {
    known,
    builtIn: entries.map(({ actionLoss, dependsOn, type }) => ({ type, actionLoss, dependsOn })),
    resolve: ({ type, ...config }) =>
      Effect.gen(function* () {
        const entry = builtIn.get(type)
        if (entry !== undefined) return named(yield* entry.configure(config))
        const found = yield* Effect.mapError(load(type), ({ kind, reason }) =>
          refused(type, reason, kind === "not found")
        )
        if (!isEntry(found)) return yield* refused(type, misfit(found)!)
        const configured = yield* Either.try({
          try: () => found.configure(config),
          catch: (cause) => refused(type, `it cannot be configured: ${inWords(cause)}`)
        })
        if (!Either.isEither(configured))
          return yield* refused(type, "its default export is not Algorithm.define({ … })")
        return named(yield* configured)
      })
  }
}
