/**
 * Models behind OpenAI-compatible servers that take and give token ids: vLLM, and what speaks like it. An id or a
 * log-probability that is missing, belongs to another token or is no log-probability is an error, and never 0.
 *
 * At another temperature than 1, `score` needs a server that heeds `prompt_logprobs_temperature`, as `primerl serve` does.
 * vLLM and SGLang leave the temperature out of what they say of a prompt, and one number per token cannot be converted;
 * that is an error then.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { type Endpoint, Endpoints, type FrozenModel } from "../Endpoints.ts"
import { Inference, InferenceError } from "../Inference.ts"
import { Tokenizer } from "../Tokenizer.ts"
import type * as Connect from "./openai/Connect.ts"
import type { Failure } from "./openai/Failure.ts"

/** How a connection is used. @category model */
export interface Options {
  /** requests under way at the same time at one server; others wait for their turn (64) */
  readonly concurrency?: number | undefined
  /** how long to wait for a server that does not answer yet, in ms (60,000) */
  readonly readyTimeoutMs?: number | undefined
}

const open = (
  endpoint: Endpoint,
  options: Options
): Effect.Effect<Connect.Connection, InferenceError, Scope.Scope | Tokenizer> =>
  Effect.gen(function* () {
    const { concurrency = 64, readyTimeoutMs = 60_000 } = options
    const tokenizer = yield* Tokenizer
    // The HTTP client takes a while to load, and most runs connect to nothing.
    const { connect } = yield* Effect.promise(() => import("./openai/Connect.ts"))
    return yield* connect(endpoint, { tokenizer, concurrency, readyTimeoutMs })
  })

const modelOf = (endpoint: Endpoint, { pool, ...connection }: Connect.Connection): FrozenModel => {
  // When no server says how long a sequence it takes, what is too long is refused there.
  const maxSequenceLength = connection.maxSequenceLength ?? Number.MAX_SAFE_INTEGER
  const fail = (reason: string) => Effect.fail(new InferenceError({ endpoint: endpoint.name, reason }))
  const tooLong = (reason: string) =>
    Effect.fail(new InferenceError({ endpoint: endpoint.name, reason, promptTooLong: true }))
  const ask = <A>(request: (connected: Connect.Connected) => Effect.Effect<A, Failure>) =>
    Effect.catchAll(pool.ask(request), ({ promptTooLong, what }) =>
      promptTooLong === true ? tooLong(what) : fail(what)
    )

  return {
    name: endpoint.name,
    maxSequenceLength,
    generate: (promptIds, sampling) => {
      const room = maxSequenceLength - promptIds.length
      if (promptIds.length === 0) return fail("promptIds is empty")
      if (room < 1) return tooLong(`${promptIds.length} tokens of prompt leave no room in ${maxSequenceLength}`)
      const fitting = { ...sampling, maxTokens: Math.min(sampling.maxTokens, room) }
      return ask(({ route, server }) =>
        Effect.flatMap(server.post(route.path, route.generation(endpoint.name, promptIds, fitting)), (answer) =>
          route.readGeneration(answer, fitting)
        )
      )
    },
    score: (tokenIds, temperature = 1) => {
      if (!(temperature > 0 && Number.isFinite(temperature))) return fail(`no score at temperature ${temperature}`)
      if (temperature !== 1 && !connection.scoresAtTemperature) {
        return fail(
          `its server gives log-probabilities of given tokens at temperature 1 only, not at ${temperature}; sample at 1, or use a server that heeds prompt_logprobs_temperature, as primerl serve does`
        )
      }
      if (tokenIds.length < 2) return Effect.succeed(new Float32Array(tokenIds.length))
      if (tokenIds.length > maxSequenceLength) {
        return tooLong(`${tokenIds.length} tokens to score do not fit in a sequence of ${maxSequenceLength}`)
      }
      return ask(({ route, server }) =>
        Effect.flatMap(server.post(route.path, route.score(endpoint.name, tokenIds, temperature)), (answer) =>
          route.readScore(answer, tokenIds)
        )
      )
    }
  }
}

/**
 * Connects to a model that somebody else hosts. Waits for its servers, and fails when the model is not served there, the
 * answers carry no token ids and log-probabilities, or the vocabulary is not the policy's. What it samples at another
 * temperature than 1 carries log-probabilities that can be trained on only if its servers process them, and a warning
 * says so when they do not.
 *
 * @category constructors
 */
export const connect = (
  endpoint: Endpoint,
  options: Options = {}
): Effect.Effect<FrozenModel, InferenceError, Scope.Scope | Tokenizer> =>
  Effect.gen(function* () {
    const connection = yield* open(endpoint, options)
    for (const complaint of connection.complaints) yield* Effect.logWarning(`${endpoint.name} at ${complaint}`)
    return modelOf(endpoint, connection)
  })

/** Frozen models over HTTP, for a policy with this tokenizer. @category layers */
export const layer = (options?: Options): Layer.Layer<Endpoints, never, Tokenizer> =>
  Layer.effect(
    Endpoints,
    Effect.map(Tokenizer, (tokenizer) => ({
      connect: (endpoint: Endpoint) => Effect.provideService(connect(endpoint, options), Tokenizer, tokenizer)
    }))
  )

/**
 * A policy that is served elsewhere. Unlike a frozen model's, its log-probabilities are trained on, so servers that do not
 * process them are refused. It cannot take over weights: `adopt` fails.
 *
 * @category layers
 */
export const layerInference = (
  endpoint: Endpoint,
  options: Options = {}
): Layer.Layer<Inference, InferenceError, Tokenizer> =>
  Layer.scoped(
    Inference,
    Effect.gen(function* () {
      const connection = yield* open(endpoint, options)
      const [complaint] = connection.complaints
      if (complaint !== undefined) return yield* new InferenceError({ endpoint: endpoint.name, reason: complaint })
      return {
        ...modelOf(endpoint, connection),
        adopt: ({ version }) =>
          Effect.fail(
            new InferenceError({
              endpoint: endpoint.name,
              reason: `a server elsewhere cannot take over the weights of version ${version}: they are in this process; train a policy of the embedded engine`
            })
          )
      }
    })
  )
