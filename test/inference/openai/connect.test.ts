/** Connecting to a server: what is found out before its numbers are used. */
import { describe, expect, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as HashMap from "effect/HashMap"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/TestClock"
import * as Endpoints from "../../../src/Endpoints.ts"
import { Inference, type Sampling } from "../../../src/Inference.ts"
import * as OpenAi from "../../../src/inference/OpenAi.ts"
import { Tokenizer, type TokenizerService } from "../../../src/Tokenizer.ts"
import { bytes, layerTokenizer } from "../../../src/testing/byteChat.ts"
import { asleepUntil, generatePath, type Options, type Vllm, vllm } from "../../doubles/vllm.ts"

const promptIds = Int32Array.from([10, 20, 30])
const sampling: Sampling = { temperature: 0.8, maxTokens: 6, stopTokenIds: [], seed: 5 }

const endpoint = (more: { readonly base_url: string | ReadonlyArray<string>; readonly [key: string]: unknown }) =>
  Schema.decodeUnknownSync(Endpoints.Endpoint)({ name: "teacher", max_retries: 0, ...more })

/** What was logged at warning or above, beside the value. */
const warned = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const said: Array<string> = []
    const logger = Logger.make(({ annotations, logLevel, message }) => {
      if (logLevel.ordinal >= 30_000) said.push([message].flat().join(" ") + String(HashMap.size(annotations) || ""))
    })
    return Effect.map(Effect.provide(effect, Logger.replace(Logger.defaultLogger, logger)), (value) => ({
      value,
      said
    }))
  })

const connect = ({ url }: Pick<Vllm, "url">, options?: OpenAi.Options) =>
  Effect.provide(OpenAi.connect(endpoint({ base_url: url }), options), layerTokenizer)

const refused = (options: Options) =>
  Effect.gen(function* () {
    const server = yield* vllm(options)
    const error = yield* Effect.flip(connect(server))
    expect(error).toMatchObject({ _tag: "InferenceError", endpoint: "teacher" })
    return error.message.replace(server.url.replace("/v1", ""), "URL")
  })

describe("a connection", () => {
  for (const routes of [
    ["generate", "tokenize"],
    ["completions", "tokenize"]
  ] as const) {
    it.scoped(`through ${routes[0]} generates and scores as the model behind it does`, () =>
      Effect.gen(function* () {
        const server = yield* vllm({ routes })
        const { said, value: model } = yield* warned(connect(server))
        expect(said).toEqual([])
        expect([model.name, model.maxSequenceLength]).toEqual(["teacher", 512])
        const made = yield* model.generate(promptIds, sampling)
        expect(made).toEqual(yield* server.model.generate(promptIds, sampling))
        const all = Int32Array.from([...promptIds, ...made.tokenIds])
        expect(yield* model.score(all)).toEqual(yield* server.model.score(all))
        // which route there is was decided once
        expect(server.at(generatePath).length).toBe(routes[0] === "generate" ? 4 : 1)
        expect(server.at("/v1/completions").length).toBe(routes[0] === "generate" ? 0 : 4)
      })
    )
  }

  it.scoped("has a base URL with or without /v1 and a slash", () =>
    Effect.gen(function* () {
      const { port } = yield* vllm()
      for (const end of ["", "/", "/v1", "/v1/"]) yield* connect({ url: `http://127.0.0.1:${port}${end}` })
    })
  )

  it.scoped("nothing to score is no request", () =>
    Effect.gen(function* () {
      const server = yield* vllm()
      const model = yield* connect(server)
      const before = server.asked.length
      expect([...(yield* model.score(Int32Array.of()))]).toEqual([])
      expect([...(yield* model.score(Int32Array.of(4)))]).toEqual([0])
      expect(server.asked.length).toBe(before)
    })
  )

  it.scoped("scores at another temperature than 1 where the server heeds it, and nowhere else", () =>
    Effect.gen(function* () {
      for (const routes of [
        ["generate", "tokenize"],
        ["completions", "tokenize"]
      ] as const) {
        const heeding = yield* vllm({ routes, scoresAtTemperature: true })
        const tempered = yield* connect(heeding)
        expect(yield* tempered.score(promptIds, 0.6)).toEqual(yield* heeding.model.score(promptIds, 0.6))
        expect(yield* tempered.score(promptIds)).toEqual(yield* heeding.model.score(promptIds))
        const model = yield* connect(yield* vllm({ routes }))
        expect((yield* Effect.flip(model.score(promptIds, 0.6))).message).toMatch(/at temperature 1 only, not at 0.6/)
        expect((yield* model.score(promptIds, 1)).length).toBe(3)
        expect((yield* Effect.flip(tempered.score(promptIds, 0))).message).toMatch(/no score at temperature 0/)
      }
    })
  )

  it.scoped("to a server that scores nothing can be sampled from, and says so when it is to score", () =>
    Effect.gen(function* () {
      const { url } = yield* vllm({
        reply: ({ body, path }) =>
          path === generatePath && body.sampling_params.prompt_logprobs
            ? { status: 400, body: { error: { message: "prompt_logprobs is not supported" } } }
            : undefined
      })
      const model = yield* connect({ url })
      expect((yield* model.generate(promptIds, sampling)).tokenIds.length).toBe(6)
      expect((yield* Effect.flip(model.score(promptIds))).message).toMatch(/prompt_logprobs is not supported/)
    })
  )

  it.scoped("to a server without a length leaves what is too long to it", () =>
    Effect.gen(function* () {
      const model = yield* connect(yield* vllm({ maxModelLen: null }))
      expect(model.maxSequenceLength).toBe(Number.MAX_SAFE_INTEGER)
      expect((yield* model.generate(promptIds, sampling)).tokenIds.length).toBe(6)
    })
  )

  it.effect("to another model than is served is refused with what is", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const server = yield* vllm({ model: "someone-else" })
        const error = yield* Effect.flip(connect(server))
        expect(error.message).toMatch(/\/v1\/models: "teacher" is not served there; someone-else is$/)
      })
    )
  )

  it.scoped("to what is no model server is refused", () =>
    Effect.gen(function* () {
      expect(yield* refused({ reply: () => ({ body: { hello: "world" } }) })).toMatch(
        /URL\/v1\/models: data is not as expected/
      )
      expect(yield* refused({ reply: () => ({ status: 404, body: "<html>no</html>" }) })).toMatch(
        /GET URL\/v1\/models: status 404/
      )
      expect(yield* refused({ routes: ["tokenize"] })).toMatch(/POST URL\/v1\/completions: status 404/)
    })
  )

  it.scoped("TOK-17: to a server that gives no token ids fails before any rollout", () =>
    Effect.gen(function* () {
      const body = { choices: [{ index: 0, text: "Hi", finish_reason: "stop" }] }
      expect(yield* refused({ reply: ({ path }) => (path === generatePath ? { body } : undefined) })).toMatch(
        /the endpoint did not return token ids and log-probabilities/
      )
    })
  )
})

describe("waiting", () => {
  it.scoped("for a server that is still starting says so once, and goes on when it answers", () =>
    Effect.gen(function* () {
      const gone = yield* vllm()
      yield* gone.close
      const said: Array<string> = []
      const logger = Logger.make(({ message }) => void said.push([message].flat().join(" ")))
      const fiber = yield* Effect.fork(Effect.provide(connect(gone), Logger.replace(Logger.defaultLogger, logger)))
      yield* asleepUntil(1_000)
      yield* TestClock.adjust(1_000)
      yield* asleepUntil(3_000)
      yield* vllm({ port: gone.port })
      yield* TestClock.adjust(2_000)
      expect((yield* Fiber.join(fiber)).name).toBe("teacher")
      expect(said).toEqual([expect.stringMatching(/^waiting up to 60000 ms for teacher: GET .*ECONNREFUSED/)])
    })
  )

  it.scoped("ends, with what was heard last", () =>
    Effect.gen(function* () {
      const server = yield* vllm({ reply: () => ({ status: 503, body: "loading weights" }) })
      const fiber = yield* Effect.fork(Effect.flip(connect(server, { readyTimeoutMs: 5_000 })))
      yield* asleepUntil(1_000)
      yield* TestClock.adjust(1_000)
      yield* asleepUntil(3_000)
      yield* TestClock.adjust(2_000)
      expect((yield* Fiber.join(fiber)).message).toMatch(/status 503: loading weights; it was waited for 5000 ms/)
    })
  )

  it.scoped("with no time to wait asks once, and takes the answer however long the clock says that it took", () =>
    Effect.gen(function* () {
      const server = yield* vllm()
      const model = yield* connect(server, { readyTimeoutMs: 0 })
      expect((yield* model.generate(promptIds, sampling)).tokenIds.length).toBe(6)
      yield* server.close
      const { message } = yield* Effect.flip(connect(server, { readyTimeoutMs: 0 }))
      expect(message).toMatch(/no connection \(ECONNREFUSED\)$/)
    })
  )

  it.scoped("of several servers, one that does not come is left out, and that is said", () =>
    Effect.gen(function* () {
      const [here, gone] = [yield* vllm(), yield* vllm()]
      yield* gone.close
      const { said, value: model } = yield* warned(
        Effect.provide(
          OpenAi.connect(endpoint({ base_url: [gone.url, here.url] }), { readyTimeoutMs: 500 }),
          layerTokenizer
        )
      )
      expect(said).toEqual([expect.stringMatching(/teacher is used without a server: GET .*ECONNREFUSED/)])
      expect((yield* model.generate(promptIds, sampling)).tokenIds.length).toBe(6)
    })
  )
})

/** The byte tokenizer, with added tokens that have a spelling. */
const spelled = (spellings: ReadonlyArray<string>): Layer.Layer<Tokenizer> =>
  Layer.map(layerTokenizer, (context) => {
    const tokenizer: TokenizerService = {
      ...Context.get(context, Tokenizer),
      vocabularySize: 256 + spellings.length,
      isSpecial: (id) => id >= 256,
      special: (content) => (spellings.includes(content) ? 256 + spellings.indexOf(content) : undefined),
      decode: (ids) =>
        [...ids].map((id) => (id < 256 ? String.fromCharCode(id) : (spellings[id - 256] ?? "\ufffd"))).join("")
    }
    return Context.make(Tokenizer, tokenizer)
  })

describe("the vocabulary", () => {
  it.scoped("that differs is refused, with the first place where it does", () =>
    Effect.gen(function* () {
      const message = yield* refused({
        tokenize: (text) => {
          const ids = bytes(text)
          const at = text.indexOf("fox")
          return [...ids.slice(0, at), 300, ...ids.slice(at + 3)]
        }
      })
      expect(message).toMatch(
        /URL reads other token ids than the policy: after "own " it reads 300 where the policy has 102 "f"; serve a model/
      )
      expect(yield* refused({ tokenize: (text) => bytes(text).slice(0, -1) })).toMatch(
        /it reads the end where the policy has/
      )
      expect(yield* refused({ tokenize: (text) => [...bytes(text), 7] })).toMatch(
        /it reads 7 where the policy has the end/
      )
    })
  )

  const spellings = ["<|im_start|>", "<|im_end|>", "<think>"]

  it.scoped("must have the policy's special tokens too, as the same ids", () =>
    Effect.gen(function* () {
      const policy = spelled(spellings)
      const of = (known: ReadonlyArray<string>, between = "") => ({
        detokenize: (ids: ReadonlyArray<number>) => ids.map((id) => known[id - 256] ?? "").join(between)
      })
      for (const between of ["", " "]) {
        const same = yield* vllm(of(spellings, between))
        const { said } = yield* warned(Effect.provide(OpenAi.connect(endpoint({ base_url: same.url })), policy))
        expect(said).toEqual([])
        expect(same.at("/detokenize")[0]?.body.tokens).toEqual([256, 257, 258])
      }
      const other = yield* vllm(of(["<|im_start|>", "<|im_end|>", "<|vision_start|>"]))
      const error = yield* Effect.flip(Effect.provide(OpenAi.connect(endpoint({ base_url: other.url })), policy))
      expect(error.message).toMatch(/token id 258 is "<think>" for the policy, and it reads "<\|vision_start\|>"/)
    })
  )

  it.scoped("whose special tokens cannot be read is used with a warning", () =>
    Effect.gen(function* () {
      const { url } = yield* vllm()
      const { said } = yield* warned(Effect.provide(OpenAi.connect(endpoint({ base_url: url })), spelled(spellings)))
      expect(said).toEqual([expect.stringMatching(/has no \/detokenize: special tokens were not checked$/)])
    })
  )

  it.scoped("of a server without /tokenize is checked for its size alone, with a warning", () =>
    Effect.gen(function* () {
      for (const route of ["generate", "completions"] as const) {
        const { said } = yield* warned(Effect.flatMap(vllm({ routes: [route] }), connect))
        expect(said).toEqual([expect.stringMatching(/has no \/tokenize: of its vocabulary only the size was checked/)])
      }
      expect(yield* refused({ routes: ["generate"], vocabularySize: 256 })).toMatch(
        /highest token id is 260: .*status 400: Token id 260 is out of vocabulary/
      )
    })
  )
})

describe("TOK-02: log-probabilities that are not temperature-processed", () => {
  const layer = (url: string) => Layer.provide(OpenAi.layerInference(endpoint({ base_url: url })), layerTokenizer)

  it.scoped("are warned of once where they are a frozen model's", () =>
    Effect.gen(function* () {
      for (const route of ["generate", "completions"] as const) {
        const server = yield* vllm({ logprobs: "raw", routes: [route, "tokenize"] })
        const { said } = yield* warned(
          Effect.flatMap(connect(server), (model) => Effect.repeatN(model.generate(promptIds, sampling), 2))
        )
        expect(said).toEqual([
          expect.stringMatching(/^teacher at .* are not temperature-processed.*--logprobs-mode processed_logprobs$/)
        ])
      }
    })
  )

  it.scoped("are refused where they are the policy's", () =>
    Effect.gen(function* () {
      const { url } = yield* vllm({ logprobs: "raw" })
      expect((yield* Effect.flip(Layer.build(layer(url)))).message).toMatch(/are not temperature-processed/)
    })
  )

  it.scoped("cannot be told from a server that refuses a high temperature, which is no error", () =>
    Effect.gen(function* () {
      const server = yield* vllm({
        reply: ({ body, path }) =>
          path === generatePath && body.sampling_params.temperature > 2
            ? { status: 400, body: { error: { message: "temperature must be in [0, 2]" } } }
            : undefined
      })
      yield* Layer.build(layer(server.url))
      expect(server.at(generatePath).map(({ body }) => body.sampling_params.temperature)).toEqual([1_000, 1, 1])
    })
  )

  it.scoped("of a policy that is served elsewhere are used, and it says that it cannot take weights", () =>
    Effect.gen(function* () {
      const server = yield* vllm()
      const inference = Context.get(yield* Layer.build(layer(server.url)), Inference)
      expect(yield* inference.generate(promptIds, sampling)).toEqual(yield* server.model.generate(promptIds, sampling))
      const weights = { version: 3, snapshot: undefined as never }
      expect((yield* Effect.flip(inference.adopt(weights))).message).toMatch(
        /cannot take over the weights of version 3/
      )
    })
  )
})

it.scoped("the layer of endpoints connects for a policy's tokenizer", () =>
  Effect.gen(function* () {
    const { url } = yield* vllm()
    const endpoints = yield* Endpoints.Endpoints
    const model = yield* endpoints.connect(endpoint({ base_url: url }))
    expect((yield* model.score(promptIds)).length).toBe(3)
  }).pipe(Effect.provide(Layer.provide(OpenAi.layer(), layerTokenizer)))
)
