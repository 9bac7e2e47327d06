/**
 * A run's sources: from what the configuration says of each to what can be trained on, with everything that it needs of
 * others connected. What keeps one from it is told with the source's name.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import { type ActionLoss, Algorithm } from "../Algorithm.ts"
import type * as Config from "../Config.ts"
import * as Endpoints from "../Endpoints.ts"
import { start as startAlgorithm } from "../pipeline/sources.ts"
import type { Registry } from "../Registry.ts"
import * as Session from "../Session.ts"
import * as Environments from "./Environments.ts"

/** A source that cannot be trained on, and why. @category errors */
export class SourceError extends Data.TaggedError("SourceError")<{ readonly source: string; readonly reason: string }> {
  override get message() {
    return `source "${this.source}": ${this.reason}`
  }
}

const named =
  (source: string) =>
  ({ message }: { readonly message: string }) =>
    new SourceError({ source, reason: message })

/** The engine's names for what a configuration says of sampling. @category conversions */
export const samplingOf = ({ maxCompletionTokens, minP, temperature, topK, topP }: Config.SamplingConfig) => ({
  temperature,
  topP,
  topK,
  minP,
  maxTokens: maxCompletionTokens
})

/** A source with its parts, none of which has started. @category constructors */
export const resolve = (registry: Registry, source: Config.SourceConfig, seed: number) =>
  Effect.gen(function* () {
    const { algo, env, groupSize, name, ratio, sampling } = source
    const environment = yield* Environments.resolve(env, seed)
    const { layer } = yield* registry.resolve(algo)
    const endpoint = sampling.source === "policy" ? undefined : sampling.source
    return { name, environment, algorithm: layer, endpoint, groupSize, ratio, sampling: samplingOf(sampling) }
  })

/**
 * Connects the source's frozen model and starts its algorithm, which connects its teachers: both live as long as the
 * scope. Nothing is written anywhere before this is done.
 *
 * @category resources
 */
export const start = (source: Effect.Effect.Success<ReturnType<typeof resolve>>) =>
  Effect.gen(function* () {
    const { algorithm, endpoint, ...rest } = source
    const { connect } = yield* Endpoints.Endpoints
    const model = endpoint === undefined ? undefined : yield* connect(endpoint)
    const service = yield* startAlgorithm({ name: source.name, algorithm })
    return { ...rest, model, algorithm: Layer.succeed(Algorithm, service) }
  }).pipe(Effect.mapError(named(source.name)))

/** What only the environment and the algorithm of a source can say of it; `at` is where the source stands. @category checking */
export const check = (
  registry: Registry,
  source: Config.SourceConfig,
  options: { readonly at: ReadonlyArray<string>; readonly seed: number }
): Effect.Effect<ReadonlyArray<Config.Finding>> =>
  Effect.gen(function* () {
    const { algo, env, groupSize, name, sampling } = source
    const findings: Array<Config.Finding> = []
    // What a source inherits stands at the default's place.
    const found = (path: string, what: string, inherited: ReadonlyArray<string>) => {
      const keys = path.split(".")
      findings.push({
        keys: [
          [...options.at, ...keys],
          [...inherited, ...keys]
        ],
        what
      })
    }
    const environment = yield* Effect.either(Environments.resolve(env, options.seed))
    if (Either.isLeft(environment)) {
      findings.push({ keys: [[...options.at, "env", "id"]], what: environment.left.message })
    }
    const algorithm = yield* Effect.either(registry.resolve(algo))
    if (Either.isLeft(algorithm)) {
      const error = algorithm.left
      const problems =
        error._tag === "AlgorithmConfigError" ? error.problems : [{ path: "type", message: error.message }]
      for (const { message, path } of problems) found(path === "" ? "algo" : `algo.${path}`, message, ["orchestrator"])
      return findings
    }
    const frozen = sampling.source !== "policy"
    const restrictions = Session.restrictions(samplingOf(sampling))
    const described = { name, groupSize, seats: ["policy"], frozen, restrictions }
    for (const { message, path } of algorithm.right.check(described)) {
      const inherited = path.startsWith("sampling") ? ["orchestrator", "train"] : ["orchestrator"]
      found(path, message, inherited)
    }
    return findings
  })

/** A frozen model that a source has to do with. @category model */
export interface Named {
  /** what it is to the source: `sampler`, or the key of the algorithm's config that names it, such as `teacher` */
  readonly role: string
  readonly name: string
  readonly urls: ReadonlyArray<string>
}

/** A source in the words of a plan. @category model */
export interface Plan {
  readonly name: string
  readonly algorithm: string
  /** the dependent sets that credit waits for */
  readonly dependsOn: string
  readonly actionLoss: ActionLoss
  readonly models: ReadonlyArray<Named>
}

const isEndpoint = Predicate.compose(
  Predicate.isRecord,
  (table): table is { readonly name: string; readonly base_url: string | ReadonlyArray<string> } =>
    typeof table.name === "string" && (typeof table.base_url === "string" || Array.isArray(table.base_url))
)

const modelsOf = ({ algo, sampling }: Config.SourceConfig): ReadonlyArray<Named> =>
  Object.entries({ sampler: sampling.source, ...algo }).flatMap(([role, table]) =>
    isEndpoint(table) ? [{ role, name: table.name, urls: [table.base_url].flat() }] : []
  )

/** What is known of a source before anything starts; nothing is connected. @category conversions */
export const plan = (registry: Registry, source: Config.SourceConfig) =>
  Effect.map(
    registry.resolve(source.algo),
    ({ actionLoss, dependsOn, type }): Plan => ({
      name: source.name,
      algorithm: type,
      dependsOn: dependsOn.name,
      actionLoss,
      models: modelsOf(source)
    })
  )
