import { connect } from "node:net"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { asAdmin, serve } from "./kit.ts"

const completions = "/v1/completions"
const chat = "/v1/chat/completions"
const generate = "/inference/v1/generate"
const user = { role: "user", content: "hi" }

/** What is sent, and what the answer says of it. */
const refusals: ReadonlyArray<readonly [path: string, body: unknown, message: RegExp, param?: string]> = [
  [completions, "{", /the body is not JSON/],
  [completions, "", /the body is empty/],
  [completions, "[1]", /the body is a list; it must be a JSON object/],
  [completions, "null", /the body is null/],
  [completions, {}, /prompt/, "prompt"],
  [completions, { prompt: [] }, /^prompt: allowed is text/, "prompt"],
  [completions, { prompt: "" }, /^prompt: there are no tokens in it/, "prompt"],
  [completions, { prompt: ["a", 3] }, /^prompt\[1\]: allowed is text/, "prompt"],
  [
    completions,
    { prompt: ["a", [1, 262]] },
    /^prompt\[1\]: 262 at position 1 is no token id; .* 0 to 261/,
    "prompt[1]"
  ],
  [completions, { prompt: [1.5] }, /1\.5 at position 0/, "prompt"],
  [
    completions,
    { prompt: "a", temprature: 1 },
    /temprature: unknown parameter; did you mean "temperature"\?/,
    "temprature"
  ],
  [completions, { prompt: "a", top_p: 0 }, /^top_p: found 0, allowed is a number above 0/, "top_p"],
  [completions, { prompt: "a", seed: 1.5 }, /^seed: found 1.5, allowed is a whole number/, "seed"],
  [completions, { prompt: "a", n: 0 }, /^n: found 0, allowed is a whole number from 1 to 128/, "n"],
  [completions, { prompt: "a", temperature: -1, max_tokens: "9" }, /max_tokens: found "9".*temperature: found -1/],
  [completions, { prompt: "a", stop: "" }, /^stop: found "", allowed is text that is not empty/, "stop"],
  [
    completions,
    { prompt: "a", logprobs: 5 },
    /^logprobs: found 5, allowed is 0 or 1: the log-probability of the token/
  ],
  [completions, { prompt: "a", presence_penalty: 0.5 }, /presence_penalty: found 0.5, allowed is 0 \(penalties/],
  [completions, { prompt: "a", logit_bias: { 5: 1 } }, /logit_bias: found an object, allowed is nothing \(biases/],
  [completions, { prompt: "a", best_of: 3 }, /best_of: found 3, allowed is 1 \(use n\)/],
  [completions, { prompt: "a", stream: true, prompt_logprobs: 1 }, /whole answers only/, "prompt_logprobs"],
  [chat, { messages: [] }, /^messages\[0\]: missing/, "messages[0]"],
  [chat, { messages: [user, { role: "user" }] }, /^messages\[1\]\.content: missing/],
  [chat, { messages: [{ role: "wizard", content: "x" }] }, /^messages\[0\]\.role: found "wizard"/],
  [chat, { messages: [{ role: "user", content: [{ type: "image_url" }] }] }, /^messages\[0\]\.content/],
  [chat, { messages: [{ role: "tool", content: "x" }] }, /^messages\[0\]\.tool_call_id: missing/],
  [chat, { messages: [user], tools: [{ type: "function" }] }, /^tools\[0\]\.function: missing/],
  [
    chat,
    { messages: [user], tools: [{ type: "function", function: { name: "f" } }] },
    /^messages: .*<tool_call>/,
    "messages"
  ],
  [chat, { messages: [user], tool_choice: "required" }, /tool_choice: found "required", allowed is "auto" or "none"/],
  [chat, { messages: [user], response_format: { type: "json_object" } }, /answers of a given form are not supported/],
  [chat, { messages: [user], top_logprobs: 1 }, /top_logprobs needs logprobs: true/, "top_logprobs"],
  [generate, { token_ids: [1] }, /sampling_params: missing/],
  [generate, { token_ids: [], sampling_params: {} }, /token_ids: there are no tokens in it/, "token_ids"],
  [
    generate,
    { token_ids: [-1], sampling_params: {} },
    /token_ids: found a list, allowed is a list of token ids/,
    "token_ids"
  ],
  [generate, { token_ids: [1], sampling_params: { max_token: 3 } }, /sampling_params\.max_token: .* "max_tokens"/],
  [generate, { token_ids: [1], sampling_params: { stop: ["x"] } }, /sampling_params\.stop: .*use stop_token_ids/],
  [
    completions,
    { prompt: "a", temperature: 1e-45 },
    /temperature: found 1e-45, allowed is 0, or a number from 1\.2e-38/
  ],
  [
    completions,
    { prompt: "a", prompt_logprobs: 1, prompt_logprobs_temperature: 1e300 },
    /prompt_logprobs_temperature: found 1e\+300, allowed is a number from 1\.2e-38/
  ],
  [
    completions,
    Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`k${i}`, i])),
    /k19: unknown .*; and 10 more$/
  ],
  ["/tokenize", {}, /give either prompt or messages/],
  ["/detokenize", { tokens: "x" }, /tokens: found "x"/, "tokens"]
]

layer(NodeContext.layer)("a request that is wrong", (it) => {
  it.scoped("is told every problem, in OpenAI's form, and changes nothing", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      for (const [path, body, message, param] of refusals) {
        const answer = yield* call(path, body)
        const { error } = answer.body
        expect([path, answer.status, Object.keys(error)]).toEqual([path, 400, ["message", "type", "param", "code"]])
        expect(error.type).toBe("invalid_request_error")
        expect(error.message).toMatch(message)
        if (param !== undefined) expect(error.param).toBe(param)
      }
      expect((yield* call("/load")).body).toEqual({ server_load: 0 })
    })
  )

  it.scoped("API-01: a prompt that leaves no room is a 400 with the numbers and OpenAI's code", () =>
    Effect.gen(function* () {
      const { call } = yield* serve({ maxSequenceLength: 20 })
      for (const [path, body] of [
        [completions, { prompt: "x".repeat(21) }],
        [chat, { messages: [{ role: "user", content: "x".repeat(21) }] }]
      ] as const) {
        const { body: answer, status } = yield* call(path, body)
        expect(status).toBe(400)
        expect(answer.error.code).toBe("context_length_exceeded")
        expect(answer.error.message).toMatch(/maximum context length is 20 tokens, and the prompt has \d+/)
      }
      const fits = yield* call(completions, { prompt: "x".repeat(19), max_tokens: 50, ignore_eos: true })
      expect(fits.body).toMatchObject({ choices: [{ finish_reason: "length" }], usage: { completion_tokens: 1 } })
    })
  )

  it.scoped("an unknown model is a 404 that names those there are; so is an unknown route", () =>
    Effect.gen(function* () {
      const { call } = yield* serve({ name: "tiny" })
      const answer = yield* call(completions, { model: "gpt", prompt: "a" })
      expect(answer.status).toBe(404)
      expect(answer.body.error).toMatchObject({ code: "model_not_found", param: "model" })
      expect(answer.body.error.message).toContain("tiny")
      const route = yield* call("/v2/models?x=1")
      expect([route.status, route.body.error.message]).toEqual([404, "there is no GET /v2/models"])
    })
  )

  it.scoped("a body that is too large is refused before it is read", () =>
    Effect.gen(function* () {
      const { port } = yield* serve()
      const said = yield* Effect.async<string>((resume) => {
        const socket = connect(port, "127.0.0.1", () =>
          socket.write(`POST ${completions} HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n{`)
        )
        let text = ""
        socket.on("data", (chunk) => {
          text += chunk
        })
        socket.on("end", () => resume(Effect.succeed(text)))
      })
      expect(said).toMatch(/^HTTP\/1\.1 413 /)
      expect(said).toMatch(/larger than \d+ bytes/)
    })
  )

  it.scoped("a body that grows too large on the way is read to its end, and refused in an answer", () =>
    Effect.gen(function* () {
      const { port } = yield* serve()
      const part = `100000\r\n${"x".repeat(0x100000)}\r\n`
      const said = yield* Effect.async<string>((resume) => {
        const socket = connect(port, "127.0.0.1", () => {
          socket.write(`POST ${completions} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n`)
          for (let mebibyte = 0; mebibyte < 33; mebibyte++) socket.write(part)
          socket.write("0\r\n\r\n")
        })
        let text = ""
        socket.on("data", (chunk) => {
          text += chunk
        })
        socket.on("error", ({ message }) => resume(Effect.succeed(message)))
        socket.on("end", () => resume(Effect.succeed(text)))
      })
      expect(said).toMatch(/^HTTP\/1\.1 413 /)
    })
  )

  it.scoped("bytes that are not UTF-8 are refused, and not read as other characters", () =>
    Effect.gen(function* () {
      const { url } = yield* serve()
      const body = Buffer.from('{"prompt":"\xff"}', "latin1")
      const answer = yield* Effect.promise(() => fetch(`${url}/tokenize`, { method: "POST", body }))
      expect(answer.status).toBe(400)
      expect(yield* Effect.promise(() => answer.text())).toContain("the body is not UTF-8")
    })
  )

  it.scoped("a body nested without end is a 400, wherever it is nested", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const deep = `${"[".repeat(50_000)}${"]".repeat(50_000)}`
      for (const [path, body] of [
        ["/tokenize", `{"prompt":${deep}}`],
        [chat, `{"messages":[{"role":"user","content":${deep}}]}`],
        [completions, `{"prompt":"a","user":${deep}}`]
      ] as const) {
        const answer = yield* call(path, body)
        expect([answer.status, answer.body.error.message]).toEqual([400, "the body is nested deeper than 200 levels"])
      }
    })
  )

  it.scoped("a long body with much that is wrong has a short answer", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const messages = new Array<unknown>(10_000).fill({ role: "wizard", content: 1 })
      const answer = yield* call(chat, { messages })
      expect(answer.status).toBe(400)
      expect(answer.body.error.message).toMatch(/^messages\[0\]/)
      expect(answer.body.error.message.length).toBeLessThan(1_000)
    })
  )

  it.scoped("a route that is there for another method is a 405 that names it", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const answer = yield* call(completions)
      expect([answer.status, answer.headers.get("allow")]).toEqual([405, "POST"])
      expect(answer.body.error.message).toBe("/v1/completions takes POST, not GET")
    })
  )

  it.scoped("with a key everyone needs it, except for /health", () =>
    Effect.gen(function* () {
      const { call } = yield* serve({ apiKey: Redacted.make("s3cret") })
      expect((yield* call("/health")).status).toBe(200)
      for (const headers of [{}, { authorization: "Bearer wrong" }, { authorization: "s3cret" }, asAdmin]) {
        const { body, status } = yield* call(completions, { prompt: "a" }, headers)
        expect([status, body.error.code]).toEqual([401, "invalid_api_key"])
      }
      expect((yield* call(completions, { prompt: "a" }, { authorization: "Bearer s3cret" })).status).toBe(200)
    })
  )

  it.scoped("a full server says so at once, and serves again when there is room", () =>
    Effect.gen(function* () {
      const { call } = yield* serve({ limits: { requests: 2, running: 1 } })
      yield* call("/pause", {}, asAdmin)
      const waiting = yield* Effect.forkAll([1, 2].map((seed) => call(completions, { prompt: "a", seed })))
      yield* Effect.repeat(call("/load"), { until: ({ body }) => body.server_load === 2 })
      const refused = yield* call(completions, { prompt: "a" })
      expect([refused.status, refused.body.error.type]).toEqual([503, "overloaded_error"])
      expect(refused.headers.get("retry-after")).toBe("1")
      yield* call("/resume", {}, asAdmin)
      expect((yield* waiting.await)._tag).toBe("Success")
      expect((yield* call(completions, { prompt: "a" })).status).toBe(200)
    })
  )
})
