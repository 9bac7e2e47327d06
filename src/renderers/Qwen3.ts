/**
 * The wire format of the Qwen3 models. Reasoning is kept in the turns after the last question of the user and left out
 * of those before it, so that a new question rewrites history; tool results are read back as a turn of the user.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { AssistantMessage, Message } from "../Message.ts"
import { Renderer, type RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer, type TokenizerService } from "../Tokenizer.ts"
import * as Frame from "./internal/ChatMlFrame.ts"
import * as Format from "./internal/Format.ts"
import * as JsonCall from "./internal/JsonCall.ts"
import * as Retention from "./internal/Retention.ts"
import * as TurnParser from "./internal/TurnParser.ts"
import { outside, produced, type Writer } from "./internal/Writer.ts"

const name = "qwen3"

/** What is chosen about a Qwen3 conversation. @category model */
export const Config = Schema.Struct({
  /** false asks the model to answer without reasoning; true by default */
  enableThinking: Schema.optional(Schema.Boolean),
  /** by default "all" when thinking is off, since there is nothing to leave out, else "tool_cycle" */
  thinkingRetention: Retention.option
})

/** `Config` as it is given in code. @category model */
export type Options = typeof Config.Type

const emptyReasoning = "<think>\n\n</think>\n\n"

const writeAssistant = (
  writer: Writer,
  message: AssistantMessage,
  options: {
    readonly index: number
    readonly afterQuestion: boolean
    readonly last: boolean
    readonly thinking: boolean
  }
) => {
  const { afterQuestion, index, last, thinking } = options
  const reasoning = message.reasoningContent ?? ""
  const content = message.content ?? ""
  const wraps = afterQuestion && (last || reasoning !== "")
  Frame.openAssistant(writer, index)
  if (wraps && reasoning !== "") {
    writer.scaffold("<think>", produced(index))
    writer.text(`\n${reasoning.replace(/^\n+|\n+$/g, "")}\n`, produced(index))
    writer.scaffold("</think>\n\n", produced(index))
  } else if (wraps || (!thinking && reasoning === "")) {
    // the template's own; a prompt that turns thinking off ends with it, and history must go on from there
    writer.scaffold(emptyReasoning, outside(index))
  }
  writer.text(wraps ? content.replace(/^\n+/, "") : content, produced(index))
  Frame.writeJsonCalls(writer, message, index)
  Frame.closeAssistant(writer, index)
}

const makeWriteMessages =
  (thinking: boolean): Format.Dialect["writeMessages"] =>
  (writer, messages, { from }) => {
    const lastQuestion = messages.findLastIndex(Retention.isExactQuestion)
    messages.forEach((message: Message, index) => {
      if (index < from) return
      if (message.role === "assistant") {
        const afterQuestion = lastQuestion >= 0 && index > lastQuestion
        writeAssistant(writer, message, { index, afterQuestion, last: index === messages.length - 1, thinking })
      } else if (message.role === "tool") Frame.writeToolResult(writer, messages, index, message.content)
      else Frame.writeTurn(writer, index, message.role, message.content)
    })
  }

/** Left when the vocabulary lacks one of the format's special tokens. @category constructors */
export const make = (
  tokenizer: TokenizerService,
  options: Options = {}
): Either.Either<RendererService, RendererError> => {
  return Either.map(Format.requireIds(name, tokenizer, Frame.thinkingMarkers), (ids) => {
    const thinking = options.enableThinking ?? true
    const retention = options.thinkingRetention ?? (thinking ? "tool_cycle" : "all")
    const format = Frame.turnFormat(tokenizer, ids, {
      calls: JsonCall.syntax("<tool_call>", "</tool_call>"),
      lines: { aroundReasoning: Number.POSITIVE_INFINITY, afterReasoning: Number.POSITIVE_INFINITY, beforeCall: 1 },
      emptyReasoningIsNone: true
    })
    return Format.make(tokenizer, {
      name,
      markers: [...Frame.markers, ...Frame.thinkingMarkers, "<tool_response>", "</tool_response>"],
      closeIds: format.closeIds,
      endIds: format.endIds,
      objection: () => undefined,
      writeStart: Frame.writeToolTurn,
      writeMessages: makeWriteMessages(thinking),
      writeGenerationPrompt: (writer) =>
        writer.scaffold(`<|im_start|>assistant\n${thinking ? "" : emptyReasoning}`, outside(-1)),
      rewritesHistory: Retention.rewrites(retention, Retention.isExactQuestion),
      close: Format.closeWith({ reasoning: "\n</think>\n\n", turn: "<|im_end|>", after: "\n" }),
      parser: (given) => TurnParser.make(format, given)
    })
  })
}

/** Qwen3's chat format for the tokenizer of the program. Fails with `RendererError` when that lacks the markers. @category layers */
export const layer = (options: Options = {}): Layer.Layer<Renderer, RendererError, Tokenizer> =>
  Layer.effect(
    Renderer,
    Effect.flatMap(Tokenizer, (tokenizer) => make(tokenizer, options))
  )
