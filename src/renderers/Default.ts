/**
 * Any model's own Jinja chat template. Its text is what the template says, cut into tokens at the special tokens that the
 * template wrote; a bridge is checked against the template each time: it renders the conversation with and without the new
 * messages, and declines where the longer text does not begin with the shorter.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Message } from "../Message.ts"
import { Renderer, RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer, type TokenizerService } from "../Tokenizer.ts"
import type { CallSyntax } from "./internal/CallReader.ts"
import * as Format from "./internal/Format.ts"
import * as JinjaTemplate from "./internal/JinjaTemplate.ts"
import * as JsonCall from "./internal/JsonCall.ts"
import * as PairCall from "./internal/PairCall.ts"
import { parseWhole } from "./internal/parseWhole.ts"
import * as TemplateSpans from "./internal/TemplateSpans.ts"
import * as TurnParser from "./internal/TurnParser.ts"
import * as Writer from "./internal/Writer.ts"
import * as XmlElements from "./internal/XmlElements.ts"

const name = "default"

/** What is chosen about a conversation by template. @category model */
export const Config = Schema.Struct({
  /** what a template that asks for the day is told; "2024-07-26" by default, so that a run repeats */
  date: Schema.optional(Schema.String.pipe(Schema.pattern(/^\d{4}-\d\d-\d\d$/))),
  /** how calls are read: JSON or elements in `<tool_call>`, GLM's pairs, or not at all; by default as the template writes */
  toolParser: Schema.optional(Schema.Literal("json", "xml", "pairs", "none")),
  /** whether `<think>` is reasoning; by default where the template speaks of it */
  reasoning: Schema.optional(Schema.Boolean),
  /** "parity" makes special tokens of what messages spell, as the reference does; "ordinary" by default */
  specials: Schema.optional(Schema.Literal("ordinary", "parity")),
  /** variables of the template, such as enable_thinking */
  variables: Schema.optional(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
})

/** `Config` as it is given in code. @category model */
export type Options = typeof Config.Type

/** The model's template and what it calls its tokens. @category model */
export interface Source {
  readonly template: string
  readonly bosToken?: string | undefined
  readonly eosToken?: string | undefined
  /** further tokens that end a turn */
  readonly stopTokens?: ReadonlyArray<string> | undefined
}

const callsOf = (source: Source, options: Options): CallSyntax | undefined => {
  const [open, close] = ["<tool_call>", "</tool_call>"]
  const written = !source.template.includes(open)
    ? "none"
    : source.template.includes("<arg_key>")
      ? "pairs"
      : source.template.includes("<function=")
        ? "xml"
        : "json"
  const kind = options.toolParser ?? written
  if (kind === "json") return JsonCall.syntax(open, close)
  if (kind === "xml") return XmlElements.callSyntax
  return kind === "pairs" ? PairCall.syntax(open, close) : undefined
}

/** Left when the template is no Jinja, or no token ends a turn. @category constructors */
export const make = (
  tokenizer: TokenizerService,
  source: Source,
  options: Options = {}
): Either.Either<RendererService, RendererError> => {
  const compiled = JinjaTemplate.make(name, tokenizer, {
    template: source.template,
    bosToken: source.bosToken,
    eosToken: source.eosToken,
    date: options.date ?? "2024-07-26",
    variables: options.variables ?? {},
    specials: options.specials ?? "ordinary"
  })
  const stops = [source.eosToken, ...(source.stopTokens ?? [])].flatMap((one) => (one === undefined ? [] : [one]))
  const closeIds = [...new Set(Format.idsOf(tokenizer, stops))]
  if (closeIds.length === 0) {
    const reason = "no token that ends a turn is known; the tokenizer's configuration names it as eos_token"
    return Either.flatMap(compiled, () => Either.left(new RendererError({ renderer: name, reason })))
  }
  return Either.map(compiled, (template) => {
    const reasons = options.reasoning ?? source.template.includes("<think>")
    const takesReasoning = source.template.includes("reasoning_content")
    const format: TurnParser.TurnFormat = {
      tokenizer,
      closeIds,
      endIds: [],
      openIds: [],
      think: reasons ? { open: "<think>", close: "</think>" } : undefined,
      calls: callsOf(source, options),
      callClosesReasoning: true,
      lines: { aroundReasoning: 0, afterReasoning: 0, beforeCall: 0 },
      emptyReasoningIsNone: false
    }
    const parser: RendererService["parser"] = (read) => TurnParser.make(format, read)
    const split = Writer.splitterOf(tokenizer, [])
    const promptOf = (messages: ReadonlyArray<Message>, tools: JinjaTemplate.Rendering["tools"]): string => {
      const [closed, open] = [false, true].map((addGenerationPrompt) =>
        TemplateSpans.textOf(template.pieces({ messages, tools, addGenerationPrompt }))
      )
      return open!.startsWith(closed!) ? open!.slice(closed!.length) : ""
    }
    /** the spans of the messages from `from` on, counted from there, and of what follows them */
    const spansOf = (
      rendering: JinjaTemplate.Rendering,
      pieces: ReadonlyArray<JinjaTemplate.Piece>,
      from: number
    ): ReadonlyArray<TemplateSpans.Span> => {
      const { messages, tools } = rendering
      const text = TemplateSpans.textOf(pieces)
      const starts = TemplateSpans.starts(template, rendering, { closeIds, from })
      const spans = messages.slice(from).flatMap((message, index) => {
        const [start, end] = [starts[index]!, starts[index + 1]!]
        const before = messages.slice(0, from + index)
        const prompt = message.role === "assistant" && before.length > 0 ? promptOf(before, tools) : ""
        const closing = closedIn(pieces, { start, end, closeIds })
        return TemplateSpans.ofMessage(message, { index, text, start, end, prompt, closed: closing ?? end })
      })
      return [...spans, { start: starts.at(-1)!, part: Writer.scaffold }]
    }
    const check = (messages: ReadonlyArray<Message>) => {
      const objection = Format.generalObjection(messages) ?? (takesReasoning ? undefined : Format.noReasoning(messages))
      if (objection !== undefined) throw new RendererError({ renderer: name, reason: objection })
    }
    return {
      name,
      stopTokenIds: closeIds,
      render: (messages, { addGenerationPrompt = false, tools } = {}) => {
        check(messages)
        const rendering = { messages, tools, addGenerationPrompt }
        const pieces = template.pieces(rendering)
        const writer = Writer.make(tokenizer, split)
        TemplateSpans.write(writer, pieces, { spans: spansOf(rendering, pieces, 0), from: 0 })
        return writer.finish()
      },
      parse: (completionIds, read) => parseWhole(parser, completionIds, read),
      parser,
      bridge: (promptIds, completionIds, messages, { history, tools } = {}) => {
        const last = history?.at(-1)
        if (promptIds.length === 0 || completionIds.length === 0 || messages.length === 0) return undefined
        if (history === undefined || last?.role !== "assistant") return undefined
        if (messages.some(({ role }) => role === "assistant")) return undefined
        const stop = completionIds.findIndex((id) => closeIds.includes(id))
        if (stop >= 0 && stop + 1 < completionIds.length) return undefined
        // what is closed how is the template's own affair, which a cut in the middle of reasoning does not show
        const { reasoningComplete } = parseWhole(parser, completionIds, { promptIds, tools })
        if (reasoningComplete === false) return undefined
        return Either.getOrUndefined(
          Either.try(() => {
            check(history)
            const before = template.pieces({ messages: history, tools, addGenerationPrompt: false })
            const rendering = { messages: [...history, ...messages], tools, addGenerationPrompt: true }
            const after = template.pieces(rendering)
            const text = TemplateSpans.textOf(before)
            const close = before.findLast(({ id }) => id !== undefined && closeIds.includes(id))
            const cut = closedIn(before, { start: 0, end: text.length, closeIds })
            if (cut === undefined || close?.id === undefined) return undefined
            if (!TemplateSpans.textOf(after).startsWith(text)) return undefined
            const ended = completionIds.at(-1)!
            // a turn that ended otherwise than the template says would be followed by what the template never wrote
            if (stop >= 0 && ended !== close.id) return undefined
            const writer = Writer.make(tokenizer, split, [promptIds, completionIds])
            if (stop < 0) writer.special(close.id, Writer.scaffold)
            const spans = spansOf(rendering, after, history.length)
            TemplateSpans.write(writer, after, { spans, from: cut })
            return writer.finish()
          })
        )
      }
    }
  })
}

/** Behind the last token between two places that closes a turn. */
const closedIn = (
  pieces: ReadonlyArray<JinjaTemplate.Piece>,
  options: { readonly start: number; readonly end: number; readonly closeIds: ReadonlyArray<number> }
): number | undefined => {
  let at = 0
  let found: number | undefined
  for (const { id, text } of pieces) {
    const isInside = at >= options.start && at + text.length <= options.end
    at += text.length
    if (isInside && id !== undefined && options.closeIds.includes(id)) found = at
  }
  return found
}

/** A template for the tokenizer of the program. Fails with `RendererError` when it cannot be read. @category layers */
export const layer = (source: Source, options: Options = {}): Layer.Layer<Renderer, RendererError, Tokenizer> =>
  Layer.effect(
    Renderer,
    Effect.flatMap(Tokenizer, (tokenizer) => make(tokenizer, source, options))
  )
