/** The wire format of the Kimi K2 models: every message between `<|im_…|>` markers, calls with ids in a section. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Message, ToolSpec } from "../Message.ts"
import { Renderer, type RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer, type TokenizerService } from "../Tokenizer.ts"
import * as Format from "./internal/Format.ts"
import * as MarkedCall from "./internal/MarkedCall.ts"
import { pythonJson } from "./internal/pythonJson.ts"
import * as Retention from "./internal/Retention.ts"
import * as Tool from "./internal/Tool.ts"
import * as TurnParser from "./internal/TurnParser.ts"
import { given, outside, produced, type Writer } from "./internal/Writer.ts"

const name = "kimi-k2"

/** What is chosen about a Kimi K2 conversation. @category model */
export const Config = Schema.Struct({
  /** what the model is told that it is where there is no system message */
  identity: Schema.optional(Schema.String)
})

/** `Config` as it is given in code. @category model */
export type Options = typeof Config.Type

const section = { open: "<|tool_calls_section_begin|>", close: "<|tool_calls_section_end|>" } as const
const call = {
  begin: "<|tool_call_begin|>",
  separator: "<|tool_call_argument_begin|>",
  end: "<|tool_call_end|>"
} as const
const turns = ["<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>"] as const
const markers = [...turns, section.open, section.close, call.begin, call.separator, call.end] as const

/** Ids as the model writes them: "functions.NAME:NUMBER". */
const ownId = /^[^.]*\.(.+):\d+$/

const words: MarkedCall.Words = {
  section,
  ...call,
  inside: (head, tail) => {
    const id = head.trim()
    return { name: ownId.exec(id)?.[1], id: id === "" ? undefined : id, arguments: tail }
  }
}

/** The ids of all calls as the model would write them, by the ids that they have. */
const idsOf = (messages: ReadonlyArray<Message>): ReadonlyMap<string, string> => {
  const found = new Map<string, string>()
  let count = 0
  for (const message of messages) {
    for (const { id, name: tool } of message.role === "assistant" ? (message.toolCalls ?? []) : []) {
      found.set(id, ownId.test(id) ? id : `functions.${tool}:${count}`)
      count++
    }
  }
  return found
}

const makeWriteStart =
  (identity: string): Format.Dialect["writeStart"] =>
  (writer: Writer, messages: ReadonlyArray<Message>, tools: ReadonlyArray<ToolSpec>): number => {
    if (tools.length > 0) {
      writer.scaffold("<|im_system|>tool_declare<|im_middle|>", outside(-1))
      writer.text(pythonJson(tools.map(Tool.envelope), { sortKeys: true, separators: [",", ":"] }), outside(-1))
      writer.scaffold("<|im_end|>", outside(-1))
    }
    if (messages[0]?.role !== "system") {
      writer.scaffold("<|im_system|>system<|im_middle|>", outside(-1))
      writer.text(identity, outside(-1))
      writer.scaffold("<|im_end|>\n", outside(-1))
    }
    return 0
  }

const writeMessages: Format.Dialect["writeMessages"] = (writer, messages, { from }) => {
  const ids = idsOf(messages)
  for (const [index, message] of messages.entries()) {
    if (index < from) continue
    if (message.role === "assistant") {
      const part = produced(index)
      writer.scaffold("<|im_assistant|>assistant<|im_middle|>", outside(index))
      writer.text(message.content ?? "", part)
      const calls = message.toolCalls ?? []
      if (calls.length > 0) {
        writer.scaffold(section.open, part)
        for (const { arguments: text, id } of calls) {
          writer.scaffold(call.begin, part)
          writer.text(ids.get(id) ?? id, part)
          writer.scaffold(call.separator, part)
          writer.text(text, part)
          writer.scaffold(call.end, part)
        }
        writer.scaffold(section.close, part)
      }
      writer.scaffold("<|im_end|>", part)
    } else if (message.role === "tool") {
      writer.scaffold("<|im_system|>", outside(index))
      writer.text(message.name ?? "tool", outside(index))
      writer.scaffold("<|im_middle|>", outside(index))
      writer.text(`## Return of ${ids.get(message.toolCallId) ?? message.toolCallId}\n`, outside(index))
      writer.text(message.content, given(index))
      writer.scaffold("<|im_end|>", outside(index))
    } else {
      writer.scaffold(`<|im_${message.role}|>${message.role}<|im_middle|>`, outside(index))
      writer.text(message.content, given(index))
      writer.scaffold("<|im_end|>", outside(index))
    }
  }
}

/** Left when the vocabulary lacks one of the format's special tokens. @category constructors */
export const make = (
  tokenizer: TokenizerService,
  options: Options = {}
): Either.Either<RendererService, RendererError> =>
  Either.map(Format.requireIds(name, tokenizer, markers), (ids) => {
    const closeIds = [ids["<|im_end|>"]]
    const endIds = Format.idsOf(tokenizer, ["[EOS]"])
    const format: TurnParser.TurnFormat = {
      tokenizer,
      closeIds,
      endIds,
      openIds: [ids["<|im_assistant|>"], ids["<|im_system|>"], ids["<|im_user|>"]],
      think: undefined,
      calls: MarkedCall.syntax(words),
      callClosesReasoning: true,
      lines: { aroundReasoning: 0, afterReasoning: 0, beforeCall: 0 },
      emptyReasoningIsNone: true
    }
    return Format.make(tokenizer, {
      name,
      markers,
      closeIds,
      endIds,
      objection: Format.noReasoning,
      writeStart: makeWriteStart(options.identity ?? "You are Kimi, an AI assistant created by Moonshot AI."),
      writeMessages,
      writeGenerationPrompt: (writer) => writer.scaffold("<|im_assistant|>assistant<|im_middle|>", outside(-1)),
      rewritesHistory: Retention.rewrites("all", Retention.isUser),
      close: Format.closeWith({ reasoning: "", turn: "<|im_end|>", after: "" }),
      parser: (read) => TurnParser.make(format, read)
    })
  })

/** The chat format for the tokenizer of the program. Fails with `RendererError` when that lacks the markers. @category layers */
export const layer = (options: Options = {}): Layer.Layer<Renderer, RendererError, Tokenizer> =>
  Layer.effect(
    Renderer,
    Effect.flatMap(Tokenizer, (tokenizer) => make(tokenizer, options))
  )
