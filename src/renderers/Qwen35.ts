/**
 * The wire format of the Qwen3.5 and Qwen3.6 models: tools are called as elements, every turn after the last question
 * begins with reasoning, and outer white space of a message is taken off.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Message, ToolSpec } from "../Message.ts"
import { Renderer, type RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer, type TokenizerService } from "../Tokenizer.ts"
import * as Frame from "./internal/ChatMlFrame.ts"
import * as Format from "./internal/Format.ts"
import * as Retention from "./internal/Retention.ts"
import * as Tool from "./internal/Tool.ts"
import * as TurnParser from "./internal/TurnParser.ts"
import { given, outside, produced, type Writer } from "./internal/Writer.ts"
import * as XmlElements from "./internal/XmlElements.ts"

/** What is chosen about a Qwen3.5 or Qwen3.6 conversation. @category model */
export const Config = Schema.Struct({
  /** "3.6" writes true, false and null of arguments as JSON does, "3.5" as Python does; "3.5" by default */
  version: Schema.optional(Schema.Literal("3.5", "3.6")),
  /** false asks the model to answer without reasoning; true by default */
  enableThinking: Schema.optional(Schema.Boolean),
  /** true keeps the reasoning of all turns, in full renders too; false by default */
  preserveThinking: Schema.optional(Schema.Boolean),
  /** by default "all" when thinking is off or preserved, else "tool_cycle" */
  thinkingRetention: Retention.option
})

/** `Config` as it is given in code. @category model */
export type Options = typeof Config.Type

const writeStart = (writer: Writer, messages: ReadonlyArray<Message>, tools: ReadonlyArray<ToolSpec>): number => {
  if (tools.length === 0) return 0
  const first = messages[0]
  const owner = first?.role === "system" ? 0 : -1
  const system = first?.role === "system" ? first.content.trim() : ""
  writer.scaffold(`<|im_start|>system\n${XmlElements.toolsBefore}`, outside(owner))
  for (const tool of tools) writer.text(`\n${Tool.json(tool)}`, outside(owner))
  writer.scaffold(XmlElements.toolsAfter, outside(owner))
  if (system !== "") {
    writer.text("\n\n", outside(owner))
    writer.text(system, given(owner))
  }
  writer.scaffold("<|im_end|>\n", outside(owner))
  return owner + 1
}

const writeReasoning = (
  writer: Writer,
  reasoning: string,
  options: { readonly index: number; readonly thinking: boolean }
) => {
  const { index, thinking } = options
  if (!thinking && reasoning === "") {
    writer.scaffold("<think>\n\n</think>\n\n", outside(index))
    return
  }
  // a prompt that asks for reasoning ends with its first line
  writer.scaffold("<think>\n", outside(index))
  writer.text(`${reasoning}\n`, produced(index))
  writer.scaffold("</think>\n\n", produced(index))
}

/** Left when the vocabulary lacks one of the format's special tokens. @category constructors */
export const make = (
  tokenizer: TokenizerService,
  options: Options = {}
): Either.Either<RendererService, RendererError> => {
  const { enableThinking: thinking = true, preserveThinking = false, version = "3.5" } = options
  const name = `qwen${version}`
  return Either.flatMap(Format.requireIds(name, tokenizer, Frame.thinkingMarkers), (ids) => {
    const chosen = Retention.choose(name, options.thinkingRetention, preserveThinking, !thinking)
    return Either.map(chosen, (retention) => {
      const format = Frame.turnFormat(tokenizer, ids, {
        calls: XmlElements.callSyntax,
        lines: { aroundReasoning: 1, afterReasoning: 2, beforeCall: 2 },
        emptyReasoningIsNone: false
      })
      return Format.make(tokenizer, {
        name,
        markers: [...Frame.markers, ...Frame.thinkingMarkers, "<tool_response>", "</tool_response>"],
        closeIds: format.closeIds,
        endIds: format.endIds,
        objection: (messages) => {
          const late = messages.findIndex(({ role }, index) => role === "system" && index > 0)
          return late < 0 ? undefined : `message ${late} is a system message; the format has one at the beginning alone`
        },
        writeStart,
        writeMessages: (writer, messages, { from, sampled }) => {
          const lastQuestion = messages.findLastIndex(Retention.isQuestion)
          // a conversation without any question has no turn after one, unless it extends a turn
          const since = lastQuestion < 0 && sampled === undefined ? messages.length : lastQuestion
          messages.forEach((message: Message, index) => {
            if (index < from) return
            if (message.role === "tool") Frame.writeToolResult(writer, messages, index, message.content.trim())
            else if (message.role !== "assistant") Frame.writeTurn(writer, index, message.role, message.content.trim())
            else {
              const reasoning = message.reasoningContent ?? ""
              Frame.openAssistant(writer, index)
              if (index > since || (preserveThinking && reasoning !== "")) {
                writeReasoning(writer, reasoning, { index, thinking })
              } else if (!thinking && reasoning === "") {
                // a prompt that turns thinking off ends with an empty pair, and history must go on from there
                writeReasoning(writer, "", { index, thinking })
              }
              writer.text((message.content ?? "").trim(), produced(index))
              XmlElements.writeCalls(writer, message, {
                ...{ index, spelling: version === "3.5" ? ("python" as const) : ("json" as const) },
                before: "\n\n"
              })
              Frame.closeAssistant(writer, index)
            }
          })
        },
        writeGenerationPrompt: (writer) =>
          writer.scaffold(`<|im_start|>assistant\n<think>\n${thinking ? "" : "\n</think>\n\n"}`, outside(-1)),
        rewritesHistory: Retention.rewrites(retention, Retention.isQuestion),
        close: Format.closeWith({ reasoning: "\n</think>\n\n", turn: "<|im_end|>", after: "\n" }),
        parser: (read) => TurnParser.make(format, read)
      })
    })
  })
}

/** The chat format for the tokenizer of the program. Fails with `RendererError` when that lacks the markers. @category layers */
export const layer = (options: Options = {}): Layer.Layer<Renderer, RendererError, Tokenizer> =>
  Layer.effect(
    Renderer,
    Effect.flatMap(Tokenizer, (tokenizer) => make(tokenizer, options))
  )
