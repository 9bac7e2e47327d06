/** What comes over a connection that no client of the server's own would send. */
import { connect } from "node:net"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { layer, open, type Rollout } from "./kit.ts"

const dialects = [
  { path: "/chat/completions", body: { messages: [{ role: "user", content: "hi" }] } },
  { path: "/responses", body: { input: "hi" } },
  { path: "/messages", body: { max_tokens: 5, messages: [{ role: "user", content: "hi" }] } }
] as const

/** Writes these bytes on a connection of its own, and gives all that comes back until the server closes it. */
const raw = (baseUrl: string, bytes: string | Buffer, options: { readonly end?: boolean } = {}) =>
  Effect.async<string>((resume) => {
    const { hostname, port } = new URL(baseUrl)
    const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
    let text = ""
    socket.setEncoding("utf8")
    socket.on("data", (more) => {
      text += more
    })
    socket.on("error", () => {})
    socket.on("end", () => socket.end())
    socket.on("close", () => resume(Effect.succeed(text)))
    if (options.end === true) socket.end(bytes)
    else socket.write(bytes)
    return Effect.sync(() => socket.destroy())
  })

const head = ({ endpoint }: Pick<Rollout, "endpoint">, path: string, ...lines: ReadonlyArray<string>) =>
  [
    `POST ${new URL(endpoint.baseUrl).pathname}${path} HTTP/1.1`,
    "host: x",
    `authorization: Bearer ${endpoint.secret}`,
    ...lines,
    "",
    ""
  ].join("\r\n")

/** A whole request. */
const request = (rollout: Rollout, path: string, body: object, ...lines: ReadonlyArray<string>) => {
  const json = JSON.stringify(body)
  return `${head(rollout, path, `content-length: ${Buffer.byteLength(json)}`, ...lines)}${json}`
}

const statuses = (text: string) => [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status))

describe("bytes on a connection", () => {
  for (const { body, path } of dialects) {
    it.scoped(`${path}: requests that follow one another without waiting are answered in their order`, () =>
      Effect.gen(function* () {
        const rollout = yield* open()
        const other = yield* open()
        const text = yield* raw(
          rollout.endpoint.baseUrl,
          request(rollout, path, body) +
            request(other, path, { ...body, stream: true }) +
            request(rollout, "/nowhere", body) +
            request(rollout, path, body, "connection: close")
        )
        expect(statuses(text)).toEqual([200, 200, 404, 200])
        expect((yield* rollout.session.progress).turns).toBe(1)
        expect((yield* other.session.progress).turns).toBe(1)
      }).pipe(Effect.provide(layer()))
    )

    it.scoped(`${path}: bytes that are no UTF-8 are a 400 in its envelope`, () =>
      Effect.gen(function* () {
        const rollout = yield* open()
        const json = Buffer.from(JSON.stringify(body).replace("hi", "h\u0001"), "latin1")
        json[json.indexOf(1)] = 0xff
        const text = yield* raw(
          rollout.endpoint.baseUrl,
          Buffer.concat([Buffer.from(head(rollout, path, `content-length: ${json.length}`, "connection: close")), json])
        )
        expect(statuses(text)).toEqual([400])
        const answer = JSON.parse(text.slice(text.indexOf("\r\n\r\n") + 4))
        expect(answer.error).toMatchObject({ type: "invalid_request_error", message: "the body is not UTF-8" })
        expect(answer.type).toBe(path === "/messages" ? "error" : undefined)
      }).pipe(Effect.provide(layer()))
    )

    it.scoped(`${path}: a body that says it is larger than any is a 413 in its envelope before it comes`, () =>
      Effect.gen(function* () {
        const rollout = yield* open()
        const text = yield* raw(
          rollout.endpoint.baseUrl,
          head(rollout, path, "content-length: 9007199254740991", "connection: close"),
          { end: true }
        )
        expect(statuses(text)[0]).toBe(413)
        expect(text).toContain(path === "/messages" ? "request_too_large" : "invalid_request_error")
        expect((yield* rollout.call(path, body)).status).toBe(200)
      }).pipe(Effect.provide(layer()))
    )
  }

  const broken: ReadonlyArray<readonly [what: string, lines: ReadonlyArray<string>, body: string]> = [
    ["a length that no number holds", ["content-length: 99999999999999999999999"], "{}"],
    ["a length below nothing", ["content-length: -1"], "{}"],
    ["a length in words", ["content-length: some"], "{}"],
    ["two lengths", ["content-length: 2", "content-length: 4"], "{}{}"],
    ["a length and chunks", ["content-length: 2", "transfer-encoding: chunked"], "2\r\n{}\r\n0\r\n\r\n"],
    ["a chunk without a size", ["transfer-encoding: chunked"], "size\r\n{}\r\n0\r\n\r\n"],
    ["a chunk that is longer than it says", ["transfer-encoding: chunked"], "1\r\n{}\r\n0\r\n\r\n"],
    ["a line that is no header", ["no header", "content-length: 2"], "{}"],
    ["a header over the limit", [`x-long: ${"x".repeat(1 << 17)}`, "content-length: 2"], "{}"]
  ]
  for (const [what, lines, body] of broken) {
    it.scoped(`${what}: a 4xx, the connection is closed, and nobody's turn is sampled`, () =>
      Effect.gen(function* () {
        const rollout = yield* open()
        const text = yield* raw(rollout.endpoint.baseUrl, head(rollout, "/chat/completions", ...lines) + body)
        // what is too much for the server to read on may be cut off before its answer comes through
        expect(text === "" || /^HTTP\/1\.1 4\d\d /.test(text)).toBe(true)
        expect((yield* rollout.session.progress).calls).toBe(0)
        expect((yield* rollout.call("/chat/completions", dialects[0].body)).status).toBe(200)
      }).pipe(Effect.provide(layer()))
    )
  }

  it.scoped("a client that has said all that it will say keeps its turn only if it gets its answer", () =>
    Effect.gen(function* () {
      const rollout = yield* open()
      const text = yield* raw(rollout.endpoint.baseUrl, request(rollout, "/chat/completions", dialects[0].body), {
        end: true
      })
      const { turns } = yield* rollout.session.progress
      expect(turns).toBe(statuses(text).length)
      expect((yield* rollout.call("/messages", dialects[2].body)).status).toBe(200)
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("half a body and then the end of the connection is nobody's request", () =>
    Effect.gen(function* () {
      const rollout = yield* open()
      for (const { path } of dialects) {
        yield* raw(rollout.endpoint.baseUrl, `${head(rollout, path, "content-length: 100")}{"mess`, { end: true })
      }
      expect(yield* rollout.session.progress).toMatchObject({ calls: 0, failure: undefined })
      expect((yield* rollout.call("/chat/completions", dialects[0].body)).status).toBe(200)
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("of several keys the first counts, and no other opens a rollout", () =>
    Effect.gen(function* () {
      const rollout = yield* open()
      const json = JSON.stringify(dialects[0].body)
      const path = `${new URL(rollout.endpoint.baseUrl).pathname}/chat/completions`
      const asked = (...keys: ReadonlyArray<string>) =>
        raw(
          rollout.endpoint.baseUrl,
          [
            `POST ${path} HTTP/1.1`,
            "host: x",
            ...keys.map((key) => `authorization: Bearer ${key}`),
            `content-length: ${json.length}`,
            "connection: close",
            "",
            json
          ].join("\r\n")
        )
      expect(statuses(yield* asked("wrong", rollout.endpoint.secret))).toEqual([401])
      expect(statuses(yield* asked(rollout.endpoint.secret, "wrong"))).toEqual([200])
    }).pipe(Effect.provide(layer()))
  )
})

describe("a wrong key", () => {
  for (const { body, path } of dialects) {
    it.scoped(`${path}: is told nothing: neither of the rollout, nor whether there is one, nor what is wrong`, () =>
      Effect.gen(function* () {
        const rollout = yield* open({ model: "known" })
        const other = yield* open()
        const { baseUrl, secret } = rollout.endpoint
        const keys = [
          "",
          "x",
          secret.slice(0, -1),
          `${secret}0`,
          secret.toUpperCase(),
          other.endpoint.secret,
          "ÿ".repeat(64)
        ]
        const said = new Set<string>()
        const ask = (url: string, key: string, sent: string) =>
          Effect.promise(async () => {
            const headers = { authorization: `Bearer ${key}`, "anthropic-version": "2023-06-01" }
            const answer = await fetch(url, { method: "POST", headers, body: sent })
            said.add(`${answer.status} ${answer.headers.get("allow")} ${await answer.text()}`)
          })
        for (const key of keys) {
          for (const sent of [JSON.stringify(body), "{"]) yield* ask(`${baseUrl}${path}`, key, sent)
        }
        const nowhere = baseUrl.replace(/\/[0-9a-f]+\/v1$/, `/${"0".repeat(16)}/v1`)
        yield* ask(`${nowhere}${path}`, secret, JSON.stringify(body))
        expect(said.size).toBe(1)
        expect([...said][0]).toMatch(/^401 null /)
        expect([...said][0]).not.toContain("known")
        expect((yield* rollout.session.progress).calls).toBe(0)
      }).pipe(Effect.provide(layer()))
    )
  }
})

describe("values out of range", () => {
  const large = 2 ** 31
  const chat = dialects[0]
  const cases: ReadonlyArray<readonly [(typeof dialects)[number], ReadonlyArray<readonly [string, unknown, number]>]> =
    [
      [
        chat,
        [
          ...[0, -1, 1.5, large, 1e300, "5", true, []].flatMap(
            (value) =>
              [
                ["max_tokens", value, 400],
                ["max_completion_tokens", value, 400]
              ] as const
          ),
          ...[0, 2, -1, 1.5, "1", 1e300].map((value) => ["n", value, 400] as const),
          ...[2, -1, "1", 20].map((value) => ["top_logprobs", value, 400] as const),
          ["logprobs", 5, 400],
          ["stop", "", 400],
          ["stop", Array.from({ length: 65 }, String), 400],
          ["stream", "yes", 400],
          // the run's sampling holds, whatever is asked for
          ...[-1, 3, 1e300, "hot", null].map((value) => ["temperature", value, 200] as const),
          ...[-1, 2, "all"].map((value) => ["top_p", value, 200] as const),
          ["seed", -1e300, 200],
          ["max_tokens", null, 200],
          ["n", null, 200]
        ]
      ],
      [
        dialects[1],
        [
          ...[0, -1, 1.5, large, 1e300, "5"].map((value) => ["max_output_tokens", value, 400] as const),
          ["background", true, 400],
          ["include", "all", 400],
          ["temperature", 99, 200],
          ["top_logprobs", 99, 200]
        ]
      ],
      [
        dialects[2],
        [
          ...[0, -1, 1.5, large, 1e300, "5", null].map((value) => ["max_tokens", value, 400] as const),
          ["stop_sequences", [""], 400],
          ["stop_sequences", "x", 400],
          ["temperature", 99, 200],
          ["top_k", -5, 200]
        ]
      ]
    ]
  for (const [{ body, path }, fields] of cases) {
    it.scoped(`${path}: are a 400 that names the field where they matter, and passed over where the run decides`, () =>
      Effect.gen(function* () {
        const { call } = yield* open()
        for (const [key, value, status] of fields) {
          for (const stream of key === "stream" ? [undefined] : [undefined, true]) {
            const sent = { ...body, ...(stream === undefined ? {} : { stream }), [key]: value }
            if (status === 200 && stream === true) continue
            const reply = yield* call(path, sent)
            expect([key, value, reply.status]).toEqual([key, value, status])
            if (status === 400) expect(reply.body.error.message).toContain(key)
          }
        }
      }).pipe(Effect.provide(layer()))
    )
  }

  it.scoped("keys that mean something to JavaScript mean nothing, in whatever dialect", () =>
    Effect.gen(function* () {
      const { call, session } = yield* open()
      const evil = '"__proto__": {"stream": true, "stop": ["o"]}, "constructor": {"prototype": {"stream": true}}'
      for (const { body, path } of dialects) {
        const json = JSON.stringify(body)
        const inner = json.replace('"content":"hi"', `"content":"hi", ${evil}`)
        for (const sent of [json, inner]) {
          const reply = yield* call(path, `{${evil}, ${sent.slice(1)}`)
          expect([path, reply.status, reply.headers.get("content-type")]).toEqual([path, 200, "application/json"])
          expect(JSON.stringify(reply.body)).toContain('"ok"')
        }
      }
      const tools = '"tools": [{"type": "function", "function": {"name": "f", "parameters": {"__proto__": {"a": 1}}}}]'
      expect((yield* call("/chat/completions", `{${tools}, ${JSON.stringify(chat.body).slice(1)}`)).status).toBe(200)
      expect(Object.keys({}.constructor.prototype)).toEqual([])
      expect("stream" in {}).toBe(false)
      expect((yield* session.progress).failure).toBeUndefined()
    }).pipe(Effect.provide(layer()))
  )
})
