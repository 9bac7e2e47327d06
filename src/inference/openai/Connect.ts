/**
 * Connects to the servers of one model: waits until they answer, and asks each what has to be known before its numbers
 * are used. A server that serves another model or reads other ids fails the connection; one that does not answer in time
 * is left out while there is another.
 */
import * as Arr from "effect/Array"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { Endpoint } from "../../Endpoints.ts"
import { InferenceError } from "../../Inference.ts"
import type { TokenizerService } from "../../Tokenizer.ts"
import * as Http from "./Http.ts"
import * as Models from "./Models.ts"
import * as Pool from "./Pool.ts"
import * as Probe from "./Probe.ts"
import { ready } from "./Ready.ts"
import * as Vocabulary from "./Vocabulary.ts"

/** One server, with what was found out about it. @category model */
export interface Connected extends Probe.Found {
  readonly server: Http.Server
  /** of prompt and completion together, in tokens; undefined when the server does not say */
  readonly maxSequenceLength: number | undefined
}

/** @category model */
export interface Options {
  readonly tokenizer: TokenizerService
  /** requests under way at the same time at one server */
  readonly concurrency: number
  /** how long a server may take to answer for the first time */
  readonly readyTimeoutMs: number
}

/** The servers of one model. @category model */
export interface Connection {
  readonly pool: Pool.Pool<Connected>
  /** the least that a server takes, in tokens of prompt and completion; undefined when none says */
  readonly maxSequenceLength: number | undefined
  /** whether every server scores given tokens at any temperature */
  readonly scoresAtTemperature: boolean
  /** what is wrong with log-probabilities of sampled tokens, server by server */
  readonly complaints: ReadonlyArray<string>
}

const keyOf = (endpoint: Endpoint) =>
  endpoint.api_key_var === undefined
    ? Effect.succeed(undefined)
    : Config.redacted(endpoint.api_key_var).pipe(
        Effect.map((key) => Redacted.make(Redacted.value(key).trim())),
        Effect.filterOrFail(
          (key) => Redacted.value(key) !== "",
          () => undefined
        ),
        Effect.mapError(
          () =>
            new InferenceError({
              endpoint: endpoint.name,
              reason: `the environment variable ${endpoint.api_key_var}, named by api_key_var, is not set; put the server's key there`
            })
        )
      )

const rawLogprobs = (root: string) =>
  `${root}: its log-probabilities are not temperature-processed: at another temperature than 1 they are not those of the distribution that was sampled from; start vLLM with --logprobs-mode processed_logprobs`

/** Everything but whether it answers at all, which is known by now. */
const examine = (server: Http.Server, { data }: Models.ModelList, endpoint: Endpoint, options: Options) =>
  Effect.gen(function* () {
    const { tokenizer } = options
    const card = yield* Models.find({ data }, endpoint.name, server.root)
    const ask = Pool.make([server], { maxRetries: endpoint.max_retries, concurrency: 1 }).ask
    const promptIds = tokenizer.encode("The first thing").ids
    const found = yield* ask((server) => Probe.run(server, { model: endpoint.name, promptIds }))
    yield* ask((server) => Vocabulary.check(server, { model: endpoint.name, tokenizer, route: found.route }))
    const connected: Connected = { ...found, server, maxSequenceLength: card.max_model_len ?? undefined }
    return connected
  })

/** @category constructors */
export const connect = (endpoint: Endpoint, options: Options): Effect.Effect<Connection, InferenceError, Scope.Scope> =>
  Effect.gen(function* () {
    const failed = (reason: string) => new InferenceError({ endpoint: endpoint.name, reason })
    const key = yield* keyOf(endpoint)
    const client = yield* Http.client
    const servers = endpoint.base_url.map((baseUrl) =>
      Http.make({ client, baseUrl, key, timeoutMs: endpoint.timeout_ms })
    )
    const answers = yield* Effect.forEach(
      servers,
      (server) =>
        Effect.gen(function* () {
          const models = yield* ready(server, endpoint.name, options.readyTimeoutMs)
          return Either.isLeft(models)
            ? Either.left(models.left)
            : Either.right(yield* examine(server, models.right, endpoint, options))
        }),
      { concurrency: "unbounded" }
    ).pipe(Effect.mapError(({ what }) => failed(what)))
    const [absent, connected] = Arr.separate(answers)
    const [first, ...rest] = connected
    if (first === undefined) return yield* failed(absent.map(({ what }) => what).join("; "))
    for (const { what } of absent) yield* Effect.logWarning(`${endpoint.name} is used without a server: ${what}`)
    const pool = Pool.make([first, ...rest], {
      maxRetries: endpoint.max_retries,
      concurrency: options.concurrency * connected.length
    })
    const lengths = connected.flatMap(({ maxSequenceLength }) => maxSequenceLength ?? [])
    return {
      pool,
      maxSequenceLength: lengths.length === 0 ? undefined : Math.min(...lengths),
      scoresAtTemperature: connected.every(({ scoresAtTemperature }) => scoresAtTemperature),
      complaints: connected.flatMap(({ logprobs, server }) => (logprobs === "raw" ? [rawLogprobs(server.root)] : []))
    }
  })
