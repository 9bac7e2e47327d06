/** The wire format of the GLM-4.5 and GLM-4.6 models: a line break after every marker, and no token that ends a turn. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { AssistantMessage } from "../Message.ts"
import { Renderer, type RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer, type TokenizerService } from "../Tokenizer.ts"
import * as Arguments from "./internal/Arguments.ts"
import * as Format from "./internal/Format.ts"
import * as Frame from "./internal/GlmFrame.ts"
import * as Retention from "./internal/Retention.ts"
import * as Tool from "./internal/Tool.ts"
import * as TurnParser from "./internal/TurnParser.ts"
import { given, outside, produced, type Writer } from "./internal/Writer.ts"

const name = "glm-4.5"

/** What is chosen about a GLM-4.5 conversation. @category model */
export const Config = Schema.Struct({
  /** false asks the model to answer without reasoning; true by default */
  enableThinking: Schema.optional(Schema.Boolean),
  /** by default "all" when thinking is off, else "tool_cycle" */
  thinkingRetention: Retention.option
})

/** `Config` as it is given in code. @category model */
export type Options = typeof Config.Type

// wire format of these models, which were trained on these words
const toolsBefore =
  "\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
  "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
const toolsAfter =
  "</tools>\n\nFor each function call, output the function name and arguments within the following XML format:\n" +
  "<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>\n<arg_value>{arg-value-1}</arg_value>\n" +
  "<arg_key>{arg-key-2}</arg_key>\n<arg_value>{arg-value-2}</arg_value>\n...\n</tool_call>"

const writeCalls = (writer: Writer, { toolCalls }: AssistantMessage, index: number) => {
  const part = produced(index)
  for (const call of toolCalls ?? []) {
    writer.text("\n", part)
    writer.scaffold("<tool_call>", part)
    writer.text(`${call.name}\n`, part)
    for (const [key, json] of Arguments.members(call.arguments)) {
      writer.scaffold("<arg_key>", part)
      writer.text(key, part)
      writer.scaffold("</arg_key>\n<arg_value>", part)
      writer.text(Arguments.spoken(json), part)
      writer.scaffold("</arg_value>\n", part)
    }
    writer.scaffold("</tool_call>", part)
  }
}

const writeAssistant = (
  writer: Writer,
  message: AssistantMessage,
  options: { readonly index: number; readonly afterUser: boolean; readonly thinking: boolean }
) => {
  const { afterUser, index, thinking } = options
  const reasoning = afterUser ? (message.reasoningContent ?? "").trim() : ""
  const content = (message.content ?? "").trim()
  // without thinking the prompt holds the empty pair, with it the model writes the pair
  const frame = thinking || reasoning !== "" ? produced(index) : outside(index)
  writer.scaffold("\n<think>", frame)
  writer.text(reasoning, frame)
  writer.scaffold("</think>", frame)
  if (content !== "") writer.text(`\n${content}`, produced(index))
  writeCalls(writer, message, index)
}

/** Left when the vocabulary lacks one of the format's special tokens. @category constructors */
export const make = (
  tokenizer: TokenizerService,
  options: Options = {}
): Either.Either<RendererService, RendererError> =>
  Either.map(Frame.read(name, tokenizer), ({ close, ids }) => {
    const thinking = options.enableThinking ?? true
    const retention = options.thinkingRetention ?? (thinking ? "tool_cycle" : "all")
    const format = Frame.turnFormat(tokenizer, ids, { aroundReasoning: 0, afterReasoning: 1, beforeCall: 1 })
    return Format.make(tokenizer, {
      name,
      markers: Frame.markers,
      closeIds: format.closeIds,
      endIds: format.endIds,
      objection: () => undefined,
      writeStart: (writer, _, tools) => {
        writer.scaffold("[gMASK]<sop>", outside(-1))
        if (tools.length === 0) return 0
        writer.scaffold(`<|system|>${toolsBefore}`, outside(-1))
        for (const tool of tools) writer.text(`${Tool.json(tool)}\n`, outside(-1))
        writer.scaffold(toolsAfter, outside(-1))
        return 0
      },
      writeMessages: (writer, messages, { from, sampled }) => {
        const lastUser = messages.findLastIndex(Retention.isUser)
        for (const [index, message] of messages.entries()) {
          if (index < from) continue
          const isThere = index === 0 && Frame.endedWith(tokenizer, sampled, message)
          if (message.role !== "tool" || messages[index - 1]?.role !== "tool") {
            Frame.open(writer, messages, { index, isThere })
          }
          if (message.role === "tool") {
            writer.text("\n<tool_response>\n", outside(index))
            writer.text(message.content, given(index))
            writer.text("\n</tool_response>", outside(index))
          } else if (message.role === "assistant") {
            writeAssistant(writer, message, { index, afterUser: index > lastUser, thinking })
          } else {
            writer.text("\n", outside(index))
            writer.text(message.content, given(index))
            const asks = message.role === "user" && !thinking && !message.content.endsWith("/nothink")
            if (asks) writer.text("/nothink", outside(index))
          }
        }
      },
      writeGenerationPrompt: (writer) =>
        writer.scaffold(`<|assistant|>${thinking ? "" : "\n<think></think>"}`, outside(-1)),
      rewritesHistory: Retention.rewrites(retention, Retention.isUser),
      close,
      parser: (read) => TurnParser.make(format, read)
    })
  })

/** The chat format for the tokenizer of the program. Fails with `RendererError` when that lacks the markers. @category layers */
export const layer = (options: Options = {}): Layer.Layer<Renderer, RendererError, Tokenizer> =>
  Layer.effect(
    Renderer,
    Effect.flatMap(Tokenizer, (tokenizer) => make(tokenizer, options))
  )
