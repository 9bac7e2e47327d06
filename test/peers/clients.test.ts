/** Real clients, unmodified, each in a conversation with a tool: what they ask and say back must be one branch of ids. */
import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import Anthropic from "@anthropic-ai/sdk"
import { describe, expect, it } from "@effect/vitest"
import { generateText, jsonSchema, type LanguageModel, stepCountIs, streamText, tool } from "ai"
import * as Effect from "effect/Effect"
import OpenAI from "openai"
import type { Endpoint } from "../../src/Interception.ts"
import * as Trace from "../../src/Trace.ts"
import { callText, layer, open, textOf } from "../interception/kit.ts"

const question = "how much is 2 and 3?"
const parameters = {
  type: "object" as const,
  properties: { a: { type: "number" as const }, b: { type: "number" as const } },
  required: ["a", "b"]
}
const add = (json: string): string => {
  const { a, b } = JSON.parse(json) as { readonly a: number; readonly b: number }
  return String(a + b)
}

/** Thinks, asks its tool twice, and says what it was told. */
const reply = (prompt: string) => {
  const results = prompt.match(/<\|im_start\|>tool\n(.*)<\|im_end\|>/g) ?? []
  if (results.length === 0)
    return `<think>\nthe tool\n</think>\n\nI ask.\n${callText("add", '{"a": 2, "b": 3}')}<|im_end|>`
  if (results.length === 1) return `${callText("add", '{"a": 5, "b": 1.50}')}<|im_end|>`
  return "<think>\nwell\n</think>\n\nit is 6.5, naïve ☃ <|im_end|>"
}
const answer = "it is 6.5, naïve ☃"

const openai = ({ baseUrl, secret }: Endpoint) => new OpenAI({ baseURL: baseUrl, apiKey: secret })
const anthropic = ({ baseUrl, secret }: Endpoint) => new Anthropic({ baseURL: baseUrl, apiKey: secret })

const chat = async (endpoint: Endpoint, stream: boolean): Promise<string> => {
  const client = openai(endpoint)
  const messages: Array<OpenAI.ChatCompletionMessageParam> = [{ role: "user", content: question }]
  for (;;) {
    const body = {
      model: "gpt-5",
      temperature: 0.1,
      messages,
      tools: [{ type: "function" as const, function: { name: "add", parameters } }]
    }
    const { choices, usage } = stream
      ? await client.chat.completions.stream({ ...body, stream_options: { include_usage: true } }).finalChatCompletion()
      : await client.chat.completions.create(body)
    expect(usage!.completion_tokens).toBeGreaterThan(0)
    const { finish_reason, message } = choices[0]!
    messages.push(message)
    if (finish_reason !== "tool_calls") return message.content!
    for (const call of message.tool_calls!) {
      if (call.type !== "function") throw new Error(call.type)
      messages.push({ role: "tool", tool_call_id: call.id, content: add(call.function.arguments) })
    }
  }
}

const responses = async (endpoint: Endpoint, stream: boolean): Promise<string> => {
  const client = openai(endpoint)
  const input: Array<OpenAI.Responses.ResponseInputItem> = [{ role: "user", content: question }]
  for (;;) {
    const body = {
      model: "gpt-5",
      input,
      instructions: "be brief",
      tools: [{ type: "function" as const, name: "add", parameters, strict: false }]
    }
    const response = stream ? await client.responses.stream(body).finalResponse() : await client.responses.create(body)
    expect(response.status).toBe("completed")
    input.push(...(response.output as ReadonlyArray<OpenAI.Responses.ResponseInputItem>))
    const calls = response.output.flatMap((item) => (item.type === "function_call" ? [item] : []))
    if (calls.length === 0) return response.output_text
    for (const call of calls) {
      input.push({ type: "function_call_output", call_id: call.call_id, output: add(call.arguments) })
    }
  }
}

const messages = async (endpoint: Endpoint, stream: boolean): Promise<string> => {
  const client = anthropic(endpoint)
  const history: Array<Anthropic.MessageParam> = [{ role: "user", content: question }]
  for (;;) {
    const body = {
      model: "claude",
      max_tokens: 1000,
      system: "be brief",
      messages: history,
      tools: [{ name: "add", input_schema: parameters }]
    }
    const message = stream ? await client.messages.stream(body).finalMessage() : await client.messages.create(body)
    expect(message.usage.output_tokens).toBeGreaterThan(0)
    history.push({ role: "assistant", content: message.content })
    if (message.stop_reason !== "tool_use") {
      return message.content.map((block) => (block.type === "text" ? block.text : "")).join("")
    }
    history.push({
      role: "user",
      content: message.content.flatMap((block) =>
        block.type === "tool_use"
          ? [{ type: "tool_result" as const, tool_use_id: block.id, content: add(JSON.stringify(block.input)) }]
          : []
      )
    })
  }
}

const aiSdk = (modelOf: (endpoint: Endpoint) => LanguageModel) => async (endpoint: Endpoint, stream: boolean) => {
  const options = {
    model: modelOf(endpoint),
    prompt: question,
    stopWhen: stepCountIs(5),
    tools: {
      add: tool({
        description: "adds",
        inputSchema: jsonSchema<object>(parameters),
        execute: (input) => add(JSON.stringify(input))
      })
    }
  }
  if (!stream) return (await generateText(options)).text
  const result = streamText(options)
  let last = ""
  for await (const part of result.fullStream) {
    if (part.type === "start-step") last = ""
    if (part.type === "text-delta") last += part.text
    if (part.type === "error") throw part.error
  }
  return last
}

const clients: ReadonlyArray<readonly [name: string, (endpoint: Endpoint, stream: boolean) => Promise<string>]> = [
  ["openai, chat completions", chat],
  ["openai, responses", responses],
  ["@anthropic-ai/sdk", messages],
  [
    "ai with @ai-sdk/openai-compatible",
    aiSdk(({ baseUrl, secret }) =>
      createOpenAICompatible({ name: "policy", baseURL: baseUrl, apiKey: secret, includeUsage: true })("policy")
    )
  ],
  [
    "ai with @ai-sdk/anthropic",
    aiSdk(({ baseUrl, secret }) => createAnthropic({ baseURL: baseUrl, apiKey: secret })("claude"))
  ]
]

// it would say of every turn that it does not know the model's name
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })

describe("a conversation with a tool", () => {
  for (const [name, converse] of clients) {
    for (const stream of [false, true]) {
      it.scoped(`${name}${stream ? ", streamed" : ""}: three turns on one branch, without drift`, () =>
        Effect.gen(function* () {
          const { endpoint, session } = yield* open()
          expect((yield* Effect.promise(() => converse(endpoint, stream))).trim()).toBe(answer)
          const { trace } = yield* session.progress
          expect(Trace.turns(trace)).toBe(3)
          expect(Trace.branches(trace)).toHaveLength(1)
          expect(Trace.drift(trace)).toBe(0)
          const text = textOf(Trace.tokenIds(trace, Trace.branches(trace)[0]!))
          expect(text.endsWith(reply("<|im_start|>tool\n1<|im_end|>\n<|im_start|>tool\n2<|im_end|>\n"))).toBe(true)
        }).pipe(Effect.provide(layer({ reply })))
      )
    }
  }
})

describe("what clients make of errors", () => {
  it.scoped("a refusal is told once, in their own classes, and a failure is tried again", () =>
    Effect.gen(function* () {
      const { endpoint, session } = yield* open({ limits: { maxTurns: 1 } })
      yield* Effect.promise(() => chatOnce(endpoint))
      const refused = yield* Effect.promise(() => chatOnce(endpoint, "more").catch((error: unknown) => error))
      expect(refused).toBeInstanceOf(OpenAI.BadRequestError)
      expect((refused as InstanceType<typeof OpenAI.BadRequestError>).code).toBe("rollout_over_max_turns")
      const theirs = yield* Effect.promise(() =>
        anthropic(endpoint)
          .messages.create({ model: "x", max_tokens: 5, messages: [{ role: "user", content: "hi" }] })
          .catch((error: unknown) => error)
      )
      expect(theirs).toBeInstanceOf(Anthropic.BadRequestError)
      const wrong = yield* Effect.promise(() =>
        chatOnce({ ...endpoint, secret: "wrong" }).catch((error: unknown) => error)
      )
      expect(wrong).toBeInstanceOf(OpenAI.AuthenticationError)
      expect((yield* session.progress).turns).toBe(1)
    }).pipe(Effect.provide(layer()))
  )
})

const chatOnce = (endpoint: Endpoint, content = "hi") =>
  openai(endpoint).chat.completions.create({ model: "x", messages: [{ role: "user", content }] })
