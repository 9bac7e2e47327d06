/**
 * Plain ChatML: every message is `<|im_start|>{role}`, a line break, its text, `<|im_end|>` and a line break, and no
 * turn is ever rewritten, so that a conversation only grows.
 *
 * Reasoning and tool calls exist when the vocabulary has `<think>` and `<tool_call>` as tokens: reasoning stands before
 * the content of its turn and stays there, a call is JSON between its markers, and a result is a turn of role "tool".
 * Without these tokens a message that needs them is refused.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import type { AssistantMessage } from "../Message.ts"
import { Renderer, type RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer, type TokenizerService } from "../Tokenizer.ts"
import * as Frame from "./internal/ChatMlFrame.ts"
import * as Format from "./internal/Format.ts"
import * as JsonCall from "./internal/JsonCall.ts"
import * as TurnParser from "./internal/TurnParser.ts"
import { outside, produced, type Writer } from "./internal/Writer.ts"

const name = "chatml"
const think = { open: "<think>", close: "</think>" }
const toolCall = { open: "<tool_call>", close: "</tool_call>" }

const writeAssistant = (writer: Writer, message: AssistantMessage, index: number) => {
  const part = produced(index)
  Frame.openAssistant(writer, index)
  if (message.reasoningContent !== undefined) {
    writer.scaffold(think.open, part)
    writer.text(`\n${message.reasoningContent}\n`, part)
    writer.scaffold(`${think.close}\n\n`, part)
  }
  writer.text(message.content ?? "", part)
  Frame.writeJsonCalls(writer, message, index)
  Frame.closeAssistant(writer, index)
}

/** Left when the vocabulary has no `<|im_start|>` or `<|im_end|>`. @category constructors */
export const make = (tokenizer: TokenizerService): Either.Either<RendererService, RendererError> =>
  Either.map(Format.requireIds(name, tokenizer, ["<|im_start|>", "<|im_end|>"]), (ids) => {
    const has = ({ close, open }: TurnParser.Pair) =>
      tokenizer.special(open) !== undefined && tokenizer.special(close) !== undefined
    const closeIds = [ids["<|im_end|>"]]
    const endIds = Format.idsOf(tokenizer, ["<|endoftext|>"])
    const format: TurnParser.TurnFormat = {
      tokenizer,
      closeIds,
      endIds,
      openIds: [ids["<|im_start|>"]],
      think: has(think) ? think : undefined,
      calls: has(toolCall) ? JsonCall.syntax(toolCall.open, toolCall.close) : undefined,
      callClosesReasoning: true,
      lines: { aroundReasoning: 1, afterReasoning: 2, beforeCall: 1 },
      emptyReasoningIsNone: false
    }
    return Format.make(tokenizer, {
      name,
      markers: [...Frame.markers, "<think>", "</think>", "<tool_call>", "</tool_call>"],
      closeIds,
      endIds,
      objection: (messages, tools) => {
        const calls = messages.some((message) => message.role === "assistant" && (message.toolCalls?.length ?? 0) > 0)
        if (!has(toolCall) && (calls || tools.length > 0)) {
          return "tools need the tokens <tool_call> and </tool_call>, which the vocabulary lacks"
        }
        if (!has(think) && Format.noReasoning(messages) !== undefined) {
          return "reasoning needs the tokens <think> and </think>, which the vocabulary lacks"
        }
        return undefined
      },
      writeStart: Frame.writeToolTurn,
      writeMessages: (writer, messages, { from }) => {
        for (const [index, message] of messages.entries()) {
          if (index < from) continue
          if (message.role === "assistant") writeAssistant(writer, message, index)
          else Frame.writeTurn(writer, index, message.role, message.content)
        }
      },
      writeGenerationPrompt: (writer) => writer.scaffold("<|im_start|>assistant\n", outside(-1)),
      rewritesHistory: () => false,
      close: Format.closeWith({ reasoning: "\n</think>\n\n", turn: "<|im_end|>", after: "\n" }),
      parser: (options) => TurnParser.make(format, options)
    })
  })

/** ChatML for the tokenizer of the program. Fails with `RendererError` when that lacks the markers. @category layers */
export const layer: Layer.Layer<Renderer, RendererError, Tokenizer> = Layer.effect(
  Renderer,
  Effect.flatMap(Tokenizer, make)
)

export { chatTemplate } from "./internal/chatTemplate.ts"
