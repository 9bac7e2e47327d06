import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as Trace from "../../src/Trace.ts"
import { callText, layer, open, textOf } from "./kit.ts"

const user = (content: string) => ({ role: "user", content })
const tool = { type: "function", function: { name: "add", description: "adds", parameters: { type: "object" } } }
const chat = "/chat/completions"

describe("a chat turn", () => {
  it.scoped("is answered in OpenAI's form, and is in the trace as it was sampled", () =>
    Effect.gen(function* () {
      const { call, session } = yield* open()
      const { body, status } = yield* call(chat, { model: "any", messages: [user("hi")] })
      expect(status).toBe(200)
      expect(body).toMatchObject({
        object: "chat.completion",
        model: "policy",
        choices: [{ index: 0, message: { role: "assistant", content: "fine" }, finish_reason: "stop", logprobs: null }]
      })
      const { trace } = yield* session.progress
      const [branch] = Trace.branches(trace)
      expect(textOf(Trace.tokenIds(trace, branch!))).toBe(
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nfine<|im_end|>"
      )
      const prompt = textOf(Trace.tokenIds(trace, branch!)).length
      expect(body.usage.total_tokens).toBeLessThanOrEqual(prompt)
      expect(body.usage).toEqual({
        prompt_tokens: body.usage.total_tokens - 5,
        completion_tokens: 5,
        total_tokens: body.usage.total_tokens
      })
    }).pipe(Effect.provide(layer({ reply: () => "fine<|im_end|>" })))
  )

  it.scoped("streams what the whole answer says, and ends with its usage and [DONE]", () =>
    Effect.gen(function* () {
      const { events } = yield* open()
      const all = yield* events(chat, { messages: [user("hi")], stream_options: { include_usage: true } })
      expect(all.at(-1)).toBe("[DONE]")
      const chunks = all.slice(0, -1)
      expect(chunks.every(({ object }) => object === "chat.completion.chunk")).toBe(true)
      const deltas = chunks.flatMap(({ choices }) => choices)
      expect(deltas[0]).toMatchObject({ delta: { role: "assistant", content: "" } })
      expect(deltas.map(({ delta }) => delta.content ?? "").join("")).toBe("fine")
      expect(deltas.length).toBeGreaterThan(3)
      expect(deltas.at(-1)).toMatchObject({ delta: {}, finish_reason: "stop" })
      expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 5 } })
    }).pipe(Effect.provide(layer({ reply: () => "fine<|im_end|>" })))
  )

  it.scoped("a conversation with tools is one branch, whose ids are those that the engine saw", () =>
    Effect.gen(function* () {
      const { call, session } = yield* open()
      const asked: Array<object> = [user("2 and 3?")]
      const first = yield* call(chat, { messages: asked, tools: [tool] })
      expect(first.body.choices[0]).toMatchObject({
        finish_reason: "tool_calls",
        message: { content: "let me see", tool_calls: [{ type: "function", function: { name: "add" } }] }
      })
      const { message } = first.body.choices[0]
      expect(message.tool_calls[0].function.arguments).toBe('{"a": 2, "b": 3.0}')
      const { content, role, tool_calls } = message
      asked.push({ content, role, tool_calls }, { role: "tool", tool_call_id: tool_calls[0].id, content: "5" })
      const second = yield* call(chat, { messages: asked, tools: [tool] })
      expect(second.body.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: "it is 5" } })
      const { trace } = yield* session.progress
      expect(Trace.branches(trace)).toHaveLength(1)
      expect(Trace.turns(trace)).toBe(2)
      expect(Trace.drift(trace)).toBe(0)
    }).pipe(
      Effect.provide(
        layer({
          reply: (_, n) =>
            n === 0
              ? `<think>\nsum\n</think>\n\nlet me see\n${callText("add", '{"a": 2, "b": 3.0}')}<|im_end|>`
              : "it is 5<|im_end|>"
        })
      )
    )
  )

  it.scoped("its reasoning comes beside its content, and need not be given back", () =>
    Effect.gen(function* () {
      const { call, session } = yield* open()
      const { body } = yield* call(chat, { messages: [user("hi")] })
      expect(body.choices[0].message).toMatchObject({ content: "fine", reasoning_content: "hm" })
      yield* call(chat, { messages: [user("hi"), { role: "assistant", content: "fine" }, user("and now?")] })
      expect(Trace.branches((yield* session.progress).trace)).toHaveLength(1)
    }).pipe(Effect.provide(layer({ reply: () => "<think>\nhm\n</think>\n\nfine<|im_end|>" })))
  )
})

describe("a rollout's endpoint", () => {
  it.scoped("means nothing without its secret, nor once its scope has closed", () =>
    Effect.gen(function* () {
      const messages = [user("hi")]
      const other = yield* open()
      const scope = yield* Scope.make()
      const { call, endpoint } = yield* Scope.extend(open(), scope)
      const wrong = yield* call(chat, { messages }, { authorization: "Bearer wrong" })
      expect(wrong.status).toBe(401)
      expect(wrong.body.error).toMatchObject({ type: "authentication_error", code: "invalid_api_key" })
      const others = yield* call(chat, { messages }, { authorization: `Bearer ${other.endpoint.secret}` })
      expect([others.status, others.body]).toEqual([401, wrong.body])
      const byHeader = yield* call(chat, { messages }, { authorization: "", "x-api-key": endpoint.secret })
      expect(byHeader.status).toBe(200)
      yield* Scope.close(scope, Exit.void)
      const closed = yield* call(chat, { messages })
      expect([closed.status, closed.body]).toEqual([401, wrong.body])
    }).pipe(Effect.provide(layer()))
  )
})
