/**
 * The wire formats of DeepSeek V3 and R1. A conversation's tools are never rendered: who wants them known says so in the
 * system message. V3 has no place for reasoning; R1 opens it in the prompt and drops it from every earlier turn.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { AssistantMessage, Message } from "../Message.ts"
import { Renderer, type RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer, type TokenizerService } from "../Tokenizer.ts"
import * as Format from "./internal/Format.ts"
import * as MarkedCall from "./internal/MarkedCall.ts"
import * as Retention from "./internal/Retention.ts"
import * as TurnParser from "./internal/TurnParser.ts"
import { given, outside, produced, type Writer } from "./internal/Writer.ts"

/** What is chosen about a DeepSeek conversation. @category model */
export const Config = Schema.Struct({
  /** "v3" by default */
  version: Schema.optional(Schema.Literal("v3", "r1"))
})

/** `Config` as it is given in code. @category model */
export type Options = typeof Config.Type

const bos = "<｜begin▁of▁sentence｜>"
const eos = "<｜end▁of▁sentence｜>"
const user = "<｜User｜>"
const assistant = "<｜Assistant｜>"
const calls = { open: "<｜tool▁calls▁begin｜>", close: "<｜tool▁calls▁end｜>" } as const
const call = { open: "<｜tool▁call▁begin｜>", close: "<｜tool▁call▁end｜>" } as const
const outputs = { open: "<｜tool▁outputs▁begin｜>", close: "<｜tool▁outputs▁end｜>" } as const
const output = { open: "<｜tool▁output▁begin｜>", close: "<｜tool▁output▁end｜>" } as const
const separator = "<｜tool▁sep｜>"
const markers = [
  ...[bos, eos, user, assistant, separator],
  ...[calls, call, outputs, output].flatMap(({ close, open }) => [open, close])
] as const

const words: MarkedCall.Words = {
  section: calls,
  begin: call.open,
  separator,
  end: call.close,
  // the name on a line of its own, then JSON in a fence
  inside: (_, tail, isWhole) => {
    const line = tail.indexOf("\n")
    if (line < 0) return { name: isWhole ? tail.trim() : undefined, arguments: "" }
    const name = tail.slice(0, line).trim()
    const rest = tail.slice(line + 1)
    const fence = "```json\n"
    if (!isWhole && fence.startsWith(rest)) return { name, arguments: "" }
    const text = rest.startsWith(fence) ? rest.slice(fence.length) : rest
    return { name, arguments: text.replace(isWhole ? /\n```\s*$/ : /\n`{0,3}\s*$/, "") }
  }
}

const writeCalls = (writer: Writer, { toolCalls = [] }: AssistantMessage, index: number) => {
  if (toolCalls.length === 0) return
  const part = produced(index)
  writer.scaffold(calls.open, part)
  for (const [order, { arguments: text, name }] of toolCalls.entries()) {
    if (order > 0) writer.text("\n", part)
    writer.scaffold(`${call.open}function${separator}`, part)
    writer.text(`${name}\n\`\`\`json\n${text}\n\`\`\``, part)
    writer.scaffold(call.close, part)
  }
  writer.scaffold(calls.close, part)
}

const makeWriteMessages =
  (reasons: boolean): Format.Dialect["writeMessages"] =>
  (writer, messages, { from }) => {
    for (const [index, message] of messages.entries()) {
      if (index < from || message.role === "system") continue
      const isAfterTool = messages[index - 1]?.role === "tool"
      if (message.role === "user") {
        writer.scaffold(user, outside(index))
        writer.text(message.content, given(index))
      } else if (message.role === "tool") {
        writer.scaffold(isAfterTool ? `\n${output.open}` : outputs.open + output.open, outside(index))
        writer.text(message.content, given(index))
        const isLast = messages[index + 1]?.role !== "tool"
        writer.scaffold(output.close + (isLast ? outputs.close : ""), outside(index))
      } else {
        const reasoning = message.reasoningContent ?? ""
        const keeps = reasons && reasoning !== "" && index === messages.length - 1
        // after results the model goes on without a marker
        if (!isAfterTool) writer.scaffold(assistant, outside(index))
        if (keeps) {
          // the prompt opens the reasoning
          writer.scaffold("<think>\n", outside(index))
          writer.text(`${reasoning}\n`, produced(index))
          writer.scaffold("</think>\n\n", produced(index))
        }
        writer.text(message.content ?? "", produced(index))
        writeCalls(writer, message, index)
        writer.scaffold(eos, produced(index))
      }
    }
  }

/** The system messages at the front, in one text. */
const writeStart: Format.Dialect["writeStart"] = (writer, messages) => {
  const count = messages.findIndex(({ role }) => role !== "system")
  const leading = count < 0 ? messages.length : count
  writer.scaffold(bos, outside(leading > 0 ? 0 : -1))
  messages.slice(0, leading).forEach((message: Message, index) => {
    if (index > 0) writer.text("\n\n", outside(index))
    writer.text(message.content ?? "", given(index))
  })
  return leading
}

/** Left when the vocabulary lacks one of the format's special tokens. @category constructors */
export const make = (
  tokenizer: TokenizerService,
  options: Options = {}
): Either.Either<RendererService, RendererError> => {
  const { version = "v3" } = options
  const name = `deepseek-${version}`
  const reasons = version === "r1"
  return Either.map(Format.requireIds(name, tokenizer, markers), (ids) => {
    const closeIds = [ids[eos]]
    const format: TurnParser.TurnFormat = {
      tokenizer,
      closeIds,
      endIds: [],
      openIds: [ids[user], ids[assistant], ids[outputs.close]],
      think: reasons ? { open: "<think>", close: "</think>" } : undefined,
      calls: MarkedCall.syntax(words),
      callClosesReasoning: false,
      lines: { aroundReasoning: 1, afterReasoning: 2, beforeCall: 0 },
      emptyReasoningIsNone: true
    }
    return Format.make(tokenizer, {
      name,
      markers: reasons ? [...markers, "<think>", "</think>"] : markers,
      closeIds,
      endIds: [],
      objection: (messages) => {
        const first = messages.findIndex(({ role }) => role !== "system")
        const late = messages.findIndex(({ role }, index) => role === "system" && first >= 0 && index > first)
        if (late >= 0) return `message ${late} is a system message; the format has them at the beginning alone`
        return reasons ? undefined : Format.noReasoning(messages)
      },
      writeStart,
      writeMessages: makeWriteMessages(reasons),
      writeGenerationPrompt: (writer, messages) => {
        if (messages.at(-1)?.role === "tool") return
        writer.scaffold(reasons ? `${assistant}<think>\n` : assistant, outside(-1))
      },
      // R1's template takes the reasoning of every earlier turn away
      rewritesHistory: reasons ? () => true : Retention.rewrites("all", Retention.isUser),
      close: Format.closeWith({ reasoning: "", turn: eos, after: "" }),
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
