/**
 * The harmony format of the gpt-oss models: every message says its role, its channel and its recipient. Reasoning is the
 * analysis channel, calls go to functions in the commentary channel, answers are in the final channel.
 *
 * The date that the model is told is part of the configuration and never today's, so that a run repeats.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { AssistantMessage, Message, ToolSpec } from "../Message.ts"
import { Renderer, type RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer, type TokenizerService } from "../Tokenizer.ts"
import * as Format from "./internal/Format.ts"
import * as HarmonyParser from "./internal/HarmonyParser.ts"
import * as HarmonyTools from "./internal/HarmonyTools.ts"
import * as Retention from "./internal/Retention.ts"
import { given, outside, produced, scaffold, toolNameOf, type Writer } from "./internal/Writer.ts"

const name = "gpt-oss"

/** What is chosen about a gpt-oss conversation. @category model */
export const Config = Schema.Struct({
  /** what the model is told that today is, as "2025-08-05", which is the default */
  date: Schema.optional(Schema.String),
  /** how much the model is asked to reason; "medium" by default */
  reasoningEffort: Schema.optional(Schema.Literal("low", "medium", "high")),
  /** false keeps the analysis of all turns, in full renders too; true by default */
  autoDropAnalysis: Schema.optional(Schema.Boolean),
  /** by default "all" when analysis is never dropped, else "tool_cycle" */
  thinkingRetention: Retention.option
})

/** `Config` as it is given in code. @category model */
export type Options = typeof Config.Type

const channel = (of: "analysis" | "final" | "commentary") => `<|channel|>${of}<|message|>`

const makeWriteStart =
  ({ date = "2025-08-05", reasoningEffort = "medium" }: Options): Format.Dialect["writeStart"] =>
  (writer: Writer, messages: ReadonlyArray<Message>, tools: ReadonlyArray<ToolSpec>): number => {
    const toTools = tools.length > 0 ? "\nCalls to these tools must go to the commentary channel: 'functions'." : ""
    writer.scaffold("<|start|>system<|message|>", outside(-1))
    writer.text(
      "You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\n" +
        `Current date: ${date}\n\nReasoning: ${reasoningEffort}\n\n` +
        "# Valid channels: analysis, commentary, final. Channel must be included for every message." +
        toTools,
      outside(-1)
    )
    writer.scaffold("<|end|>", outside(-1))
    const first = messages[0]
    const owner = first?.role === "system" ? 0 : -1
    if (owner < 0 && tools.length === 0) return 0
    writer.scaffold("<|start|>developer<|message|>", outside(owner))
    if (first?.role === "system") {
      writer.text("# Instructions\n\n", outside(0))
      writer.text(first.content, given(0))
    }
    if (tools.length > 0) {
      writer.text(`${owner < 0 ? "" : "\n\n"}${HarmonyTools.namespaceOf(tools)}`, outside(owner))
    }
    writer.scaffold("<|end|>", outside(owner))
    return owner + 1
  }

const hasCalls = (message: Message): boolean => message.role === "assistant" && (message.toolCalls ?? []).length > 0

const writeAssistant = (
  writer: Writer,
  message: AssistantMessage,
  options: { readonly index: number; readonly keepsAnalysis: boolean; readonly isLast: boolean }
) => {
  const { index, isLast, keepsAnalysis } = options
  const part = produced(index)
  const calls = message.toolCalls ?? []
  const content = message.content ?? ""
  // a prompt ends with the header of the first message of the turn
  let isFirst = true
  const open = (words: string) => {
    writer.scaffold("<|start|>assistant", isFirst ? outside(index) : part)
    writer.scaffold(words, isFirst && words === channel("analysis") ? outside(index) : part)
    isFirst = false
  }
  if (message.reasoningContent !== undefined && message.reasoningContent !== "" && keepsAnalysis) {
    open(channel("analysis"))
    writer.text(message.reasoningContent, part)
    writer.scaffold("<|end|>", part)
  }
  if (content !== "" || calls.length === 0) {
    open(channel(calls.length === 0 ? "final" : "commentary"))
    writer.text(content, part)
    // what ends a turn is "return" when it is written and "end" when it is history, which no model writes
    if (calls.length > 0) writer.scaffold("<|end|>", part)
    else writer.scaffold(isLast ? "<|return|>" : "<|end|>", isLast ? part : outside(index))
  }
  for (const call of calls) {
    open(` to=functions.${call.name}${channel("commentary")}`)
    writer.text(call.arguments, part)
    writer.scaffold("<|call|>", part)
  }
}

const makeWriteMessages =
  (drops: boolean): Format.Dialect["writeMessages"] =>
  (writer, messages, { from, sampled }) => {
    const lastAnswer = messages.findLastIndex((message) => message.role === "assistant" && !hasCalls(message))
    for (const [index, message] of messages.entries()) {
      if (index < from) continue
      if (message.role === "assistant") {
        const keepsAnalysis = !drops || (hasCalls(message) && index > lastAnswer)
        writeAssistant(writer, message, { index, keepsAnalysis, isLast: index === messages.length - 1 })
      } else if (message.role === "tool") {
        const tool = toolNameOf(messages, index) ?? sampled?.callNames.get(message.toolCallId) ?? ""
        writer.scaffold("<|start|>", outside(index))
        writer.text(`functions.${tool} to=assistant`, outside(index))
        writer.scaffold(channel("commentary"), outside(index))
        writer.text(message.content, given(index))
        writer.scaffold("<|end|>", outside(index))
      } else {
        const role = message.role === "system" ? "developer" : message.role
        writer.scaffold(`<|start|>${role}<|message|>`, outside(index))
        if (message.role === "system") writer.text("# Instructions\n\n", outside(index))
        writer.text(message.content, given(index))
        writer.scaffold("<|end|>", outside(index))
      }
    }
  }

/** Left when the vocabulary lacks one of the format's special tokens. @category constructors */
export const make = (
  tokenizer: TokenizerService,
  options: Options = {}
): Either.Either<RendererService, RendererError> => {
  const needed = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>", "<|call|>"] as const
  const drops = options.autoDropAnalysis ?? true
  const chosen = Retention.choose(name, options.thinkingRetention, !drops, false)
  return Either.flatMap(Format.requireIds(name, tokenizer, needed), (ids) =>
    Either.map(chosen, (retention) => {
      const closeIds = [ids["<|return|>"], ids["<|call|>"]]
      const endIds: ReadonlyArray<number> = []
      const reading = { tokenizer, returnId: ids["<|return|>"], callId: ids["<|call|>"], endIds }
      return Format.make(tokenizer, {
        name,
        markers: HarmonyParser.markers,
        closeIds,
        endIds,
        objection: (messages) => {
          const nameless = messages.findIndex(
            (message, index) => message.role === "tool" && toolNameOf(messages, index) === undefined
          )
          // a bridge knows the calls of the turn that it extends
          return nameless < 0 || !messages.some(({ role }) => role === "assistant")
            ? undefined
            : `message ${nameless} is the result of no call before it, and has no name; the format needs the tool's name`
        },
        writeStart: makeWriteStart(options),
        writeMessages: makeWriteMessages(drops),
        writeGenerationPrompt: (writer) => writer.scaffold(`<|start|>assistant${channel("analysis")}`, outside(-1)),
        rewritesHistory: Retention.rewrites(retention, Retention.isUser),
        close: (writer, { callNames, completionIds, stop }, messages) => {
          const named = messages.every(
            (message) => message.role !== "tool" || message.name !== undefined || callNames.has(message.toolCallId)
          )
          const at = completionIds.findLastIndex((id) =>
            [ids["<|start|>"], ids["<|message|>"], ids["<|end|>"]].includes(id)
          )
          const last = completionIds[at]
          // a turn that was cut inside a header has no message to close
          if (!named || (stop === undefined && last === ids["<|start|>"])) return false
          const isClosed = stop !== undefined || (last === ids["<|end|>"] && at === completionIds.length - 1)
          if (!isClosed) writer.scaffold("<|end|>", scaffold)
          return true
        },
        parser: (read) => HarmonyParser.make(reading, read)
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
