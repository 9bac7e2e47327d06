/** Asking a server: what is retried and when, what is not, and in what words it fails. */
import * as Undici from "@effect/platform-node/Undici"
import { describe, expect, it, vi } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import type { Endpoint, FrozenModel } from "../../../src/Endpoints.ts"
import type { Sampling } from "../../../src/Inference.ts"
import * as OpenAi from "../../../src/inference/OpenAi.ts"
import { layerTokenizer } from "../../../src/testing/byteChat.ts"
import { asleepUntil, generatePath, type Options, type Reply, until, vllm } from "../../doubles/vllm.ts"

const promptIds = Int32Array.from([10, 20, 30])
const sampling: Sampling = { temperature: 0.8, maxTokens: 6, stopTokenIds: [], seed: 5 }

const endpoint = (urls: readonly [string, ...Array<string>], more: Partial<Endpoint> = {}): Endpoint => ({
  name: "teacher",
  base_url: urls,
  timeout_ms: 20_000,
  max_retries: 2,
  ...more
})

const connect = (of: Endpoint, options?: OpenAi.Options) => Effect.provide(OpenAi.connect(of, options), layerTokenizer)

/** A model behind one server that answers by hand once it is connected. */
const connected = (reply: Options["reply"], more: Partial<Endpoint> = {}, options: Options = {}) =>
  Effect.gen(function* () {
    let byHand = false
    let count = 0
    const server = yield* vllm({
      ...options,
      reply: (asked) => (byHand && asked.path === generatePath ? reply?.(asked, ++count) : undefined)
    })
    const model = yield* connect(endpoint([server.url], more))
    byHand = true
    return { server, model, attempts: () => count }
  })

const generate = (model: FrozenModel) => model.generate(promptIds, sampling)
const failing = (model: FrozenModel) => Effect.map(Effect.flip(generate(model)), ({ message }) => message)
const first = (replies: ReadonlyArray<Reply>) => (_: unknown, count: number) => replies[count - 1]

describe("a request", () => {
  for (const status of [408, 500, 502, 503]) {
    it.scoped(`that meets ${status} is made again after a second, and its answer is the one it would have been`, () =>
      Effect.gen(function* () {
        const { attempts, model, server } = yield* connected(first([{ status, body: "busy" }]))
        const fiber = yield* Effect.fork(generate(model))
        yield* asleepUntil(1_000)
        expect(attempts()).toBe(1)
        yield* TestClock.adjust(999)
        expect(attempts()).toBe(1)
        yield* TestClock.adjust(1)
        expect(yield* Fiber.join(fiber)).toEqual(yield* server.model.generate(promptIds, sampling))
        expect(attempts()).toBe(2)
      })
    )
  }

  it.scoped("waits 1, 2, 4, 8, 10 and 10 seconds, and then says what the last answer was", () =>
    Effect.gen(function* () {
      const { attempts, model, server } = yield* connected(
        (_, count) => ({ status: 503, body: { error: { message: `overloaded ${count}` } } }),
        { max_retries: 6 }
      )
      const fiber = yield* Effect.fork(failing(model))
      let now = 0
      for (const seconds of [1, 2, 4, 8, 10, 10]) {
        yield* asleepUntil(now + seconds * 1_000)
        yield* TestClock.adjust(seconds * 1_000)
        now += seconds * 1_000
      }
      expect(yield* Fiber.join(fiber)).toBe(
        `inference teacher: POST http://127.0.0.1:${server.port}${generatePath}: status 503: overloaded 7 (after 7 attempts)`
      )
      expect(attempts()).toBe(7)
    })
  )

  it.scoped("waits as long as a 429 asks for, in seconds or until a date", () =>
    Effect.gen(function* () {
      const at = (header: string): Reply => ({ status: 429, headers: { "retry-after": header }, body: "slow down" })
      const { attempts, model } = yield* connected(first([at("7"), at("Thu, 01 Jan 1970 00:00:12 GMT")]))
      const fiber = yield* Effect.fork(generate(model))
      yield* asleepUntil(7_000)
      yield* TestClock.adjust(7_000)
      yield* asleepUntil(12_000)
      expect(attempts()).toBe(2)
      yield* TestClock.adjust(5_000)
      yield* Fiber.join(fiber)
      expect(attempts()).toBe(3)
    })
  )

  it.scoped("does not wait longer than its time limit for a 429", () =>
    Effect.gen(function* () {
      const { attempts, model } = yield* connected(() => ({
        status: 429,
        headers: { "retry-after": "3600" },
        body: "tomorrow"
      }))
      expect(yield* failing(model)).toMatch(/status 429: tomorrow; it asks to wait 3600 s, longer than timeout_ms/)
      expect(attempts()).toBe(1)
    })
  )

  for (const status of [400, 401, 403, 404, 422, 501]) {
    it.scoped(`that meets ${status} is not made again`, () =>
      Effect.gen(function* () {
        const { attempts, model } = yield* connected(() => ({ status, body: { detail: "not like this" } }))
        expect(yield* failing(model)).toMatch(new RegExp(`status ${status}: not like this$`))
        expect(attempts()).toBe(1)
      })
    )
  }

  it.scoped("API-15: a server that is silent is waited for until timeout_ms, and no other limit", () =>
    Effect.gen(function* () {
      const { attempts, model, server } = yield* connected(() => "hang", { max_retries: 0, timeout_ms: 7_200_000 })
      const fiber = yield* Effect.fork(failing(model))
      yield* until(() => attempts() === 1)
      yield* TestClock.adjust(7_199_999)
      expect(fiber.unsafePoll()).toBeNull()
      yield* TestClock.adjust(1)
      expect(yield* Fiber.join(fiber)).toMatch(/no answer within 7200000 ms$/)
      yield* until(() => server.gone() === 1)
    })
  )

  it.scoped("API-15: the HTTP client's own limits for headers and bodies are off", () =>
    Effect.gen(function* () {
      const dispatch = vi.spyOn(Undici.Agent.prototype, "dispatch")
      yield* Effect.addFinalizer(() => Effect.sync(() => dispatch.mockRestore()))
      const { model } = yield* connected(undefined)
      yield* generate(model)
      expect(dispatch.mock.calls.length).toBeGreaterThan(3)
      for (const [options] of dispatch.mock.calls) expect(options).toMatchObject({ headersTimeout: 0, bodyTimeout: 0 })
    })
  )

  it.scoped("that is given up is given up at the server too", () =>
    Effect.gen(function* () {
      const { attempts, model, server } = yield* connected(() => "hang")
      const fiber = yield* Effect.fork(generate(model))
      yield* until(() => attempts() === 1)
      yield* Fiber.interrupt(fiber)
      yield* until(() => server.gone() === 1)
    })
  )

  it.scoped("whose answer ends halfway is made again", () =>
    Effect.gen(function* () {
      const { attempts, model } = yield* connected(first(["die"]))
      const fiber = yield* Effect.fork(generate(model))
      yield* asleepUntil(1_000)
      yield* TestClock.adjust(1_000)
      yield* Fiber.join(fiber)
      expect(attempts()).toBe(2)
      const always = yield* connected(() => "die", { max_retries: 0 })
      expect(yield* failing(always.model)).toMatch(/the connection ended within the answer/)
    })
  )

  it.scoped("API-17: a proxy's page, half an answer and an unknown ending are made again, and told as that", () =>
    Effect.gen(function* () {
      const ended = { choices: [{ token_ids: [1], logprobs: { content: [] }, finish_reason: "abort" }] }
      for (const [body, words] of [
        ["<html><body>Bad gateway, come back</body></html>", /a page instead of JSON, as a proxy gives: <html>/],
        ['{"choices":[{"token_ids":[1,2', /not JSON \(29 characters\)/],
        ["", /an empty answer/],
        [ended, /finish_reason abort/]
      ] as const) {
        const { attempts, model } = yield* connected(first([{ body }]))
        const fiber = yield* Effect.fork(generate(model))
        yield* asleepUntil((yield* TestClock.currentTimeMillis) + 1_000)
        yield* TestClock.adjust(1_000)
        yield* Fiber.join(fiber)
        expect(attempts()).toBe(2)
        const always = yield* connected(() => ({ body }), { max_retries: 0 })
        expect(yield* failing(always.model)).toMatch(words)
      }
    })
  )

  it.scoped("an error under a status of success is told in the server's words, and not asked for again", () =>
    Effect.gen(function* () {
      for (const [body, words] of [
        [{ error: { message: "the engine is dead" } }, /an error under a status of success: the engine is dead/],
        [{ object: "error", message: "out of memory" }, /an error under a status of success: out of memory/],
        ["[]", /the answer is no JSON object/],
        ["null", /the answer is no JSON object/]
      ] as const) {
        const { attempts, model } = yield* connected(() => ({ body }))
        expect(yield* failing(model)).toMatch(words)
        expect(attempts()).toBe(1)
      }
    })
  )

  it.scoped("TOK-17: without ids and log-probabilities it fails at once, and not as an empty turn", () =>
    Effect.gen(function* () {
      const { attempts, model } = yield* connected(() => ({
        body: { choices: [{ text: "Hi", finish_reason: "stop" }] }
      }))
      expect(yield* failing(model)).toMatch(/the endpoint did not return token ids and log-probabilities/)
      expect(attempts()).toBe(1)
    })
  )

  it.scoped("a prompt that is too long is the harness's to answer, and asked once", () =>
    Effect.gen(function* () {
      for (const message of [
        "This model's maximum context length is 8192 tokens. However, you requested 1 output tokens and your prompt contains at least 8192 input tokens.",
        "The decoder prompt (length 8195) is longer than the maximum model length of 8192.",
        "The decoder prompt (length 8192) plus the number of requested output tokens (at least 1) is longer than the maximum model length of 8192."
      ]) {
        const { attempts, model } = yield* connected(() => ({
          status: 400,
          body: { error: { message, type: "BadRequestError", code: 400 } }
        }))
        const error = yield* Effect.flip(generate(model))
        expect(error).toMatchObject({ promptTooLong: true, endpoint: "teacher" })
        expect(error.message).toContain(message)
        expect(attempts()).toBe(1)
      }
    })
  )

  it.scoped("one that cannot fit is not sent, and one that nearly fills the sequence asks for what is left", () =>
    Effect.gen(function* () {
      const { model, server } = yield* connected(undefined, {}, { maxModelLen: 64 })
      const before = server.asked.length
      expect(yield* Effect.flip(model.generate(new Int32Array(64), sampling))).toMatchObject({ promptTooLong: true })
      expect(yield* Effect.flip(model.score(new Int32Array(65)))).toMatchObject({ promptTooLong: true })
      expect((yield* Effect.flip(model.generate(new Int32Array(0), sampling))).message).toMatch(/promptIds is empty/)
      expect(server.asked.length).toBe(before)
      const { tokenIds } = yield* model.generate(new Int32Array(60), { ...sampling, maxTokens: 50 })
      expect(tokenIds.length).toBe(4)
      expect(server.at(generatePath).at(-1)?.body.sampling_params.max_tokens).toBe(4)
    })
  )

  it.scoped("no more are under way than the connection allows, and the others follow", () =>
    Effect.gen(function* () {
      let underWay = 0
      let most = 0
      let open = false
      const waiting: Array<() => void> = []
      const server = yield* vllm({
        reply: ({ path }) => {
          if (path !== generatePath || !open) return undefined
          most = Math.max(most, ++underWay)
          return new Promise((resolve) => waiting.push(() => resolve(void underWay--)))
        }
      })
      const model = yield* connect(endpoint([server.url]), { concurrency: 3 })
      open = true
      const fiber = yield* Effect.fork(
        Effect.all(
          Array.from({ length: 10 }, (_, seed) => model.generate(promptIds, { ...sampling, seed })),
          { concurrency: "unbounded" }
        )
      )
      for (let done = 0; done < 10; done++) {
        yield* until(() => waiting.length > 0 && underWay === Math.min(3, 10 - done))
        waiting.shift()?.()
      }
      expect((yield* Fiber.join(fiber)).length).toBe(10)
      expect(most).toBe(3)
    })
  )

  it.scoped("an answer of many megabytes is read whole", () =>
    Effect.gen(function* () {
      const server = yield* vllm({
        maxModelLen: 200_000,
        reply: ({ body, path }) => {
          if (path !== generatePath || !body.sampling_params.prompt_logprobs) return undefined
          const prompt_logprobs = body.token_ids.map((id: number, i: number) =>
            i === 0 ? null : { [id]: { logprob: -i / 1e6, rank: 1, decoded_token: "padding ".repeat(8) } }
          )
          return { body: { choices: [], prompt_logprobs } }
        }
      })
      const model = yield* connect(endpoint([server.url]))
      const logprobs = yield* model.score(Int32Array.from({ length: 100_000 }, (_, i) => i % 256))
      expect(logprobs.length).toBe(100_000)
      expect(logprobs[99_999]).toBeCloseTo(-0.099999, 6)
    })
  )
})

describe("the key", () => {
  const env = ConfigProvider.fromMap(new Map([["TEACHER_KEY", "s3cret\n"]]))

  it.scoped("comes from the environment, goes to every request, and is in no error", () =>
    Effect.gen(function* () {
      let refuse = false
      const server = yield* vllm({
        reply: ({ headers }) =>
          refuse ? { status: 401, body: { error: { message: `wrong key ${headers.authorization}` } } } : undefined
      })
      const of = endpoint([server.url], { api_key_var: "TEACHER_KEY" })
      const model = yield* Effect.withConfigProvider(connect(of), env)
      expect(new Set(server.asked.map(({ headers }) => headers.authorization))).toEqual(new Set(["Bearer s3cret"]))
      refuse = true
      const error = yield* Effect.flip(generate(model))
      expect(error.message).toMatch(/status 401: wrong key Bearer \*\*\*/)
      expect(JSON.stringify(error)).not.toContain("s3cret")
    })
  )

  it.scoped("that is not set is named, and nothing is asked", () =>
    Effect.gen(function* () {
      const server = yield* vllm()
      for (const name of ["NOT_SET", "EMPTY_ONE"]) {
        const error = yield* connect(endpoint([server.url], { api_key_var: name })).pipe(
          Effect.withConfigProvider(ConfigProvider.fromMap(new Map([["EMPTY_ONE", " "]]))),
          Effect.flip
        )
        expect(error.message).toMatch(new RegExp(`environment variable ${name}, named by api_key_var, is not set`))
      }
      expect(server.asked).toEqual([])
    })
  )

  it.scoped("in a URL is not repeated", () =>
    Effect.gen(function* () {
      const server = yield* vllm()
      yield* server.close
      const url = server.url.replace("http://", "http://me:pa55word@")
      const error = yield* Effect.flip(connect(endpoint([url]), { readyTimeoutMs: 500 }))
      expect(error.message).toMatch(/no connection \(ECONNREFUSED\)/)
      expect(error.message).not.toContain("pa55word")
    })
  )
})

describe("several servers", () => {
  const two = (reply?: Options["reply"]) =>
    Effect.gen(function* () {
      const servers = [yield* vllm({ ...(reply && { reply }) }), yield* vllm()] as const
      const model = yield* connect(endpoint([servers[0].url, servers[1].url]))
      const before = servers.map(({ at }) => at(generatePath).length)
      return { servers, model, counts: () => servers.map(({ at }, i) => at(generatePath).length - before[i]!) }
    })

  it.scoped("share the requests", () =>
    Effect.gen(function* () {
      const { counts, model } = yield* two()
      yield* Effect.all(
        Array.from({ length: 8 }, () => generate(model)),
        { concurrency: 4 }
      )
      const [a, b] = counts()
      expect(a! + b!).toBe(8)
      expect(Math.min(a!, b!)).toBeGreaterThan(1)
    })
  )

  it.scoped("one that holds requests up gets no more of them", () =>
    Effect.gen(function* () {
      let hold = false
      const { counts, model } = yield* two(({ path }) => (hold && path === generatePath ? "hang" : undefined))
      hold = true
      yield* Effect.fork(generate(model))
      yield* until(() => counts()[0] === 1)
      for (let i = 0; i < 5; i++) yield* generate(model)
      expect(counts()).toEqual([1, 5])
    })
  )

  it.scoped("one that died costs no request its answer and no time, and is asked again later", () =>
    Effect.gen(function* () {
      const { counts, model, servers } = yield* two()
      const answer = yield* generate(model)
      yield* servers[0].close
      for (let i = 0; i < 4; i++) expect(yield* generate(model)).toEqual(answer)
      expect(counts()[1]).toBeGreaterThanOrEqual(4)
      const revived = yield* vllm({ port: servers[0].port })
      for (let i = 0; i < 3; i++) yield* generate(model)
      expect(revived.asked.length).toBe(0)
      yield* TestClock.adjust(1_000)
      for (let i = 0; i < 3; i++) yield* generate(model)
      expect(revived.asked.length).toBeGreaterThan(0)
    })
  )

  it.scoped("when all are gone, the error says so of each", () =>
    Effect.gen(function* () {
      const { model, servers } = yield* two()
      for (const { close } of servers) yield* close
      const fiber = yield* Effect.fork(failing(model))
      yield* asleepUntil(2_000)
      yield* TestClock.adjust(2_000)
      const message = yield* Fiber.join(fiber)
      for (const { port } of servers)
        expect(message).toContain(`http://127.0.0.1:${port}${generatePath}: no connection (ECONNREFUSED)`)
      expect(message).toMatch(/after 3 attempts/)
    })
  )
})

it.scoped("a model's scope takes its connections along", () =>
  Effect.gen(function* () {
    const server = yield* vllm()
    const exit = yield* Effect.exit(
      Effect.scoped(Effect.map(connect(endpoint([server.url], { max_retries: 0 })), generate)).pipe(Effect.flatten)
    )
    expect(Exit.isFailure(exit)).toBe(true)
  })
)
