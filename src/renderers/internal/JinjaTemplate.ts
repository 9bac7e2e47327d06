/**
 * A model's own chat template, rendered as text that says which of its special tokens are the template's: those that a
 * message spells are text, so that no caller mints one.
 */
import { Template } from "@huggingface/jinja"
import * as Either from "effect/Either"
import type { Message, ToolSpec } from "../../Message.ts"
import { RendererError } from "../../Renderer.ts"
import type { TokenizerService } from "../../Tokenizer.ts"
import { isJson } from "./JsonCall.ts"
import * as Tool from "./Tool.ts"

/** A stretch of the rendering: text, or one special token. @category model */
export interface Piece {
  readonly text: string
  readonly id: number | undefined
}

/** @category model */
export interface Options {
  readonly template: string
  /** spelled in the template as `bos_token` and `eos_token` */
  readonly bosToken?: string | undefined
  readonly eosToken?: string | undefined
  /** what a template that asks for the day is told, as "2024-07-26" */
  readonly date: string
  /** further variables of the template */
  readonly variables: Readonly<Record<string, unknown>>
  /** "parity" makes special tokens of what messages spell, as the reference implementation does */
  readonly specials: "ordinary" | "parity"
}

/** @category model */
export interface Rendering {
  readonly messages: ReadonlyArray<Message>
  readonly tools?: ReadonlyArray<ToolSpec> | undefined
  readonly addGenerationPrompt: boolean
}

/** Spellings of all added tokens of a vocabulary, the longest first. */
const spellingsOf = (tokenizer: TokenizerService): ReadonlyArray<string> => {
  const found: Array<string> = []
  for (let id = 0; id < tokenizer.vocabularySize; id++) {
    if (!tokenizer.isSpecial(id)) continue
    const text = tokenizer.decode([id])
    if (text.length > 1 && tokenizer.special(text) === id) found.push(text)
  }
  return found.sort((left, right) => right.length - left.length)
}

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
const longMonths = [
  ...["January", "February", "March", "April", "May", "June", "July"],
  ...["August", "September", "October", "November", "December"]
]

const pinnedDate = "pinned_strftime"

/** The pinned day in the parts that templates ask for. */
const strftime = (date: string) => {
  const [year = "", month = "", day = ""] = date.split("-")
  const index = Number(month) - 1
  const parts: Readonly<Record<string, string | undefined>> = {
    ...{ Y: year, m: month, d: day, b: months[index], B: longMonths[index], H: "00", M: "00", S: "00" }
  }
  return (format: string) => format.replace(/%([A-Za-z])/g, (whole, part: string) => parts[part] ?? whole)
}

/** A private character that the conversation lacks, to break the spelling of special tokens inside of messages. */
const breakerFor = (rendering: Rendering): string => {
  const text = JSON.stringify([rendering.messages, rendering.tools ?? []])
  let point = 0xf0000
  while (text.includes(String.fromCodePoint(point))) point++
  return String.fromCodePoint(point)
}

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")

/** @category model */
export interface JinjaTemplate {
  /** @throws RendererError when the template refuses the conversation or cannot be run */
  readonly pieces: (rendering: Rendering) => ReadonlyArray<Piece>
}

/** Left when the template is no Jinja. @category constructors */
export const make = (
  renderer: string,
  tokenizer: TokenizerService,
  options: Options
): Either.Either<JinjaTemplate, RendererError> =>
  Either.map(
    Either.try({
      // the engine's own function tells today's date, and cannot be replaced by that name
      try: () => new Template(options.template.replaceAll("strftime_now", pinnedDate)),
      catch: (cause) =>
        new RendererError({ renderer, reason: `the chat template cannot be read: ${(cause as Error).message}` })
    }),
    (template) => {
      const spellings = spellingsOf(tokenizer)
      const pattern = spellings.length === 0 ? undefined : new RegExp(`(${spellings.map(escaped).join("|")})`, "g")
      const wordsOnly = options.specials === "ordinary"
      // where the template tells strings from objects the text can stay as it was written
      const takesText = /arguments is string/.test(options.template)
      const guarded = (text: string, breaker: string): string =>
        pattern === undefined || !wordsOnly
          ? text
          : text.replace(pattern, (spelled) => `${spelled.slice(0, 1)}${breaker}${spelled.slice(1)}`)
      const forTemplate = (breaker: string) => (message: Message) => {
        if (message.role === "tool") {
          const name = message.name === undefined ? {} : { name: guarded(message.name, breaker) }
          return {
            role: "tool",
            content: guarded(message.content, breaker),
            tool_call_id: guarded(message.toolCallId, breaker),
            ...name
          }
        }
        if (message.role !== "assistant") return { role: message.role, content: guarded(message.content, breaker) }
        const calls = message.toolCalls ?? []
        const argumentsOf = (text: string): unknown => (takesText || !isJson(text) ? text : JSON.parse(text))
        return {
          role: "assistant",
          content: message.content === null ? "" : guarded(message.content ?? "", breaker),
          ...(message.reasoningContent === undefined
            ? {}
            : { reasoning_content: guarded(message.reasoningContent, breaker) }),
          ...(calls.length === 0
            ? {}
            : {
                tool_calls: calls.map(({ arguments: text, id, name }) => ({
                  id: guarded(id, breaker),
                  type: "function",
                  function: { name: guarded(name, breaker), arguments: argumentsOf(guarded(text, breaker)) }
                }))
              })
        }
      }
      const textOf = ({ addGenerationPrompt, messages, tools }: Rendering, breaker: string): string => {
        const hasTools = tools !== undefined && tools.length > 0
        const variables = {
          ...options.variables,
          ...(options.bosToken === undefined ? { bos_token: "" } : { bos_token: options.bosToken }),
          ...(options.eosToken === undefined ? { eos_token: "" } : { eos_token: options.eosToken }),
          [pinnedDate]: strftime(options.date),
          messages: messages.map(forTemplate(breaker)),
          ...(hasTools
            ? {
                // members that are undefined would be rendered as such
                tools: tools.map((tool): unknown => JSON.parse(guarded(JSON.stringify(Tool.envelope(tool)), breaker)))
              }
            : {}),
          add_generation_prompt: addGenerationPrompt
        }
        return Either.getOrThrowWith(
          Either.try(() => template.render(variables)),
          (cause) => {
            const { error } = cause as { readonly error?: unknown }
            const reason = String(error ?? cause).replace(/^Error: /, "")
            return new RendererError({ renderer, reason: `the chat template refuses the conversation: ${reason}` })
          }
        )
      }
      return {
        pieces: (rendering) => {
          const breaker = breakerFor(rendering)
          const text = textOf(rendering, breaker)
          const parts = pattern === undefined ? [text] : text.split(pattern)
          return parts.flatMap((part, index): ReadonlyArray<Piece> => {
            if (index % 2 === 1) return [{ text: part, id: tokenizer.special(part) }]
            return part === "" ? [] : [{ text: part.replaceAll(breaker, ""), id: undefined }]
          })
        }
      }
    }
  )
