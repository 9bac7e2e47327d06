/**
 * Models that somebody else hosts and that a run never trains: teachers, judges, frozen sources. An algorithm names one in
 * its config and connects to it where it is built; the connection lives as long as the scope. Token ids go in and come
 * out, so a frozen model must read the policy's own vocabulary; that is checked when it is connected.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { InferenceError, type InferenceService } from "./Inference.ts"

const Url = Schema.String.pipe(
  // a query would stand in the middle of what is asked for, with any key in it
  Schema.filter(
    (text) =>
      (/^https?:\/\/[^/\s?#]+[^\s?#]*$/.test(text) && URL.canParse(text)) || "a URL such as http://localhost:8000/v1"
  )
)

/** Where a frozen model is served, as a config says it; keys as in TOML. @category schemas */
export const Endpoint = Schema.Struct({
  name: Schema.NonEmptyString.annotations({
    description: "text that is not empty",
    documentation: "The model, as its server calls it."
  }),
  base_url: Schema.Union(
    Schema.NonEmptyArray(Url),
    Schema.transform(Url, Schema.NonEmptyArray(Schema.typeSchema(Url)), {
      strict: true,
      decode: (url): readonly [string] => [url],
      encode: ([url]) => url
    })
  ).annotations({
    // what is wrong inside a list is told by its places
    message: ({ actual }) => ({
      message: "it must be a URL such as http://localhost:8000/v1, or a list of them",
      override: !Array.isArray(actual)
    }),
    description: "a URL such as http://localhost:8000/v1, or a list of them",
    documentation: "OpenAI-compatible roots, usually ending in /v1; requests are spread over all of them."
  }),
  api_key_var: Schema.optionalWith(
    Schema.NonEmptyString.annotations({
      description: "text that is not empty",
      documentation: "Environment variable that holds the key, where the server wants one."
    }),
    { exact: true }
  ),
  timeout_ms: Schema.optionalWith(
    Schema.Int.pipe(Schema.positive()).annotations({
      description: "a whole number above 0",
      documentation: "Time for one attempt, from its connection to the end of its answer."
    }),
    { exact: true, default: () => 600_000 }
  ),
  max_retries: Schema.optionalWith(
    Schema.Int.pipe(Schema.nonNegative()).annotations({
      description: "a whole number, at least 0",
      documentation: "Attempts after the first, for what may pass: no connection, no answer in time, 408, 429 and 5xx."
    }),
    { exact: true, default: () => 5 }
  )
}).annotations({
  // what is wrong inside a table is told by its keys
  message: ({ actual }) => ({
    message: "it must say where a model is served: { name, base_url }",
    override: typeof actual !== "object" || actual === null
  })
})
/** Where a frozen model is served. @category model */
export type Endpoint = typeof Endpoint.Type

/** A model that takes no weights. @category model */
export type FrozenModel = Pick<InferenceService, "name" | "maxSequenceLength" | "generate" | "score">

/** Connects to frozen models. @category model */
export interface EndpointsService {
  /** Fails when nothing answers, the model is not served there, or it reads other token ids than the policy. */
  readonly connect: (endpoint: Endpoint) => Effect.Effect<FrozenModel, InferenceError, Scope.Scope>
}

/** Where frozen models come from. @category tags */
export class Endpoints extends Context.Tag("primerl/Endpoints")<Endpoints, EndpointsService>() {}

/** Frozen models of a program's own, by what is asked for: in-process models, or a test's. @category layers */
export const layerOf = (
  connect: (endpoint: Endpoint) => FrozenModel | Effect.Effect<FrozenModel, InferenceError, Scope.Scope>
): Layer.Layer<Endpoints> =>
  Layer.succeed(Endpoints, {
    connect: (endpoint) =>
      Effect.suspend(() => {
        const model = connect(endpoint)
        return Effect.isEffect(model) ? model : Effect.succeed(model)
      })
  })

/** Connects to nothing: every endpoint is refused. @category layers */
export const layerNone: Layer.Layer<Endpoints> = layerOf(({ name }) =>
  Effect.fail(new InferenceError({ endpoint: name, reason: "this program connects to no endpoints" }))
)
