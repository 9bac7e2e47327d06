/**
 * The wire format of the Qwen3 models. Reasoning is kept in the turns after the last question of the user and left out
 * of those before it, so that a new question rewrites history; tool results are read back as a turn of the user.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import type { AssistantMessage, Message, ToolSpec } from "../Message.ts"
import { Renderer, RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer, type TokenizerService } from "../Tokenizer.ts"
import * as ChatFormat from "./internal/ChatFormat.ts"

const name = "qwen3"

/** How thinking is asked for, and kept in later turns. @category model */
export interface Options {
  /** false asks the model to answer without reasoning; true by default */
  readonly enableThinking?: boolean | undefined
  /**
   * What a bridge keeps: reasoning until the user asks again (as the template does), or always. By default "all" when
   * thinking is off, since there is nothing to leave out, else "tool_cycle".
   */
  readonly thinkingRetention?: "tool_cycle" | "all" | undefined
}

const isQuestion = (message: Message): boolean =>
  message.role === "user" &&
  !(message.content.startsWith("<tool_response>") && message.content.endsWith("</tool_response>"))

const emptyReasoning = "<think>\n\n</think>\n\n"

const writeToolResult = (
  writer: ChatFormat.Writer,
  messages: ReadonlyArray<Message>,
  { content, index }: { readonly content: string; readonly index: number }
) => {
  const part = ChatFormat.outside(index)
  if (messages[index - 1]?.role !== "tool") {
    writer.runs.special(writer.ids.turnOpen, part)
    writer.runs.text("user", part)
  }
  writer.scaffold("\n<tool_response>\n", part)
  writer.runs.text(content, ChatFormat.given(index))
  writer.scaffold("\n</tool_response>", part)
  if (messages[index + 1]?.role !== "tool") writer.closeTurn(index, { sampled: false })
}

const writeAssistant = (
  writer: ChatFormat.Writer,
  message: AssistantMessage,
  options: {
    readonly index: number
    readonly afterQuestion: boolean
    readonly last: boolean
    readonly thinking: boolean
  }
) => {
  const { afterQuestion, index, last, thinking } = options
  const part = ChatFormat.produced(index)
  const reasoning = message.reasoningContent ?? ""
  const content = message.content ?? ""
  const wraps = afterQuestion && (last || reasoning !== "")
  writer.openTurn("assistant", index)
  if (wraps && reasoning !== "") {
    writer.scaffold("<think>", part)
    writer.runs.text(`\n${reasoning.replace(/^\n+|\n+$/g, "")}\n`, part)
    writer.scaffold("</think>", part)
    writer.runs.text("\n\n", part)
  } else if (wraps || (!thinking && reasoning === "")) {
    // the template's own; a prompt that turns thinking off ends with it, and history must go on from there
    writer.scaffold(emptyReasoning, ChatFormat.outside(index))
  }
  writer.runs.text(wraps ? content.replace(/^\n+/, "") : content, part)
  writer.toolCalls(message, index)
  writer.closeTurn(index, { sampled: true })
}

const makeWriteMessages =
  (thinking: boolean) =>
  (writer: ChatFormat.Writer, messages: ReadonlyArray<Message>, tools: ReadonlyArray<ToolSpec>): void => {
    const lastQuestion = messages.findLastIndex(isQuestion)
    ChatFormat.writeToolTurn(writer, messages, tools)
    messages.forEach((message, index) => {
      if (message.role === "assistant") {
        writeAssistant(writer, message, {
          index,
          afterQuestion: lastQuestion >= 0 && index > lastQuestion,
          last: index === messages.length - 1,
          thinking
        })
      } else if (message.role === "tool") writeToolResult(writer, messages, { content: message.content, index })
      else if (index > 0 || message.role !== "system" || tools.length === 0) {
        writer.turn(message.role, message.content, index)
      }
    })
  }

/** Left when the vocabulary lacks one of the format's special tokens. @category constructors */
export const make = (
  tokenizer: TokenizerService,
  options: Options = {}
): Either.Either<RendererService, RendererError> =>
  Either.flatMap(ChatFormat.readIds(name, tokenizer), (ids) => {
    if (ids.think === undefined || ids.toolCall === undefined) {
      const reason = "the tokenizer lacks <think>, </think>, <tool_call> or </tool_call>; choose another renderer"
      return Either.left(new RendererError({ renderer: name, reason }))
    }
    const thinking = options.enableThinking ?? true
    const retention = options.thinkingRetention ?? (thinking ? "tool_cycle" : "all")
    return Either.right(
      ChatFormat.makeRenderer(tokenizer, ids, {
        name,
        lines: { aroundReasoning: Number.POSITIVE_INFINITY, afterReasoning: Number.POSITIVE_INFINITY },
        emptyReasoningIsNone: true,
        objection: () => undefined,
        writeMessages: makeWriteMessages(thinking),
        writeGenerationPrompt: (writer) => {
          writer.generationPrompt()
          if (!thinking) writer.scaffold(emptyReasoning, ChatFormat.outside(-1))
        },
        rewritesHistory: (messages) => retention === "tool_cycle" && messages.some(isQuestion)
      })
    )
  })

/** Qwen3's chat format for the tokenizer of the program. Fails with `RendererError` when that lacks the markers. @category layers */
export const layer = (options: Options = {}): Layer.Layer<Renderer, RendererError, Tokenizer> =>
  Layer.effect(
    Renderer,
    Effect.flatMap(Tokenizer, (tokenizer) => make(tokenizer, options))
  )
