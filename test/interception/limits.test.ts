import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import * as Trace from "../../src/Trace.ts"
import { heldPolicy, layer, open } from "./kit.ts"

const chat = "/chat/completions"
const ask = (content: string, more: object = {}) => ({ messages: [{ role: "user", content }], ...more })
const long = "a".repeat(50)

describe("limits", () => {
  it.scoped("API-09: the smaller of all limits on a turn counts, by either name, and null is none", () =>
    Effect.gen(function* () {
      const { call } = yield* open({ sampling: { maxTokens: 16 } })
      const bodies = [
        { max_completion_tokens: 5 },
        { max_tokens: 5 },
        { max_completion_tokens: 5, max_tokens: 50 },
        { max_completion_tokens: 50, max_tokens: 5 },
        {},
        { max_tokens: null }
      ]
      const replies = yield* Effect.forEach(bodies, (body, n) => call(chat, ask(`${n}`, body)))
      expect(replies.map(({ body }) => body.usage.completion_tokens)).toEqual([5, 5, 5, 5, 16, 16])
      expect(replies.every(({ body }) => body.choices[0].finish_reason === "length")).toBe(true)
      const { body } = yield* call("/responses", { input: "x", max_output_tokens: 3 })
      expect(body).toMatchObject({ status: "incomplete", usage: { output_tokens: 3 } })
      const missing = yield* call("/messages", ask("hi"))
      expect([missing.status, missing.body.error.type]).toEqual([400, "invalid_request_error"])
      expect(missing.body.error.message).toContain("max_tokens")
    }).pipe(Effect.provide(layer({ reply: () => long })))
  )

  it.scoped("on turns: the next request is refused once and for all, and the rollout stands", () =>
    Effect.gen(function* () {
      const { call, session } = yield* open({ limits: { maxTurns: 1 } })
      yield* call(chat, ask("hi"))
      for (const content of ["more", "still more"]) {
        const { body, status } = yield* call(chat, ask(content))
        expect([status, body.error.type, body.error.code]).toEqual([
          400,
          "invalid_request_error",
          "rollout_over_max_turns"
        ])
      }
      expect(yield* session.progress).toMatchObject({ stop: "max_turns", turns: 1, failure: undefined })
      // what was answered is still told to who asks again
      expect((yield* call(chat, ask("hi"))).status).toBe(200)
    }).pipe(Effect.provide(layer()))
  )

  it.scoped("on sampled tokens: the turn is cut at what is left, and none follows", () =>
    Effect.gen(function* () {
      const { call, session } = yield* open({ limits: { maxSampledTokens: 60 } })
      const first = yield* call(chat, ask("hi"))
      const second = yield* call(chat, ask("and"))
      expect([first, second].map(({ body }) => body.usage.completion_tokens)).toEqual([51, 9])
      expect((yield* call(chat, ask("so"))).body.error.code).toBe("rollout_over_max_tokens")
      expect((yield* session.progress).stop).toBe("max_tokens")
    }).pipe(Effect.provide(layer({ reply: () => `${long}<|im_end|>` })))
  )

  it.scoped("on time: a turn that runs when it is over is given up", () =>
    Effect.gen(function* () {
      const policy = yield* heldPolicy("answer<|im_end|>")
      yield* Effect.gen(function* () {
        const { call, session } = yield* open({ limits: { timeoutMs: 1000 } })
        const asked = yield* Effect.fork(call(chat, ask("hi")))
        yield* policy.drawn
        yield* TestClock.adjust(1000)
        const { body, status } = yield* Fiber.join(asked)
        expect([status, body.error.code]).toEqual([400, "rollout_over_timeout"])
        expect(yield* policy.ended).toBe("interrupted")
        expect((yield* session.progress).stop).toBe("timeout")
      }).pipe(Effect.provide(policy.layer))
    })
  )

  it.scoped(
    "API-01: a conversation that outgrows the context is refused in words that clients know, and what was before stands",
    () =>
      Effect.gen(function* () {
        const { call, session } = yield* open()
        yield* call(chat, ask("hi"))
        const tooLong = ask("x".repeat(300))
        const first = yield* call(chat, tooLong)
        expect([first.status, first.body.error.code]).toEqual([400, "context_length_exceeded"])
        expect(first.body.error.message).toMatch(/maximum context length is 200 tokens/)
        expect((yield* call(chat, tooLong)).body).toEqual(first.body)
        const other = yield* call("/messages", { ...tooLong, max_tokens: 5 })
        expect([other.status, other.body.type, other.body.error.type]).toEqual([400, "error", "invalid_request_error"])
        const { stop, trace } = yield* session.progress
        expect([stop, Trace.turns(trace)]).toEqual(["prompt_too_long", 1])
      }).pipe(Effect.provide(layer({ maxSequenceLength: 200 })))
  )

  it.scoped(
    "a stop text ends the turn where it begins, and the next turn goes on from the tokens that were sampled",
    () =>
      Effect.gen(function* () {
        const { call, session } = yield* open()
        const first = yield* call(chat, ask("hi", { stop: ["Observation:"] }))
        const { finish_reason, message } = first.body.choices[0]
        expect([message.content, finish_reason]).toEqual(["Act. ", "stop"])
        yield* call(chat, {
          messages: [ask("hi").messages[0], { role: "assistant", content: "Act. " }, { role: "user", content: "5" }]
        })
        const { trace } = yield* session.progress
        expect(Trace.branches(trace)).toHaveLength(1)
        expect(Trace.drift(trace)).toBe(0)
      }).pipe(Effect.provide(layer({ reply: () => "Act. Observation: 4<|im_end|>" })))
  )

  it.scoped("the run's sampling applies, whatever is asked for", () =>
    Effect.gen(function* () {
      const { call } = yield* open({ sampling: { maxTokens: 8 }, model: "trained" })
      const plain = yield* call(chat, ask("a", { temperature: 0, top_p: 0.1, seed: 7, model: "gpt-5" }))
      expect(plain.body.model).toBe("trained")
      expect(plain.body.usage.completion_tokens).toBe(8)
    }).pipe(Effect.provide(layer({ reply: () => long })))
  )
})
