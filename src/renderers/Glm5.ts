/** The wire format of the GLM-5 and GLM-5.1 models, also of GLM-4.7: no line breaks, and no token that ends a turn. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { AssistantMessage, ToolSpec } from "../Message.ts"
import { Renderer, type RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer, type TokenizerService } from "../Tokenizer.ts"
import * as Arguments from "./internal/Arguments.ts"
import * as Format from "./internal/Format.ts"
import * as Frame from "./internal/GlmFrame.ts"
import { pythonJson } from "./internal/pythonJson.ts"
import * as Retention from "./internal/Retention.ts"
import * as Tool from "./internal/Tool.ts"
import * as TurnParser from "./internal/TurnParser.ts"
import { given, outside, produced, type Writer } from "./internal/Writer.ts"

/** What is chosen about a GLM-5 conversation. @category model */
export const Config = Schema.Struct({
  /** "5" by default */
  version: Schema.optional(Schema.Literal("5", "5.1")),
  /** false asks the model to answer without reasoning; true by default */
  enableThinking: Schema.optional(Schema.Boolean),
  /** false keeps the reasoning of all turns, in full renders too; true by default */
  clearThinking: Schema.optional(Schema.Boolean),
  /** by default "all" when thinking is off or never cleared, else "tool_cycle" */
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
  "<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value>" +
  "<arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call>"

const writeCalls = (writer: Writer, { toolCalls }: AssistantMessage, index: number) => {
  const part = produced(index)
  for (const call of toolCalls ?? []) {
    writer.scaffold("<tool_call>", part)
    writer.text(call.name, part)
    for (const [key, json] of Arguments.members(call.arguments)) {
      writer.scaffold("<arg_key>", part)
      writer.text(key, part)
      writer.scaffold("</arg_key><arg_value>", part)
      writer.text(Arguments.spoken(json), part)
      writer.scaffold("</arg_value>", part)
    }
    writer.scaffold("</tool_call>", part)
  }
}

/** Left when the vocabulary lacks one of the format's special tokens. @category constructors */
export const make = (
  tokenizer: TokenizerService,
  options: Options = {}
): Either.Either<RendererService, RendererError> => {
  const { clearThinking = true, enableThinking: thinking = true, version = "5" } = options
  const name = `glm-${version}`
  const jsonOf = (tool: ToolSpec) =>
    version === "5" ? Tool.json(tool) : pythonJson({ ...Tool.inner(tool), strict: undefined })
  const chosen = Retention.choose(name, options.thinkingRetention, !clearThinking, !thinking)
  return Either.flatMap(Frame.read(name, tokenizer), ({ close, ids }) =>
    Either.map(chosen, (retention) => {
      const format = Frame.turnFormat(tokenizer, ids, { aroundReasoning: 0, afterReasoning: 0, beforeCall: 0 })
      return Format.make(tokenizer, {
        name,
        markers: [...Frame.markers, "<tool_response>", "</tool_response>"],
        closeIds: format.closeIds,
        endIds: format.endIds,
        objection: () => undefined,
        writeStart: (writer, _, tools) => {
          writer.scaffold("[gMASK]<sop>", outside(-1))
          if (tools.length === 0) return 0
          writer.scaffold(`<|system|>${toolsBefore}`, outside(-1))
          for (const tool of tools) writer.text(`${jsonOf(tool)}\n`, outside(-1))
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
              writer.scaffold("<tool_response>", outside(index))
              writer.text(message.content, given(index))
              writer.scaffold("</tool_response>", outside(index))
            } else if (message.role === "assistant") {
              const reasoning = (message.reasoningContent ?? "").trim()
              const isLast = index === messages.length - 1
              if (reasoning !== "" && (index > lastUser || !clearThinking)) {
                // the prompt opens the reasoning
                writer.scaffold("<think>", outside(index))
                writer.text(reasoning, produced(index))
                writer.scaffold("</think>", produced(index))
              } else if (version === "5.1" && isLast && thinking && reasoning === "") {
                writer.scaffold("<think>", outside(index))
                writer.scaffold("</think>", produced(index))
              } else writer.scaffold("</think>", outside(index))
              writer.text((message.content ?? "").trim(), produced(index))
              writeCalls(writer, message, index)
            } else writer.text(message.content, given(index))
          }
        },
        writeGenerationPrompt: (writer) =>
          writer.scaffold(`<|assistant|>${thinking ? "<think>" : "</think>"}`, outside(-1)),
        rewritesHistory: Retention.rewrites(retention, Retention.isUser),
        close,
        parser: (read) => TurnParser.make(format, read)
      })
    })
  )
}

/** The chat format for the tokenizer of the program. Fails with `RendererError` when that lacks the markers. @category layers */
export const layer = (options: Options = {}): Layer.Layer<Renderer, RendererError, Tokenizer> =>
  Layer.effect(
    Renderer,
    Effect.flatMap(Tokenizer, (tokenizer) => make(tokenizer, options))
  )
