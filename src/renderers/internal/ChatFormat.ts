/**
 * What the ChatML family shares: the special ids of a vocabulary, the frame of a turn, the tool block, and the bridge.
 * A format adds how it writes its messages.
 */
import * as Either from "effect/Either"
import type { AssistantMessage, Message, ToolSpec } from "../../Message.ts"
import { type Rendered, RendererError, type RendererService, type RenderOptions } from "../../Renderer.ts"
import type { TokenizerService } from "../../Tokenizer.ts"
import * as JsonCall from "./JsonCall.ts"
import { parseWhole } from "./parseWhole.ts"
import { pythonJson } from "./pythonJson.ts"
import * as Runs from "./Runs.ts"
import * as TurnParser from "./TurnParser.ts"

/** @category model */
export interface Ids {
  readonly turnOpen: number
  readonly turnClose: number
  readonly endOfText: number | undefined
  /** undefined when the vocabulary lacks one of the two */
  readonly think: TurnParser.Pair | undefined
  readonly toolCall: TurnParser.Pair | undefined
}

const pair = (tokenizer: TokenizerService, name: string): TurnParser.Pair | undefined => {
  const [open, close] = [`<${name}>`, `</${name}>`]
  return tokenizer.special(open) === undefined || tokenizer.special(close) === undefined ? undefined : { open, close }
}

/** @category constructors */
export const readIds = (renderer: string, tokenizer: TokenizerService): Either.Either<Ids, RendererError> => {
  const turnOpen = tokenizer.special("<|im_start|>")
  const turnClose = tokenizer.special("<|im_end|>")
  if (turnOpen === undefined || turnClose === undefined) {
    const missing = turnOpen === undefined ? "<|im_start|>" : "<|im_end|>"
    return Either.left(
      new RendererError({ renderer, reason: `the tokenizer has no special token ${missing}; choose another renderer` })
    )
  }
  return Either.right({
    turnOpen,
    turnClose,
    endOfText: tokenizer.special("<|endoftext|>"),
    think: pair(tokenizer, "think"),
    toolCall: pair(tokenizer, "tool_call")
  })
}

/** Writes into one rendering; `message` is the index that its tokens are attributed to. @category model */
export interface Writer {
  readonly ids: Ids
  readonly runs: Runs.Runs
  /** template text, in which the markers that the vocabulary has are special tokens */
  readonly scaffold: (text: string, part: Runs.Part) => void
  readonly openTurn: (role: string, message: number) => void
  /** `sampled` when a model would have ended the turn itself */
  readonly closeTurn: (message: number, options: { readonly sampled: boolean }) => void
  /** the turn of a message that is nothing but its text */
  readonly turn: (role: string, text: string, message: number) => void
  readonly toolBlock: (tools: ReadonlyArray<ToolSpec>, message: number) => void
  readonly toolCalls: (message: AssistantMessage, index: number) => void
  readonly generationPrompt: () => void
}

/** @category constructors */
export const outside = (message: number): Runs.Part => ({ message, sampled: false, content: false })
/** @category constructors */
export const given = (message: number): Runs.Part => ({ message, sampled: false, content: true })
/** @category constructors */
export const produced = (message: number): Runs.Part => ({ message, sampled: true, content: true })

const markers = /(<\/?(?:think|tool_call|tool_response)>)/

const makeWriter = (tokenizer: TokenizerService, ids: Ids, prior: ReadonlyArray<Int32Array>): Writer => {
  const runs = Runs.make(tokenizer, prior)
  const scaffold: Writer["scaffold"] = (text, part) => {
    for (const piece of text.split(markers)) {
      const id = markers.test(piece) ? tokenizer.special(piece) : undefined
      if (id === undefined) runs.text(piece, part)
      else runs.special(id, part)
    }
  }
  const openTurn: Writer["openTurn"] = (role, message) => {
    runs.special(ids.turnOpen, outside(message))
    runs.text(`${role}\n`, outside(message))
  }
  const closeTurn: Writer["closeTurn"] = (message, { sampled }) => {
    runs.special(ids.turnClose, sampled ? produced(message) : outside(message))
    runs.text("\n", outside(message))
  }
  return {
    ids,
    runs,
    scaffold,
    openTurn,
    closeTurn,
    turn: (role, text, message) => {
      openTurn(role, message)
      runs.text(text, given(message))
      closeTurn(message, { sampled: false })
    },
    toolBlock: (tools, message) => {
      const part = outside(message)
      scaffold(toolsBefore, part)
      for (const { description, name, parameters } of tools) {
        const tool = { type: "function", function: { name, description, parameters } }
        runs.text(`\n${pythonJson(tool)}`, part)
      }
      scaffold(toolsAfter, part)
    },
    toolCalls: (message, index) => {
      const part = produced(index)
      message.toolCalls?.forEach((call, order) => {
        if (order > 0 || (message.content ?? "") !== "") runs.text("\n", part)
        scaffold("<tool_call>", part)
        runs.text(JsonCall.write(call), part)
        scaffold("</tool_call>", part)
      })
    },
    generationPrompt: () => openTurn("assistant", -1)
  }
}

// wire format of the Qwen family, which was trained on these words
const toolsBefore =
  "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
  "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
const toolsAfter =
  "\n</tools>\n\nFor each function call, return a json object with function name and arguments within " +
  "<tool_call></tool_call> XML tags:\n<tool_call>\n" +
  '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'

/** The first turn of a conversation with tools: the system message, if there is one, and the tools. @category writing */
export const writeToolTurn = (
  writer: Writer,
  messages: ReadonlyArray<Message>,
  tools: ReadonlyArray<ToolSpec>
): void => {
  if (tools.length === 0) return
  const first = messages[0]
  const owner = first?.role === "system" ? 0 : -1
  writer.openTurn("system", owner)
  if (first?.role === "system") {
    writer.runs.text(first.content, given(0))
    writer.runs.text("\n\n", outside(0))
  }
  writer.toolBlock(tools, owner)
  writer.closeTurn(owner, { sampled: false })
}

/** What one format decides. @category model */
export interface Dialect {
  readonly name: string
  readonly lines: Omit<TurnParser.TurnFormat["lines"], "beforeCall">
  readonly emptyReasoningIsNone: boolean
  /** why the format cannot say this, if it cannot */
  readonly objection: (messages: ReadonlyArray<Message>, tools: ReadonlyArray<ToolSpec>) => string | undefined
  readonly writeMessages: (writer: Writer, messages: ReadonlyArray<Message>, tools: ReadonlyArray<ToolSpec>) => void
  readonly writeGenerationPrompt: (writer: Writer) => void
  /** whether new messages make the format rewrite the turns before them */
  readonly rewritesHistory: (messages: ReadonlyArray<Message>) => boolean
}

const roles: ReadonlyArray<string> = ["system", "user", "assistant", "tool"]

/** Why no format of the family can write these messages, if none can. @category checks */
const generalObjection = (messages: ReadonlyArray<Message>): string | undefined => {
  if (messages.length === 0) return "there are no messages to render"
  const unknown = messages.findIndex(({ role }) => !roles.includes(role))
  return unknown < 0 ? undefined : `message ${unknown} has the unknown role ${JSON.stringify(messages[unknown]?.role)}`
}

/** @category constructors */
export const makeRenderer = (tokenizer: TokenizerService, ids: Ids, dialect: Dialect): RendererService => {
  const format: TurnParser.TurnFormat = {
    tokenizer,
    closeIds: [ids.turnClose],
    endIds: ids.endOfText === undefined ? [] : [ids.endOfText],
    openIds: [ids.turnOpen],
    think: ids.think,
    calls: ids.toolCall === undefined ? undefined : JsonCall.syntax(ids.toolCall.open, ids.toolCall.close),
    callClosesReasoning: true,
    lines: { ...dialect.lines, beforeCall: 1 },
    emptyReasoningIsNone: dialect.emptyReasoningIsNone
  }
  const stopTokenIds = [...format.closeIds, ...format.endIds]
  const parser: RendererService["parser"] = (options) => TurnParser.make(format, options?.promptIds)
  const parse: RendererService["parse"] = (completionIds, options) => parseWhole(parser, completionIds, options)
  const render = (messages: ReadonlyArray<Message>, options: RenderOptions = {}): Rendered => {
    const tools = options.tools ?? []
    const objection = generalObjection(messages) ?? dialect.objection(messages, tools)
    if (objection !== undefined) throw new RendererError({ renderer: dialect.name, reason: objection })
    const writer = makeWriter(tokenizer, ids, [])
    dialect.writeMessages(writer, messages, tools)
    if (options.addGenerationPrompt === true) dialect.writeGenerationPrompt(writer)
    return writer.runs.finish()
  }
  const bridge: RendererService["bridge"] = (promptIds, completionIds, messages) => {
    if (promptIds.length === 0 || messages.some(({ role }) => role === "assistant")) return undefined
    if ((generalObjection(messages) ?? dialect.objection(messages, [])) !== undefined) return undefined
    if (dialect.rewritesHistory(messages)) return undefined
    const tape = completionIds.length === 0 ? promptIds : completionIds
    const stop = tape === promptIds ? tape.length - 1 : tape.findIndex((id) => stopTokenIds.includes(id))
    const stopped = stopTokenIds.includes(tape[stop] ?? -1)
    // ids after the stop are none of this turn's, and an empty completion has no turn to close
    if (stopped ? stop + 1 < tape.length : completionIds.length === 0) return undefined
    const { reasoningComplete } = parse(completionIds, { promptIds })
    const unfinished = completionIds.length > 0 && reasoningComplete === false
    if (unfinished && stopped) return undefined
    const writer = makeWriter(tokenizer, ids, [promptIds, completionIds])
    if (unfinished) writer.scaffold("\n</think>\n\n", Runs.scaffold)
    if (!stopped) writer.runs.special(ids.turnClose, Runs.scaffold)
    writer.runs.text("\n", Runs.scaffold)
    dialect.writeMessages(writer, messages, [])
    dialect.writeGenerationPrompt(writer)
    return writer.runs.finish()
  }
  return {
    name: dialect.name,
    stopTokenIds,
    render,
    parse,
    parser,
    bridge
  }
}
