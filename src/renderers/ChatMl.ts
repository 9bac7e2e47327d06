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
import type { AssistantMessage, Message, ToolSpec } from "../Message.ts"
import { Renderer, type RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer, type TokenizerService } from "../Tokenizer.ts"
import * as ChatFormat from "./internal/ChatFormat.ts"

const name = "chatml"

const writeAssistant = (writer: ChatFormat.Writer, message: AssistantMessage, index: number) => {
  const part = ChatFormat.produced(index)
  writer.openTurn("assistant", index)
  if (message.reasoningContent !== undefined) {
    writer.scaffold("<think>", part)
    writer.runs.text(`\n${message.reasoningContent}\n`, part)
    writer.scaffold("</think>", part)
    writer.runs.text("\n\n", part)
  }
  writer.runs.text(message.content ?? "", part)
  writer.toolCalls(message, index)
  writer.closeTurn(index, { sampled: true })
}

const writeMessages = (
  writer: ChatFormat.Writer,
  messages: ReadonlyArray<Message>,
  tools: ReadonlyArray<ToolSpec>
): void => {
  ChatFormat.writeToolTurn(writer, messages, tools)
  messages.forEach((message, index) => {
    if (message.role === "assistant") writeAssistant(writer, message, index)
    else if (index > 0 || message.role !== "system" || tools.length === 0) {
      writer.turn(message.role, message.content, index)
    }
  })
}

/** Left when the vocabulary has no `<|im_start|>` or `<|im_end|>`. @category constructors */
export const make = (tokenizer: TokenizerService): Either.Either<RendererService, RendererError> =>
  Either.map(ChatFormat.readIds(name, tokenizer), (ids) =>
    ChatFormat.makeRenderer(tokenizer, ids, {
      name,
      lines: { aroundReasoning: 1, afterReasoning: 2 },
      emptyReasoningIsNone: false,
      objection: (messages, tools) => {
        const calls = messages.some((message) => message.role === "assistant" && (message.toolCalls?.length ?? 0) > 0)
        if (ids.toolCall === undefined && (calls || tools.length > 0)) {
          return "tools need the tokens <tool_call> and </tool_call>, which the vocabulary lacks"
        }
        const reasons = messages.some(
          (message) => message.role === "assistant" && message.reasoningContent !== undefined
        )
        if (ids.think === undefined && reasons) {
          return "reasoning needs the tokens <think> and </think>, which the vocabulary lacks"
        }
        return undefined
      },
      writeMessages,
      writeGenerationPrompt: (writer) => writer.generationPrompt(),
      rewritesHistory: () => false
    })
  )

/** ChatML for the tokenizer of the program. Fails with `RendererError` when that lacks the markers. @category layers */
export const layer: Layer.Layer<Renderer, RendererError, Tokenizer> = Layer.effect(
  Renderer,
  Effect.flatMap(Tokenizer, make)
)

export { chatTemplate } from "./internal/chatTemplate.ts"
