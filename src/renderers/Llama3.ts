/** The wire format of the Llama 3 models, with the tools of Llama 3.1 and later: one call per turn, as a bare JSON object. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Message, ToolSpec } from "../Message.ts"
import { Renderer, type RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer, type TokenizerService } from "../Tokenizer.ts"
import * as Format from "./internal/Format.ts"
import * as LlamaParser from "./internal/LlamaParser.ts"
import * as Retention from "./internal/Retention.ts"
import * as Tool from "./internal/Tool.ts"
import { given, outside, produced, type Writer } from "./internal/Writer.ts"

const name = "llama-3"

/** What is chosen about a Llama 3 conversation. @category model */
export const Config = Schema.Struct({
  /** what the model is told that today is, as "26 Jul 2024" (the default), so that a run repeats */
  date: Schema.optional(Schema.String),
  /** where the tools stand: the first message of the user (the default) or the system message */
  toolPlacement: Schema.optional(Schema.Literal("user", "system")),
  /** false leaves out the system message with dates, as Llama 3.0 does; true by default */
  preamble: Schema.optional(Schema.Boolean)
})

/** `Config` as it is given in code. @category model */
export type Options = typeof Config.Type

// wire format of these models, which were trained on these words, with no space between the last two sentences
const format =
  'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.' +
  "Do not use variables.\n\n"
const toolsForUser =
  "Given the following functions, please respond with a JSON for a function call with its proper arguments that best " +
  `answers the given prompt.\n\n${format}`
const toolsForSystem = `You have access to the following functions. To call a function, please respond with JSON for a function call.${format}`

const header = (role: string) => `<|start_header_id|>${role}<|end_header_id|>\n\n`

const toolText = (tool: ToolSpec): string => `${Tool.json(tool, { indent: 4 })}\n\n`

const makeWriteStart =
  ({ date = "26 Jul 2024", preamble = true, toolPlacement = "user" }: Options): Format.Dialect["writeStart"] =>
  (writer: Writer, messages: ReadonlyArray<Message>, tools: ReadonlyArray<ToolSpec>): number => {
    const first = messages[0]
    const owner = first?.role === "system" ? 0 : -1
    writer.scaffold("<|begin_of_text|>", outside(preamble ? owner : 0))
    if (!preamble) return 0
    writer.scaffold(header("system"), outside(owner))
    if (tools.length > 0) writer.text("Environment: ipython\n", outside(owner))
    writer.text(`Cutting Knowledge Date: December 2023\nToday Date: ${date}\n\n`, outside(owner))
    if (tools.length > 0 && toolPlacement === "system") {
      writer.text(toolsForSystem, outside(owner))
      for (const tool of tools) writer.text(toolText(tool), outside(owner))
    }
    if (first?.role === "system") writer.text(first.content.trim(), given(0))
    writer.scaffold("<|eot_id|>", outside(owner))
    const from = owner + 1
    const asking = messages[from]
    if (tools.length === 0 || toolPlacement === "system" || asking === undefined) return from
    writer.scaffold(header("user"), outside(from))
    writer.text(toolsForUser, outside(from))
    for (const tool of tools) writer.text(toolText(tool), outside(from))
    writer.text((asking.content ?? "").trim(), given(from))
    writer.scaffold("<|eot_id|>", outside(from))
    return from + 1
  }

const writeMessages: Format.Dialect["writeMessages"] = (writer, messages, { from }) => {
  for (const [index, message] of messages.entries()) {
    if (index < from) continue
    if (message.role === "assistant") {
      const [call] = message.toolCalls ?? []
      writer.scaffold(header("assistant"), outside(index))
      if (call === undefined) writer.text((message.content ?? "").trim(), produced(index))
      else writer.text(`{"name": "${call.name}", "parameters": ${call.arguments}}`, produced(index))
      writer.scaffold("<|eot_id|>", produced(index))
    } else if (message.role === "tool") {
      // a result is written as a JSON string
      writer.scaffold(`${header("ipython")}"`, outside(index))
      writer.text(JSON.stringify(message.content).slice(1, -1), given(index))
      writer.scaffold('"<|eot_id|>', outside(index))
    } else {
      writer.scaffold(header(message.role), outside(index))
      writer.text(message.content.trim(), given(index))
      writer.scaffold("<|eot_id|>", outside(index))
    }
  }
}

const makeObjection =
  ({ preamble = true, toolPlacement = "user" }: Options): Format.Dialect["objection"] =>
  (messages, tools) => {
    const reasoning = Format.noReasoning(messages)
    if (reasoning !== undefined) return reasoning
    for (const [index, message] of messages.entries()) {
      if (message.role !== "assistant") continue
      const calls = message.toolCalls?.length ?? 0
      if (calls > 1) return `message ${index} has ${calls} tool calls; the format has one per turn`
      if (calls > 0 && (message.content ?? "") !== "") {
        return `message ${index} has content and a tool call; the format has one or the other`
      }
    }
    if (tools.length > 0 && !preamble) return "tools need the system message that preamble = false leaves out"
    const asking = messages[messages[0]?.role === "system" ? 1 : 0]
    if (tools.length > 0 && toolPlacement === "user" && asking?.role !== "user") {
      return 'tools stand in the first message, which must be the user\'s; or choose toolPlacement = "system"'
    }
    return undefined
  }

/** Left when the vocabulary lacks one of the format's special tokens. @category constructors */
export const make = (
  tokenizer: TokenizerService,
  options: Options = {}
): Either.Either<RendererService, RendererError> => {
  const needed = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"] as const
  return Either.map(Format.requireIds(name, tokenizer, needed), (ids) => {
    const closeIds = [ids["<|eot_id|>"], ...Format.idsOf(tokenizer, ["<|eom_id|>"])]
    const endIds = Format.idsOf(tokenizer, ["<|end_of_text|>"])
    const reading = { tokenizer, closeIds, endIds, skipped: ["<|python_tag|>"] }
    return Format.make(tokenizer, {
      name,
      markers: needed,
      closeIds,
      endIds,
      objection: makeObjection(options),
      writeStart: makeWriteStart(options),
      writeMessages,
      writeGenerationPrompt: (writer) => writer.scaffold(header("assistant"), outside(-1)),
      rewritesHistory: Retention.rewrites("all", Retention.isUser),
      close: Format.closeWith({ reasoning: "", turn: "<|eot_id|>", after: "" }),
      parser: (read) => LlamaParser.make(reading, read)
    })
  })
}

/** The chat format for the tokenizer of the program. Fails with `RendererError` when that lacks the markers. @category layers */
export const layer = (options: Options = {}): Layer.Layer<Renderer, RendererError, Tokenizer> =>
  Layer.effect(
    Renderer,
    Effect.flatMap(Tokenizer, (tokenizer) => make(tokenizer, options))
  )
