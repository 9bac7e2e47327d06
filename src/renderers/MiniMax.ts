/** The wire format of the MiniMax M2 models: turns between `]~b]` and `[e~[`, calls as elements, all of a turn in one block. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { AssistantMessage, Message, ToolSpec } from "../Message.ts"
import { Renderer, type RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer, type TokenizerService } from "../Tokenizer.ts"
import * as Arguments from "./internal/Arguments.ts"
import * as Format from "./internal/Format.ts"
import { pythonJson } from "./internal/pythonJson.ts"
import * as Retention from "./internal/Retention.ts"
import * as Tool from "./internal/Tool.ts"
import * as TurnParser from "./internal/TurnParser.ts"
import { given, outside, produced, type Writer } from "./internal/Writer.ts"
import * as XmlCall from "./internal/XmlCall.ts"

const name = "minimax-m2"

/** What is chosen about a MiniMax M2 conversation. @category model */
export const Config = Schema.Struct({
  /** what the model is told that it is where there is no system message */
  identity: Schema.optional(Schema.String),
  /** "tool_cycle" by default */
  thinkingRetention: Retention.option
})

/** `Config` as it is given in code. @category model */
export type Options = typeof Config.Type

// wire format of these models, which were trained on these words
const toolsBefore =
  "\n\n# Tools\nYou may call one or more tools to assist with the user query.\n" +
  "Here are the tools available in JSONSchema format:\n\n<tools>\n"
const toolsAfter =
  "</tools>\n\nWhen making tool calls, use XML format to invoke tools and pass parameters:\n\n" +
  '<minimax:tool_call>\n<invoke name="tool-name-1">\n<parameter name="param-key-1">param-value-1</parameter>\n' +
  '<parameter name="param-key-2">param-value-2</parameter>\n...\n</invoke>\n</minimax:tool_call>'

const words: XmlCall.Words = {
  call: ['<invoke name="', '">'],
  callEnd: "</invoke>",
  argument: ['<parameter name="', '">'],
  argumentEnd: "</parameter>",
  valuesOnLines: false,
  many: true
}

const writeCalls = (writer: Writer, { toolCalls = [] }: AssistantMessage, index: number) => {
  if (toolCalls.length === 0) return
  const part = produced(index)
  writer.scaffold("\n<minimax:tool_call>\n", part)
  for (const call of toolCalls) {
    writer.text(`<invoke name="${call.name}">\n`, part)
    for (const [key, json] of Arguments.members(call.arguments)) {
      writer.text(`<parameter name="${key}">${Arguments.spoken(json)}</parameter>\n`, part)
    }
    writer.text("</invoke>\n", part)
  }
  writer.scaffold("</minimax:tool_call>", part)
}

const makeWriteStart =
  (identity: string): Format.Dialect["writeStart"] =>
  (writer: Writer, messages: ReadonlyArray<Message>, tools: ReadonlyArray<ToolSpec>): number => {
    const first = messages[0]
    const owner = first?.role === "system" ? 0 : -1
    const system = first?.role === "system" ? first.content : ""
    writer.scaffold("]~!b[]~b]system\n", outside(owner))
    if (system === "") writer.text(identity, outside(owner))
    else writer.text(system, given(owner))
    if (tools.length > 0) {
      writer.scaffold(toolsBefore, outside(owner))
      for (const tool of tools) writer.text(`<tool>${pythonJson(Tool.inner(tool))}</tool>\n`, outside(owner))
      writer.scaffold(toolsAfter, outside(owner))
    }
    writer.scaffold("[e~[\n", outside(owner))
    return owner + 1
  }

const writeMessages: Format.Dialect["writeMessages"] = (writer, messages, { from }) => {
  const lastUser = messages.findLastIndex(Retention.isUser)
  for (const [index, message] of messages.entries()) {
    if (index < from) continue
    if (message.role === "tool") {
      if (messages[index - 1]?.role !== "tool") writer.scaffold("]~b]tool", outside(index))
      writer.text("\n<response>", outside(index))
      // the frame is glued to the body: a token of both is the body's
      writer.text(message.content, { ...given(index), takesSeam: true })
      writer.text("</response>", outside(index))
      if (messages[index + 1]?.role !== "tool") writer.scaffold("[e~[\n", outside(index))
    } else if (message.role === "assistant") {
      const reasoning = message.reasoningContent ?? ""
      writer.scaffold("]~b]ai\n", outside(index))
      if (reasoning !== "" && index > lastUser) {
        // the prompt opens the reasoning
        writer.scaffold("<think>\n", outside(index))
        writer.text(`${reasoning}\n`, produced(index))
        writer.scaffold("</think>\n\n", produced(index))
      }
      writer.text(message.content ?? "", produced(index))
      writeCalls(writer, message, index)
      writer.scaffold("[e~[", produced(index))
      writer.text("\n", outside(index))
    } else {
      writer.scaffold(`]~b]${message.role}\n`, outside(index))
      writer.text(message.content, given(index))
      writer.scaffold("[e~[\n", outside(index))
    }
  }
}

/** Left when the vocabulary lacks one of the format's special tokens. @category constructors */
export const make = (
  tokenizer: TokenizerService,
  options: Options = {}
): Either.Either<RendererService, RendererError> => {
  const needed = ["]~!b[", "]~b]", "[e~[", "<think>", "</think>"] as const
  const block = { open: "<minimax:tool_call>", close: "</minimax:tool_call>" }
  return Either.map(Format.requireIds(name, tokenizer, needed), (ids) => {
    const closeIds = [ids["[e~["]]
    const format: TurnParser.TurnFormat = {
      tokenizer,
      closeIds,
      endIds: [],
      openIds: [ids["]~b]"]],
      think: { open: "<think>", close: "</think>" },
      calls: XmlCall.syntax(block, words),
      callClosesReasoning: true,
      lines: { aroundReasoning: 1, afterReasoning: 2, beforeCall: 1, beforeCallAlways: true },
      emptyReasoningIsNone: true
    }
    return Format.make(tokenizer, {
      name,
      markers: [...needed, block.open, block.close],
      closeIds,
      endIds: [],
      objection: (messages) => {
        const late = messages.findIndex(({ role }, index) => role === "system" && index > 0)
        return late < 0 ? undefined : `message ${late} is a system message; the format has one at the beginning alone`
      },
      writeStart: makeWriteStart(options.identity ?? "You are a helpful assistant."),
      writeMessages,
      writeGenerationPrompt: (writer) => writer.scaffold("]~b]ai\n<think>\n", outside(-1)),
      rewritesHistory: Retention.rewrites(options.thinkingRetention ?? "tool_cycle", Retention.isUser),
      close: Format.closeWith({ reasoning: "\n</think>\n\n", turn: "[e~[", after: "\n" }),
      parser: (read) => TurnParser.make(format, read)
    })
  })
}

/** The chat format for the tokenizer of the program. Fails with `RendererError` when that lacks the markers. @category layers */
export const layer = (options: Options = {}): Layer.Layer<Renderer, RendererError, Tokenizer> =>
  Layer.effect(
    Renderer,
    Effect.flatMap(Tokenizer, (tokenizer) => make(tokenizer, options))
  )
