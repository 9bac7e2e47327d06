import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { serve } from "./kit.ts"
import { said, scripted } from "./scripted.ts"

const path = "/v1/chat/completions"
const messages = [
  { role: "system", content: "Reverse" },
  { role: "user", content: "the sea" }
]
const tools = [{ type: "function", function: { name: "add", description: "adds", parameters: { type: "object" } } }]
const question = { messages: [{ role: "user", content: "?" }] }

// biome-ignore lint/suspicious/noExplicitAny: events are judged by their content
type Events = ReadonlyArray<any>

/** What a client that follows OpenAI's protocol makes of a stream. */
const assembled = (events: Events) => {
  expect(events.at(-1)).toBe("[DONE]")
  // biome-ignore lint/suspicious/noExplicitAny: built up field by field
  const message: any = { role: "assistant", content: "" }
  const choice = { finish_reason: undefined as unknown, token_ids: [] as Array<number>, logprobs: [] as Array<unknown> }
  for (const { choices } of events.slice(0, -1)) {
    for (const { delta, finish_reason, logprobs, token_ids } of choices) {
      message.content += delta.content ?? ""
      if (delta.reasoning_content !== undefined) {
        message.reasoning_content = (message.reasoning_content ?? "") + delta.reasoning_content
      }
      for (const { index, ...call } of delta.tool_calls ?? []) {
        message.tool_calls ??= []
        message.tool_calls[index] = call
      }
      choice.token_ids.push(...(token_ids ?? []))
      choice.logprobs.push(...(logprobs?.content ?? []))
      if (finish_reason !== null) {
        expect(choice.finish_reason).toBeUndefined()
        choice.finish_reason = finish_reason
      }
    }
  }
  return { message, ...choice }
}

layer(NodeContext.layer)("POST /v1/chat/completions with the policy", (it) => {
  it.scoped("renders the conversation, and answers with the turn, its tokens and its log-probabilities", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const request = { messages, seed: 3, temperature: 0.5 }
      const { body } = yield* call(path, { ...request, logprobs: true, return_token_ids: true, prompt_logprobs: 1 })
      const prompt = (yield* call("/tokenize", { messages })).body
      expect(body.prompt_token_ids).toEqual(prompt.tokens)
      expect(body.usage.prompt_tokens).toBe(prompt.count)
      const [choice] = body.choices
      expect(choice.finish_reason).toBe("stop")
      expect(choice.token_ids.at(-1)).toBe(261)
      expect(choice.logprobs.content).toHaveLength(choice.token_ids.length)
      expect(choice.message).toMatchObject({ role: "assistant", refusal: null })
      const read = (yield* call("/detokenize", { tokens: choice.token_ids.slice(0, -1) })).body
      expect(choice.message.content).toBe(read.prompt)
      expect(body.prompt_logprobs).toHaveLength(prompt.count)
      expect(body.prompt_logprobs[0]).toBeNull()

      const { body: same } = yield* call("/v1/completions", {
        prompt: prompt.tokens,
        max_tokens: 100,
        seed: 3,
        temperature: 0.5,
        logprobs: 0
      })
      expect(same.choices[0].text).toBe(choice.message.content)
      expect(choice.logprobs.content.map(({ logprob }: { readonly logprob: number }) => logprob)).toEqual(
        same.choices[0].logprobs.token_logprobs
      )
    })
  )

  it.scoped(
    "API-09: the newer name of the limit wins, null is none, and without one the turn may fill the sequence",
    () =>
      Effect.gen(function* () {
        const { call } = yield* serve({ maxSequenceLength: 40 })
        const lengths = yield* Effect.forEach(
          [
            { max_completion_tokens: 5 },
            { max_tokens: 5 },
            { max_completion_tokens: 5, max_tokens: 9 },
            { max_tokens: null }
          ],
          (limit) => call(path, { messages, seed: 1, temperature: 8, ...limit })
        )
        const room = 40 - lengths[0]!.body.usage.prompt_tokens
        expect(lengths.slice(0, 3).map(({ body }) => body.usage.completion_tokens)).toEqual([5, 5, 5])
        expect(lengths.slice(0, 3).map(({ body }) => body.choices[0].finish_reason)).toEqual([
          "length",
          "length",
          "length"
        ])
        expect(lengths[3]!.body.usage.completion_tokens).toBeLessThanOrEqual(room)
        expect(lengths[3]!.body.usage.completion_tokens).toBeGreaterThan(5)
      })
  )

  it.scoped("streamed and whole turns of a seed are the same, for several choices at once", () =>
    Effect.gen(function* () {
      const { call, events } = yield* serve()
      const request = {
        messages,
        seed: 7,
        n: 3,
        temperature: 1.5,
        logprobs: true,
        top_logprobs: 1,
        return_token_ids: true
      }
      const whole = (yield* call(path, request)).body
      const all = yield* events(path, { ...request, stream_options: { include_usage: true } })
      expect(all.at(-2)).toMatchObject({ choices: [], usage: whole.usage })
      expect(all[0].prompt_token_ids).toEqual(whole.prompt_token_ids)
      for (const choice of whole.choices) {
        const own = all.filter((event) => event === "[DONE]" || event.choices[0]?.index === choice.index)
        const { finish_reason, logprobs, message, token_ids } = assembled(own)
        expect(message).toEqual({ role: "assistant", content: choice.message.content })
        expect(token_ids).toEqual(choice.token_ids)
        expect(logprobs).toEqual(choice.logprobs.content)
        expect(finish_reason).toBe(choice.finish_reason)
      }
    })
  )
})

describe("a chat turn, streamed and whole", () => {
  const turns: ReadonlyArray<readonly [name: string, text: string, message: object, finish: string]> = [
    ["text", "Hello<|im_end|>", { content: "Hello" }, "stop"],
    ["API-08: text in the last tokens", "Hello", { content: "Hello" }, "length"],
    ["reasoning", "<think>\nhm\n</think>\n\nYes.<|im_end|>", { content: "Yes.", reasoning_content: "hm" }, "stop"],
    ["reasoning that is cut", "<think>\nhm, let", { content: "", reasoning_content: "hm, let" }, "length"],
    [
      "API-06: a call",
      'Let me.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call><|im_end|>',
      {
        content: "Let me.",
        tool_calls: [{ type: "function", function: { name: "add", arguments: '{"a": 1}' } }]
      },
      "tool_calls"
    ],
    [
      "two calls and nothing else",
      '<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "mul", "arguments": {"b": "</tool_call>"}}\n</tool_call><|im_end|>',
      {
        content: null,
        tool_calls: [
          { type: "function", function: { name: "add", arguments: "{}" } },
          { type: "function", function: { name: "mul", arguments: '{"b": "</tool_call>"}' } }
        ]
      },
      "tool_calls"
    ],
    ["a call that is cut", '<tool_call>\n{"name": "a', { content: '<tool_call>\n{"name": "a' }, "length"],
    [
      "a call that is no JSON",
      "so <tool_call>nope</tool_call><|im_end|>",
      { content: "so <tool_call>nope</tool_call>" },
      "stop"
    ]
  ]

  for (const [name, text, message, finish] of turns) {
    it.scoped(`${name}, however many tokens come at once`, () =>
      Effect.gen(function* () {
        const tokens = said(text)
        const request = { ...question, tools, return_token_ids: true, logprobs: true, max_tokens: tokens.length }
        const whole = yield* (yield* scripted(tokens)).call("chat", request)
        const [choice] = whole.choices
        const { refusal: _, ...found } = choice.message
        const withoutIds = found.tool_calls?.map(({ id: _, ...call }: { readonly id: string }) => call)
        expect({ ...found, ...(withoutIds === undefined ? {} : { tool_calls: withoutIds }) }).toEqual({
          role: "assistant",
          ...message
        })
        expect(choice.finish_reason).toBe(finish)
        expect(new Set(found.tool_calls?.map(({ id }: { readonly id: string }) => id)).size).toBe(
          withoutIds?.length ?? 0
        )
        for (const size of [1, 2, 3, 7, tokens.length]) {
          const stream = assembled(yield* (yield* scripted(tokens, size)).events("chat", request))
          expect(stream.message).toEqual({ ...found, content: found.content ?? "" })
          expect(stream.finish_reason).toBe(finish)
          expect(stream.token_ids).toEqual(tokens)
          expect(stream.logprobs).toEqual(choice.logprobs.content)
        }
      })
    )
  }

  it.scoped("TOK-12: a character that is spread over tokens comes whole, in no delta a part of it", () =>
    Effect.gen(function* () {
      const text = "a😀 ok"
      const tokens = said(`${text}<|im_end|>`)
      expect(tokens).toHaveLength(8)
      for (const route of ["chat", "completions"] as const) {
        const request = { ...(route === "chat" ? question : { prompt: "?" }), return_token_ids: true }
        const { events } = yield* scripted(tokens)
        const parts = (yield* events(route, request)).filter((event) => event !== "[DONE]")
        const texts = parts.map(({ choices: [choice] }) => choice.text ?? choice.delta.content ?? "")
        expect(texts.join("")).toBe(text)
        expect(texts.join("|")).not.toMatch(/\ufffd|[\ud83d](?![\ude00])/)
        expect(texts).toContain("😀")
        expect(parts.flatMap(({ choices: [choice] }) => choice.token_ids ?? [])).toEqual(tokens)
      }
    })
  )

  it.scoped("a stop text that is spread over tokens is never sent in part, and ends the turn", () =>
    Effect.gen(function* () {
      const tokens = said("one STOP two STAP three STOX<|im_end|>")
      const request = { ...question, return_token_ids: true }
      for (const size of [1, 2, 5]) {
        const server = yield* scripted(tokens, size)
        const untouched = assembled(yield* server.events("chat", { ...request, stop: "STOPS" }))
        expect(untouched.message.content).toBe("one STOP two STAP three STOX")
        expect(untouched.finish_reason).toBe("stop")
        const events = yield* server.events("chat", { ...request, stop: ["STAP", "STOP t"] })
        const cut = assembled(events)
        expect(cut.message.content).toBe("one ")
        expect(events.at(-2).choices[0]).toMatchObject({ finish_reason: "stop", stop_reason: "STOP t" })
        expect(cut.token_ids).toEqual(said("one STOP t"))
        const whole = yield* server.call("chat", { ...request, stop: ["STAP", "STOP t"] })
        expect(whole.choices[0].message.content).toBe("one ")
        expect(whole.choices[0].token_ids).toEqual(cut.token_ids)
      }
    })
  )

  it.scoped("a stop text within reasoning cuts the reasoning", () =>
    Effect.gen(function* () {
      const { call } = yield* scripted(said("<think>\nfirst, second\n</think>\n\nok<|im_end|>"))
      const { choices } = yield* call("chat", { ...question, stop: ", s" })
      expect(choices[0].message).toMatchObject({ content: "", reasoning_content: "first" })
      expect(choices[0].finish_reason).toBe("stop")
    })
  )

  it.scoped("reasoning that was not opened is told as such once it is closed", () =>
    Effect.gen(function* () {
      const tokens = said("hm</think>\n\nok<|im_end|>")
      const whole = yield* (yield* scripted(tokens)).call("chat", question)
      expect(whole.choices[0].message).toMatchObject({ content: "ok", reasoning_content: "hm" })
      const stream = assembled(yield* (yield* scripted(tokens)).events("chat", question))
      expect(stream.message).toMatchObject({ reasoning_content: "hm" })
      expect(stream.message.content.endsWith("ok")).toBe(true)
    })
  )

  it.scoped(
    "API-14: a log-probability that is no number is an error, and a stream with one does not end as if it were whole",
    () =>
      Effect.gen(function* () {
        const logprobOf = (id: number) => (id === 101 ? Number.NEGATIVE_INFINITY : -1)
        const { call, events } = yield* scripted(said("hello<|im_end|>"), 1, logprobOf)
        const { error } = yield* call("chat", question)
        expect(error).toMatchObject({ type: "server_error" })
        expect(error.message).toContain("-Infinity")
        const last = (yield* events("chat", question)).at(-1)
        expect(last).toEqual({ error })
      })
  )
})
