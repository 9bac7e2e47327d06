/**
 * What per-token signal does a finished rollout produce? A definition is one file: static facts, a config schema and a
 * formula; its Layer provides the two hooks, so that they share one life, one teacher, one state. Invariant: whatever a
 * hook throws, fails with or miscounts is an `AlgorithmError` that names the hook and its subject, never a credit.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as ParseResult from "effect/ParseResult"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Credit from "./Credit.ts"
import * as DependentSet from "./DependentSet.ts"
import { notCredit, notCredits } from "./internal/creditShape.ts"
import { inWords } from "./internal/inWords.ts"
import { settled } from "./internal/settled.ts"
import type { Rollout } from "./Rollout.ts"

/** A hook that could not give its credit. It costs the rollouts concerned, never the run. @category errors */
export class AlgorithmError extends Data.TaggedError("AlgorithmError")<{
  readonly algorithm: string
  readonly hook: "scoreRollout" | "scoreGroup"
  /** id of the rollout or key of the dependent set */
  readonly subject: string
  readonly cause: unknown
}> {
  override get message() {
    return `${this.algorithm}.${this.hook} of ${this.subject}: ${inWords(this.cause)}`
  }
}

/** One thing that is wrong with a config, and where: a dotted path of TOML keys. @category model */
export interface Problem {
  readonly path: string
  readonly message: string
}

/** An algorithm that could not start: its `hooks` failed, threw, or gave none. @category errors */
export class AlgorithmStartError extends Data.TaggedError("AlgorithmStartError")<{
  readonly type: string
  readonly reason: string
}> {
  override get message() {
    return `algorithm ${this.type} could not start: ${this.reason}`
  }
}

/** A config that an algorithm does not take; paths begin at the algorithm's own table. @category errors */
export class AlgorithmConfigError extends Data.TaggedError("AlgorithmConfigError")<{
  readonly type: string
  readonly problems: ReadonlyArray<Problem>
}> {
  override get message() {
    return this.problems
      .map(({ message, path }) => `algorithm ${this.type}${path === "" ? "" : `, ${path}`}: ${message}`)
      .join("\n")
  }
}

/** What happens to sampled tokens that no hook routes elsewhere. @category model */
export type ActionLoss = "rl" | "ce" | "refKl"

const actionLosses: ReadonlyArray<ActionLoss> = ["rl", "ce", "refKl"]

/** The two hooks of an algorithm, ready to run; both name what fails as `AlgorithmError`. @category model */
export interface AlgorithmService {
  readonly type: string
  readonly dependsOn: DependentSet.Rule
  /** Runs when a rollout has ended. */
  readonly scoreRollout: (rollout: Rollout) => Effect.Effect<Credit.Credit, AlgorithmError>
  /** Runs once when a dependent set has opened; one credit per rollout, in their order. */
  readonly scoreGroup: (
    rollouts: ReadonlyArray<Rollout>,
    set: DependentSet.Progress
  ) => Effect.Effect<ReadonlyArray<Credit.Credit>, AlgorithmError>
}

/** The algorithm that scores a source's rollouts. @category tags */
export class Algorithm extends Context.Tag("primerl/Algorithm")<Algorithm, AlgorithmService>() {}

/** A formula returns plain values, which cost no fiber; an Effect is for everything else. @category model */
export interface Hooks {
  readonly scoreRollout?: ((rollout: Rollout) => Credit.Credit | Effect.Effect<Credit.Credit, unknown>) | undefined
  readonly scoreGroup?:
    | ((
        rollouts: ReadonlyArray<Rollout>,
        set: DependentSet.Progress
      ) => ReadonlyArray<Credit.Credit> | Effect.Effect<ReadonlyArray<Credit.Credit>, unknown>)
    | undefined
}

/** What is known of a source before anything starts. @category model */
export interface SourceDescription {
  readonly name: string
  readonly groupSize: number
  /** seats whose rollouts are trained */
  readonly seats: ReadonlyArray<string>
  /** its rollouts are sampled from a frozen model, not from the policy */
  readonly frozen: boolean
  /** what leaves tokens out of the distribution that is sampled from, such as "top_p 0.9" */
  readonly restrictions?: ReadonlyArray<string> | undefined
}

/** An algorithm with its config: what a run needs, and what `primerl plan` prints. @category model */
export interface Configured<E, R> {
  readonly type: string
  readonly actionLoss: ActionLoss
  readonly dependsOn: DependentSet.Rule
  /** with every default filled in */
  readonly config: unknown
  /** What is wrong with giving it this source; paths begin at the source's table (`group_size`, `sampling.source`). */
  readonly check: (source: SourceDescription) => ReadonlyArray<Problem>
  readonly layer: Layer.Layer<Algorithm, E, R>
}

/** Marks a definition; found by symbol, so that it may come from another copy of this package. @category symbols */
export const TypeId: unique symbol = Symbol.for("primerl/Algorithm/Definition")

/** Which contract a definition was written for. @category model */
export interface Line {
  /** raised when definitions of before no longer fit */
  readonly contract: number
  /** version of Effect that it was made with */
  readonly effect: string
}

/** What definitions of this package are marked with. @category symbols */
export const line: Line = { contract: 1, effect: Effect.void[Effect.EffectTypeId]._V }

type Fields = Schema.Struct.Fields
type HooksOf = Hooks | Effect.Effect<Hooks, unknown, unknown>
type ErrorOf<H> = H extends Effect.Effect<infer _A, infer E, infer _R> ? E : never
type ContextOf<H> = H extends Effect.Effect<infer _A, infer _E, infer R> ? Exclude<R, Scope.Scope> : never
type Input<F extends Fields> = keyof F extends never ? Readonly<Record<string, never>> : Schema.Struct.Encoded<F>

/**
 * What a module exports as its algorithm: static facts, a schema of its config, and a Layer for each config.
 *
 * @category model
 */
export interface Definition<F extends Fields, H extends HooksOf> {
  readonly [TypeId]: Line
  readonly type: string
  readonly actionLoss: ActionLoss
  readonly dependsOn: DependentSet.Rule
  readonly Config: Schema.Struct<F>
  readonly hooks: (config: Schema.Struct.Type<F>) => H
  readonly check: (config: Schema.Struct.Type<F>, source: SourceDescription) => ReadonlyArray<Problem>
  /** Reads a config as it stands in TOML; every problem is in the error. */
  readonly configure: (input: unknown) => Either.Either<Configured<ErrorOf<H>, ContextOf<H>>, AlgorithmConfigError>
  /** The algorithm for a program that names it itself; keys as in TOML. A config that does not decode is a defect. */
  readonly layer: (
    ...config: {} extends Input<F> ? [config?: Input<F>] : [config: Input<F>]
  ) => Layer.Layer<Algorithm, ErrorOf<H>, ContextOf<H>>
}

/**
 * Defines an algorithm. A module's `default` export is its definition, ours and the user's alike.
 *
 * @category constructors
 */
export const define = <H extends HooksOf, F extends Fields = {}>(options: {
  readonly type: string
  readonly actionLoss: ActionLoss
  /** `DependentSet.group` unless told */
  readonly dependsOn?: DependentSet.Rule | undefined
  readonly Config?: Schema.Struct<F> | undefined
  readonly check?: ((config: Schema.Struct.Type<F>, source: SourceDescription) => Iterable<Problem>) | undefined
  /** An Effect acquires what the hooks need: a teacher, state. Its scope is the Layer's. */
  readonly hooks: (config: Schema.Struct.Type<F>) => H
}): Definition<F, H> => {
  const { actionLoss, dependsOn = DependentSet.group, hooks, type } = options
  if (!actionLosses.includes(actionLoss)) {
    const message = `it is ${inWords(actionLoss)}; it must be one of ${actionLosses.join(", ")}`
    throw new AlgorithmConfigError({ type, problems: [{ path: "actionLoss", message }] })
  }
  const Config = options.Config ?? (Schema.Struct({}) as unknown as Schema.Struct<F>)
  const decode = Schema.decodeUnknownEither(Config as unknown as Schema.Schema<Schema.Struct.Type<F>>, {
    errors: "all",
    onExcessProperty: "error"
  })
  const check = (config: Schema.Struct.Type<F>, source: SourceDescription): ReadonlyArray<Problem> => [
    ...frozenFeedsOnlyCe(type, actionLoss, source),
    ...restrictedFeedsOnlyCe(type, actionLoss, source),
    ...ownProblems(() => options.check?.(config, source) ?? [])
  ]
  const refused = (problems: ReadonlyArray<Problem>) => new AlgorithmConfigError({ type, problems })
  const configure = (input: unknown) => {
    const extra = Object.keys(Config.fields).length === 0 ? keysOf(input) : []
    const decoded =
      extra.length > 0
        ? Either.left(refused(extra.map((path) => ({ path, message: "is unexpected; it takes no keys" }))))
        : Either.mapLeft(decode(input), (error) => refused(problemsOf(error)))
    return Either.map(
      decoded,
      (config): Configured<ErrorOf<H>, ContextOf<H>> => ({
        type,
        actionLoss,
        dependsOn,
        config,
        check: (source) => check(config, source),
        layer: layerOf(type, actionLoss, dependsOn, () => hooks(config))
      })
    )
  }
  return {
    [TypeId]: line,
    type,
    actionLoss,
    dependsOn,
    Config,
    hooks,
    check,
    configure,
    layer: (...[config = {} as Input<F>]) =>
      Layer.unwrapEffect(Effect.orDie(Effect.map(configure(config), ({ layer }) => layer)))
  }
}

/** A schema without fields takes whatever it is given, so that what it does not know is looked for before. */
const keysOf = (input: unknown): ReadonlyArray<string> => (Predicate.isRecord(input) ? Object.keys(input) : [])

const problemsOf = (error: ParseResult.ParseError): ReadonlyArray<Problem> =>
  ParseResult.ArrayFormatter.formatErrorSync(error).map(({ message, path }) => ({ path: path.join("."), message }))

const frozenFeedsOnlyCe = (type: string, actionLoss: ActionLoss, { frozen, name }: SourceDescription) =>
  frozen && actionLoss !== "ce"
    ? [
        {
          path: "sampling.source",
          message: `source "${name}" samples from a frozen model, which ${type} cannot train on: its loss on actions is ${actionLoss}; use "policy", or an algorithm with ce such as sft`
        }
      ]
    : []

/**
 * Log-probabilities are those of the whole distribution. Of what was drawn from a part of it they are too small, and the
 * ratio of trainer and sampler says nothing of how often a token was drawn.
 */
const restrictedFeedsOnlyCe = (type: string, actionLoss: ActionLoss, { name, restrictions = [] }: SourceDescription) =>
  restrictions.length > 0 && actionLoss !== "ce"
    ? [
        {
          path: "sampling",
          message: `source "${name}" samples with ${restrictions.join(" and ")}, and ${type} trains on its tokens by ${actionLoss}, whose ratios are biased when tokens are left out; sample from the whole distribution, or use an algorithm with ce such as sft`
        }
      ]
    : []

const isProblem = (value: unknown): value is Problem =>
  Predicate.hasProperty(value, "path") &&
  typeof value.path === "string" &&
  Predicate.hasProperty(value, "message") &&
  typeof value.message === "string"

/** What a check of the user's own finds; one that throws, or returns something else, is a problem itself. */
const ownProblems = (check: () => Iterable<Problem>): ReadonlyArray<Problem> => {
  const broken = (reason: string): ReadonlyArray<Problem> => [
    { path: "algo.type", message: `its check is broken: ${reason}` }
  ]
  return Either.match(
    Either.try(() => [...check()]),
    {
      onLeft: (cause) => broken(inWords(cause)),
      onRight: (found) =>
        found.every(isProblem) ? found : broken("what it returned is no list of { path, message }, both texts")
    }
  )
}

const isHooks = (value: unknown): value is Hooks => {
  const isHook = (hook: unknown) => hook === undefined || typeof hook === "function"
  if (typeof value !== "object" || value === null) return false
  const { scoreGroup, scoreRollout } = value as Hooks
  return isHook(scoreGroup) && isHook(scoreRollout)
}

/** Plain values stay plain (an Exit), so that a formula costs no fiber; what throws or fails is named. */
const lift = <A>(
  run: () => A | Effect.Effect<A, unknown>,
  named: (cause: unknown) => AlgorithmError
): Effect.Effect<A, AlgorithmError> => {
  const result = Either.try({ try: run, catch: named })
  if (Either.isLeft(result)) return Exit.fail(result.left)
  return Effect.isEffect(result.right)
    ? Effect.mapError(result.right as Effect.Effect<A, unknown>, named)
    : Exit.succeed(result.right)
}

const layerOf = <H extends HooksOf>(
  type: string,
  actionLoss: ActionLoss,
  dependsOn: DependentSet.Rule,
  hooks: () => H
): Layer.Layer<Algorithm, ErrorOf<H>, ContextOf<H>> => {
  const actions = Credit.by(Credit.actions(actionLoss), `${type}.actionLoss`)
  const made = Effect.suspend(() => {
    const given: HooksOf = hooks()
    return (Effect.isEffect(given) ? given : Effect.succeed(given)) as Effect.Effect<
      Hooks,
      ErrorOf<H>,
      ContextOf<H> | Scope.Scope
    >
  })
  const service = ({ scoreGroup, scoreRollout }: Hooks): AlgorithmService => ({
    type,
    dependsOn: scoreGroup === undefined ? DependentSet.self : dependsOn,
    scoreRollout: (rollout) => {
      if (scoreRollout === undefined) return Exit.succeed(actions)
      const named = (cause: unknown) =>
        new AlgorithmError({ algorithm: type, hook: "scoreRollout", subject: rollout.id, cause })
      const combined = (credit: Credit.Credit) => {
        const wrong = notCredit(credit)
        return wrong === undefined ? Exit.succeed(Credit.combine(actions, credit)) : Exit.fail(named(wrong))
      }
      const credit = lift(() => scoreRollout(rollout), named)
      const known = settled(credit)
      return known === undefined ? Effect.flatMap(credit, combined) : Exit.flatMap(known, combined)
    },
    scoreGroup: (rollouts, set) => {
      if (scoreGroup === undefined) return Exit.succeed(rollouts.map(() => Credit.empty))
      const named = (cause: unknown) =>
        new AlgorithmError({ algorithm: type, hook: "scoreGroup", subject: set.key, cause })
      const aligned = (credits: ReadonlyArray<Credit.Credit>) => {
        const wrong = notCredits(credits, rollouts.length)
        return wrong === undefined ? Exit.succeed(credits) : Exit.fail(named(wrong))
      }
      const credits = lift(() => scoreGroup(rollouts, set), named)
      const known = settled(credits)
      return known === undefined ? Effect.flatMap(credits, aligned) : Exit.flatMap(known, aligned)
    }
  })
  const started = Effect.flatMap(made, (hooks) =>
    isHooks(hooks)
      ? Effect.succeed(service(hooks))
      : Effect.dieMessage("`hooks` gave no object of scoreRollout and scoreGroup, or of one of them")
  )
  return Layer.scoped(Algorithm, started) as Layer.Layer<Algorithm, ErrorOf<H>, ContextOf<H>>
}

/**
 * One algorithm a seat: each rollout is the business of its seat's algorithm alone, and waits for that one's sets. A
 * rollout of a seat that has none is `Absent`.
 *
 * @category combinators
 */
export const bySeat = <const Layers extends Readonly<Record<string, Layer.Layer<Algorithm, unknown, unknown>>>>(
  layers: Layers
): Layer.Layer<Algorithm, Layer.Layer.Error<Layers[keyof Layers]>, Layer.Layer.Context<Layers[keyof Layers]>> => {
  type E = Layer.Layer.Error<Layers[keyof Layers]>
  type R = Layer.Layer.Context<Layers[keyof Layers]>
  const built = Effect.forEach(
    Object.entries(layers as Record<string, Layer.Layer<Algorithm, E, R>>),
    ([seat, layer]) => Effect.map(Layer.build(layer), (context) => [seat, Context.get(context, Algorithm)] as const)
  )
  return Layer.scoped(Algorithm, Effect.map(built, dispatchBySeat))
}

// the seat comes first in a set's key, encoded, so that the first slash ends it
const seatOf = (key: string) => decodeURIComponent(key.slice(0, key.indexOf("/")))
const keyWithin = (key: string) => key.slice(key.indexOf("/") + 1)

const dispatchBySeat = (
  seats: ReadonlyArray<readonly [seat: string, algorithm: AlgorithmService]>
): AlgorithmService => {
  const bySeat = new Map(seats)
  const type = `by seat (${seats.map(([seat, algorithm]) => `${seat}: ${algorithm.type}`).join(", ")})`
  const inner = (set: DependentSet.Progress) => ({ ...set, key: keyWithin(set.key) })
  return {
    type,
    dependsOn: {
      name: "by seat",
      of: (member) =>
        (bySeat.get(member.seat)?.dependsOn.of(member) ?? []).map(({ key, size }) => ({
          key: `${encodeURIComponent(member.seat)}/${key}`,
          size
        })),
      opens: (set) => bySeat.get(seatOf(set.key))?.dependsOn.opens?.(inner(set)) ?? false
    },
    scoreRollout: (rollout) =>
      bySeat.get(rollout.seat)?.scoreRollout(rollout) ??
      Exit.fail(
        new AlgorithmError({
          algorithm: type,
          hook: "scoreRollout",
          subject: rollout.id,
          cause: `no algorithm for seat "${rollout.seat}"`
        })
      ),
    scoreGroup: (rollouts, set) => bySeat.get(seatOf(set.key))!.scoreGroup(rollouts, inner(set))
  }
}
