import { describe, expect, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as Chat from "../../src/interception/chat/Chat.ts"
import type { Dialect, Identity } from "../../src/interception/Dialect.ts"
import * as Messages from "../../src/interception/messages/Messages.ts"
import * as Reading from "../../src/interception/Reading.ts"
import * as Responses from "../../src/interception/responses/Responses.ts"
import * as Said from "../../src/interception/Said.ts"
import * as ChatMl from "../../src/renderers/ChatMl.ts"
import type { Completion } from "../../src/Session.ts"
import { callText, said, tokenizer } from "./kit.ts"

// biome-ignore lint/suspicious/noExplicitAny: answers are judged by their content
type Json = any

const renderer = Either.getOrThrow(ChatMl.make(tokenizer))
const promptIds = renderer.render([{ role: "user", content: "hi" }], { addGenerationPrompt: true }).tokenIds
const identity: Identity = { id: "x", created: 0, model: "policy", spelling: (id) => tokenizer.decode([id]) }

/** A turn that comes in pieces of so many tokens, as the events of a stream and as a whole answer. */
const told = (
  dialect: Dialect,
  body: object,
  text: string,
  options: {
    readonly cuts?: ReadonlyArray<number>
    readonly finishReason?: "stop" | "length"
    readonly stop?: ReadonlyArray<string>
  } = {}
) => {
  const ask = Either.getOrThrow(dialect.read(body))
  const ids = said(text)
  const reading = Reading.make(renderer.parser({ promptIds }), options.stop ?? [])
  const writer = ask.writer(identity)
  const pieces: Array<ReturnType<typeof reading.push>> = []
  let stream = writer.begin(promptIds.length)
  let from = 0
  for (const to of [...(options.cuts ?? []), ids.length]) {
    const deltas = ids.slice(from, to).flatMap((id) => [...reading.push(id)])
    pieces.push(deltas)
    stream += writer.said(deltas)
    from = to
  }
  const { deltas, message, toolCalls } = reading.finish()
  stream += writer.said(deltas)
  const completion: Completion = {
    message,
    toolCalls,
    finishReason: options.finishReason ?? "stop",
    stop: reading.stop(),
    promptTokens: promptIds.length,
    tokenIds: Int32Array.from(ids),
    logprobs: new Float32Array(ids.length).fill(-0.5)
  }
  stream += writer.end(completion)
  const events = stream
    .split("\n\n")
    .filter((event) => event !== "")
    .map((event) => {
      const data = event
        .split("\n")
        .find((line) => line.startsWith("data: "))!
        .slice(6)
      return data === "[DONE]" ? data : JSON.parse(data)
    })
  const whole: Json = ask.whole(identity, Said.add([], [...pieces.flat(), ...deltas]), completion)
  return { events: events as ReadonlyArray<Json>, whole }
}

const chatBody = { messages: [{ role: "user", content: "hi" }], stream: true, stream_options: { include_usage: true } }
const messagesBody = { messages: [{ role: "user", content: "hi" }], max_tokens: 100, stream: true }
const responsesBody = { input: "hi", stream: true }

/** What a chat client puts together from chunks. */
const assembled = (events: ReadonlyArray<Json>) => {
  const message = { content: "", reasoning: "", calls: [] as Array<{ id: string; name: string; arguments: string }> }
  let finish: unknown
  let usage: unknown
  for (const { choices, usage: told } of events.slice(0, -1)) {
    usage = told ?? usage
    for (const { delta, finish_reason } of choices) {
      message.content += delta.content ?? ""
      message.reasoning += delta.reasoning_content ?? ""
      for (const { function: f, id, index } of delta.tool_calls ?? []) {
        message.calls[index] ??= { id: "", name: "", arguments: "" }
        const call = message.calls[index]!
        call.id += id ?? ""
        call.name += f.name ?? ""
        call.arguments += f.arguments ?? ""
      }
      finish = finish_reason ?? finish
    }
  }
  return { message, finish, usage, last: events.at(-1) }
}

const call = callText("add", '{"a": 1, "b": "x\\n"}')
const every = (text: string) => Array.from({ length: said(text).length - 1 }, (_, at) => at + 1)

describe("chunks of a chat", () => {
  it("API-06: a call has its id, its name and all of its arguments, wherever its tokens are cut", () => {
    const text = `${call}<|im_end|>`
    for (const cut of every(text)) {
      const { finish, message } = assembled(told(Chat.dialect, chatBody, text, { cuts: [cut] }).events)
      expect(message.calls).toEqual([
        { id: `call_${promptIds.length}_0`, name: "add", arguments: '{"a": 1, "b": "x\\n"}' }
      ])
      expect(finish).toBe("tool_calls")
    }
  })

  it("API-08: text in the last tokens of a turn that is cut is told, with the reason and the usage", () => {
    const { finish, last, message, usage } = assembled(
      told(Chat.dialect, chatBody, "Hello", { cuts: [3], finishReason: "length" }).events
    )
    expect(message.content).toBe("Hello")
    expect([finish, last]).toEqual(["length", "[DONE]"])
    expect(usage).toMatchObject({ completion_tokens: 5, prompt_tokens: promptIds.length })
  })

  it("API-13: usage comes with a turn that ends in a call", () => {
    expect(assembled(told(Chat.dialect, chatBody, `${call}<|im_end|>`).events).usage).toMatchObject({
      prompt_tokens: promptIds.length
    })
  })

  it("a call that is none is told as the text that it is", () => {
    const broken = "<tool_call>\n{nonsense\n</tool_call>"
    const { events, whole } = told(Chat.dialect, chatBody, `so: ${broken}<|im_end|>`)
    const { finish, message } = assembled(events)
    expect(message.content).toContain("{nonsense")
    expect(whole.choices[0].message.content).toBe(message.content)
    expect([finish, message.calls]).toEqual(["stop", []])
  })

  it("say what the whole answer says", () => {
    const text = `<think>\nhm\n</think>\n\nHi ${call}\n${callText("sub", "{}")}<|im_end|>`
    const { events, whole } = told(Chat.dialect, chatBody, text, { cuts: every(text) })
    const { message } = assembled(events)
    const answer = whole.choices[0].message
    expect([answer.content, answer.reasoning_content]).toEqual([message.content, message.reasoning])
    expect(answer.tool_calls.map((c: Json) => ({ id: c.id, ...c.function }))).toEqual(message.calls)
  })

  it("never hold a part of a stop text", () => {
    const text = "so be it, Observation: 5"
    const { events } = told(Chat.dialect, chatBody, text, { cuts: every(text), stop: ["Observation:"] })
    expect(assembled(events).message.content).toBe("so be it, ")
  })
})

describe("events of Anthropic's messages", () => {
  const names = (events: ReadonlyArray<Json>) =>
    events.map(({ content_block, delta, index, type }) =>
      [type, index, content_block?.type ?? delta?.type ?? ""].join(" ").trim()
    )

  it("API-10: a block is closed before the next one opens, and the turn says why it ended", () => {
    // with reasoning first, so that it is known where the turn's own text begins
    const text = `<think>\nhm\n</think>\n\nHi${call}there`
    const { events, whole } = told(Messages.dialect, messagesBody, text, { finishReason: "length" })
    expect(names(events).filter((name, at, all) => name !== all[at - 1])).toEqual([
      "message_start",
      "content_block_start 0 thinking",
      "content_block_delta 0 thinking_delta",
      "content_block_stop 0",
      "content_block_start 1 text",
      "content_block_delta 1 text_delta",
      "content_block_stop 1",
      "content_block_start 2 tool_use",
      "content_block_delta 2 input_json_delta",
      "content_block_stop 2",
      "content_block_start 3 text",
      "content_block_delta 3 text_delta",
      "content_block_stop 3",
      "message_delta",
      "message_stop"
    ])
    expect(events.at(-2)).toMatchObject({ delta: { stop_reason: "max_tokens", stop_sequence: null } })
    expect(whole).toMatchObject({
      content: [
        { type: "thinking", thinking: "hm" },
        { type: "text", text: "Hi" },
        { type: "tool_use", name: "add", input: { a: 1, b: "x\n" } },
        { type: "text", text: "there" }
      ],
      stop_reason: "max_tokens"
    })
    const toolTurn = told(Messages.dialect, messagesBody, `${call}<|im_end|>`)
    expect(toolTurn.events.at(-2)).toMatchObject({ delta: { stop_reason: "tool_use" } })
    expect(toolTurn.whole.stop_reason).toBe("tool_use")
  })

  it("API-13: the end of a turn has its reason, its stop text or null, and its usage", () => {
    const plain = told(Messages.dialect, messagesBody, "Hi<|im_end|>").events
    expect(plain[0].message.usage).toMatchObject({ input_tokens: promptIds.length })
    expect(plain.at(-2)).toMatchObject({
      type: "message_delta",
      delta: { stop_reason: "end_turn", stop_sequence: null },
      usage: { output_tokens: 3 }
    })
    const stopped = told(Messages.dialect, messagesBody, "Hi END", { stop: ["END"] }).events
    expect(stopped.at(-2)).toMatchObject({ delta: { stop_reason: "stop_sequence", stop_sequence: "END" } })
  })
})

describe("events of OpenAI's Responses", () => {
  it("announce every item, tell it piece by piece, and end with the whole response", () => {
    const text = `<think>\nhm\n</think>\n\nHi ${call}<|im_end|>`
    const { events, whole } = told(Responses.dialect, responsesBody, text, { cuts: every(text) })
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at))
    expect(events.map(({ type }) => type).filter((type, at, all) => type !== all[at - 1])).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.reasoning_text.delta",
      "response.reasoning_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.done",
      "response.output_item.done",
      "response.completed"
    ])
    expect(events.at(-1).response.output).toEqual(whole.output)
    expect(whole.output.map(({ type }: Json) => type)).toEqual(["reasoning", "message", "function_call"])
    expect(whole).toMatchObject({ status: "completed", usage: { input_tokens: promptIds.length } })
  })

  it("a turn that is cut is an incomplete response", () => {
    const { events } = told(Responses.dialect, responsesBody, "Hel", { finishReason: "length" })
    expect(events.at(-1)).toMatchObject({
      type: "response.incomplete",
      response: { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } }
    })
  })
})
