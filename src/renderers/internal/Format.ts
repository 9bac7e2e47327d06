/**
 * What all formats share: rendering through one writer, parsing through one machine, and the bridge. A format says how its
 * messages are written, how a turn is read, and how one that was sampled is closed.
 *
 * A bridge declines, with undefined, where it cannot extend the exact ids: without a prompt or new messages; where an
 * assistant's turn is among them, whose tokens nobody sampled; where new messages make the format rewrite history; where
 * ids follow the first stop, which are none of the turn's; where reasoning was stopped midway by a sampled stop; and where
 * nothing was sampled and the prompt does not end with a closed turn.
 */
import * as Either from "effect/Either"
import type { Message, ToolSpec } from "../../Message.ts"
import { type Rendered, RendererError, type RendererService, type RenderOptions } from "../../Renderer.ts"
import type { TokenizerService } from "../../Tokenizer.ts"
import { parseWhole } from "./parseWhole.ts"
import * as Writer from "./Writer.ts"

/** A turn as it was sampled, to be closed. @category model */
export interface Sampled {
  /** the stop id that it ends with, if it does */
  readonly stop: number | undefined
  /** it was cut inside its reasoning */
  readonly isReasoning: boolean
  readonly completionIds: Int32Array
  /** tool calls of the turn by their ids */
  readonly callNames: ReadonlyMap<string, string>
}

/** What one format decides. @category model */
export interface Dialect {
  readonly name: string
  /** special tokens as the format's words spell them; those that the vocabulary lacks are text */
  readonly markers: ReadonlyArray<string>
  readonly closeIds: ReadonlyArray<number>
  /** other ids that end a turn */
  readonly endIds: ReadonlyArray<number>
  /** why the format cannot say this, if it cannot */
  readonly objection: (messages: ReadonlyArray<Message>, tools: ReadonlyArray<ToolSpec>) => string | undefined
  /** Writes what stands before the messages, with the messages that are part of it; gives how many these are. */
  readonly writeStart: (
    writer: Writer.Writer,
    messages: ReadonlyArray<Message>,
    tools: ReadonlyArray<ToolSpec>
  ) => number
  /** Writes the messages from `from` on; `sampled` is the turn before them where they extend one. */
  readonly writeMessages: (
    writer: Writer.Writer,
    messages: ReadonlyArray<Message>,
    options: { readonly from: number; readonly sampled: Sampled | undefined }
  ) => void
  readonly writeGenerationPrompt: (writer: Writer.Writer, messages: ReadonlyArray<Message>) => void
  /** whether new messages make the format rewrite the turns before them */
  readonly rewritesHistory: (messages: ReadonlyArray<Message>) => boolean
  /** Closes a sampled turn before `messages`; false where that cannot be done. */
  readonly close: (writer: Writer.Writer, sampled: Sampled, messages: ReadonlyArray<Message>) => boolean
  readonly parser: RendererService["parser"]
}

const roles: ReadonlyArray<string> = ["system", "user", "assistant", "tool"]

/** What a body that is no text holds, by the kinds of its parts. */
const partsOf = (content: unknown): string => {
  const parts = Array.isArray(content) ? content : [content]
  const kinds = parts.map((part: unknown) => (part as { readonly type?: unknown } | null)?.type ?? typeof part)
  return [...new Set(kinds)].join(", ")
}

/** Why no format can write these messages, if none can. @category getters */
export const generalObjection = (messages: ReadonlyArray<Message>): string | undefined => {
  if (messages.length === 0) return "there are no messages to render"
  for (const [index, { content, role }] of messages.entries()) {
    if (!roles.includes(role)) return `message ${index} has the unknown role ${JSON.stringify(role)}`
    if (typeof content !== "string" && (content ?? undefined) !== undefined)
      return `message ${index} (${role}) holds what is no text (${partsOf(content)}); only text can be rendered: pass its content as one string`
  }
  return undefined
}

/** The ids of a format's special tokens by their spelling, or the first that the vocabulary lacks. @category constructors */
export const requireIds = <const Names extends ReadonlyArray<string>>(
  renderer: string,
  tokenizer: TokenizerService,
  names: Names
): Either.Either<Readonly<Record<Names[number], number>>, RendererError> => {
  const missing = names.find((name) => tokenizer.special(name) === undefined)
  if (missing !== undefined) {
    return Either.left(
      new RendererError({ renderer, reason: `the tokenizer has no special token ${missing}; choose another renderer` })
    )
  }
  return Either.right(
    Object.fromEntries(names.map((name) => [name, tokenizer.special(name)!])) as Record<Names[number], number>
  )
}

/** Ids of those spellings that the vocabulary has. @category getters */
export const idsOf = (tokenizer: TokenizerService, names: ReadonlyArray<string>): ReadonlyArray<number> =>
  names.flatMap((name) => tokenizer.special(name) ?? [])

/** @category constructors */
export const make = (tokenizer: TokenizerService, dialect: Dialect): RendererService => {
  const split = Writer.splitterOf(tokenizer, dialect.markers)
  const stopTokenIds = [...dialect.closeIds, ...dialect.endIds]
  const { parser } = dialect
  const render = (messages: ReadonlyArray<Message>, options: RenderOptions = {}): Rendered => {
    const tools = options.tools ?? []
    const objection = generalObjection(messages) ?? dialect.objection(messages, tools)
    if (objection !== undefined) throw new RendererError({ renderer: dialect.name, reason: objection })
    const writer = Writer.make(tokenizer, split)
    const from = dialect.writeStart(writer, messages, tools)
    dialect.writeMessages(writer, messages, { from, sampled: undefined })
    if (options.addGenerationPrompt === true) dialect.writeGenerationPrompt(writer, messages)
    return writer.finish()
  }
  const bridge: RendererService["bridge"] = (promptIds, completionIds, messages, options) => {
    if (promptIds.length === 0 || messages.some(({ role }) => role === "assistant")) return undefined
    if ((generalObjection(messages) ?? dialect.objection(messages, [])) !== undefined) return undefined
    if (dialect.rewritesHistory(messages)) return undefined
    const tape = completionIds.length === 0 ? promptIds : completionIds
    const at = tape === promptIds ? tape.length - 1 : tape.findIndex((id) => stopTokenIds.includes(id))
    const stop = stopTokenIds.find((id) => id === tape[at])
    if (stop === undefined ? completionIds.length === 0 : at + 1 < tape.length) return undefined
    const { reasoningComplete, toolCalls } = parseWhole(parser, completionIds, { promptIds, tools: options?.tools })
    const isReasoning = completionIds.length > 0 && reasoningComplete === false
    if (isReasoning && stop !== undefined) return undefined
    const callNames = new Map(toolCalls.flatMap(({ id, name }) => (name === undefined ? [] : [[id, name] as const])))
    const sampled: Sampled = { stop, isReasoning, completionIds, callNames }
    const writer = Writer.make(tokenizer, split, [promptIds, completionIds])
    if (!dialect.close(writer, sampled, messages)) return undefined
    dialect.writeMessages(writer, messages, { from: 0, sampled })
    dialect.writeGenerationPrompt(writer, messages)
    return writer.finish()
  }
  return {
    name: dialect.name,
    stopTokenIds,
    render,
    parse: (completionIds, options) => parseWhole(parser, completionIds, options),
    parser,
    bridge
  }
}

/** Why a format that has no place for reasoning cannot say these messages, if one has some. @category checks */
export const noReasoning = (messages: ReadonlyArray<Message>): string | undefined => {
  const index = messages.findIndex((message) => message.role === "assistant" && message.reasoningContent !== undefined)
  return index < 0
    ? undefined
    : `message ${index} has reasoning, which this format has no place for; leave it out or put it into the content`
}

/** Closes a turn: reasoning that was cut with `reasoning`, a turn without its end with `turn`, and then `after`. @category writing */
export const closeWith =
  (words: { readonly reasoning: string; readonly turn: string; readonly after: string }): Dialect["close"] =>
  (writer, { isReasoning, stop }) => {
    if (isReasoning) writer.scaffold(words.reasoning, Writer.scaffold)
    if (stop === undefined) writer.scaffold(words.turn, Writer.scaffold)
    writer.scaffold(words.after, Writer.scaffold)
    return true
  }
