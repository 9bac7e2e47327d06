/**
 * A chat format for Qwen3 models that are trained on: tools and calls are elements, reasoning stands before the content of
 * its turn and stays there, and no turn is ever rewritten, so that a conversation only grows.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import type { AssistantMessage, Message, ToolSpec } from "../Message.ts"
import { Renderer, type RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer, type TokenizerService } from "../Tokenizer.ts"
import * as Frame from "./internal/ChatMlFrame.ts"
import * as Format from "./internal/Format.ts"
import { pythonJson } from "./internal/pythonJson.ts"
import * as Retention from "./internal/Retention.ts"
import * as TurnParser from "./internal/TurnParser.ts"
import { given, outside, produced, type Writer } from "./internal/Writer.ts"
import * as XmlElements from "./internal/XmlElements.ts"

const name = "prime-qwen3"

const element = (tag: string, value: unknown): string =>
  `\n<${tag}>${typeof value === "string" ? value : pythonJson(value)}</${tag}>`

type Json = Readonly<Record<string, unknown>>

const isRecord = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

/** Members of an object that are not written otherwise, each as an element. */
const others = (of: Json, written: ReadonlyArray<string>): string =>
  Object.entries(of)
    .map(([key, value]) => (written.includes(key) ? "" : element(key, value)))
    .join("")

const parameterText = ([parameter, schema]: readonly [string, unknown]): string => {
  const of = isRecord(schema) ? schema : {}
  const first = ["type", "description"].map((key) => (of[key] === undefined ? "" : element(key, of[key]))).join("")
  return `\n<parameter>${element("name", parameter)}${first}${others(of, ["type", "description"])}\n</parameter>`
}

const toolText = ({ description, name: tool, parameters }: ToolSpec): string => {
  const properties = isRecord(parameters.properties) ? Object.entries(parameters.properties) : []
  return (
    `\n<function>${element("name", tool)}${description === undefined ? "" : element("description", description)}` +
    `\n<parameters>${properties.map(parameterText).join("")}${others(parameters, ["type", "properties"])}` +
    "\n</parameters>\n</function>"
  )
}

const writeStart = (writer: Writer, messages: ReadonlyArray<Message>, tools: ReadonlyArray<ToolSpec>): number => {
  if (tools.length === 0) return 0
  const first = messages[0]
  const owner = first?.role === "system" ? 0 : -1
  writer.scaffold("<|im_start|>system\n", outside(owner))
  if (first?.role === "system") {
    writer.text(first.content, given(0))
    writer.text("\n\n", outside(0))
  }
  writer.scaffold(XmlElements.toolsBefore, outside(owner))
  for (const tool of tools) writer.text(toolText(tool), outside(owner))
  writer.scaffold(`${XmlElements.toolsAfter}<|im_end|>\n`, outside(owner))
  return owner + 1
}

const writeAssistant = (writer: Writer, message: AssistantMessage, index: number) => {
  const part = produced(index)
  Frame.openAssistant(writer, index)
  if (message.reasoningContent !== undefined) {
    writer.scaffold("<think>", part)
    writer.text(message.reasoningContent, part)
    writer.scaffold("</think>\n", part)
  }
  writer.text(message.content ?? "", part)
  XmlElements.writeCalls(writer, message, { index, spelling: "json", before: "\n" })
  Frame.closeAssistant(writer, index)
}

/** Left when the vocabulary lacks one of the format's special tokens. @category constructors */
export const make = (tokenizer: TokenizerService): Either.Either<RendererService, RendererError> => {
  return Either.map(Format.requireIds(name, tokenizer, Frame.thinkingMarkers), (ids) => {
    const format = Frame.turnFormat(tokenizer, ids, {
      calls: XmlElements.callSyntax,
      lines: { aroundReasoning: 0, afterReasoning: 1, beforeCall: 1 },
      emptyReasoningIsNone: false
    })
    return Format.make(tokenizer, {
      name,
      markers: [...Frame.markers, ...Frame.thinkingMarkers, "<tool_response>", "</tool_response>"],
      closeIds: format.closeIds,
      endIds: format.endIds,
      objection: () => undefined,
      writeStart,
      writeMessages: (writer, messages, { from }) => {
        for (const [index, message] of messages.entries()) {
          if (index < from) continue
          if (message.role === "assistant") writeAssistant(writer, message, index)
          else if (message.role === "tool") Frame.writeToolResult(writer, messages, index, message.content)
          else Frame.writeTurn(writer, index, message.role, message.content)
        }
      },
      writeGenerationPrompt: (writer) => writer.scaffold("<|im_start|>assistant\n", outside(-1)),
      rewritesHistory: Retention.rewrites("all", Retention.isUser),
      close: Format.closeWith({ reasoning: "</think>\n", turn: "<|im_end|>", after: "\n" }),
      parser: (read) => TurnParser.make(format, read)
    })
  })
}

/** The chat format for the tokenizer of the program. Fails with `RendererError` when that lacks the markers. @category layers */
export const layer: Layer.Layer<Renderer, RendererError, Tokenizer> = Layer.effect(
  Renderer,
  Effect.flatMap(Tokenizer, make)
)
