/**
 * Reads one assistant turn a token at a time. Structure is decided by ids alone: text that merely spells a marker is
 * text. Batch parsing and streaming are this one machine, so they cannot disagree.
 *
 * - The first stop id ends the turn; nothing after it is read.
 * - There is at most one reasoning region, at the start: opened by the prompt, by an opener before any other text, or
 *   (without an opener) ended by the first close. After it every reasoning marker is text.
 * - A tool call that stands before the close was a draft and is reasoning. When reasoning is never closed, the first
 *   tool call closes it.
 */
import type { AssistantMessage } from "../../Message.ts"
import type { Parsed, ParsedToolCall } from "../../Renderer.ts"
import type { TokenizerService } from "../../Tokenizer.ts"
import * as BodyParser from "./BodyParser.ts"
import * as Newlines from "./Newlines.ts"

/** What a token brought. Calls come once no later token can turn them into drafts. @category model */
export type TurnEvent =
  | { readonly type: "reasoning"; readonly text: string }
  | { readonly type: "content"; readonly text: string }
  /** takes back all content so far; what of it was reasoning follows as such */
  | { readonly type: "contentRevoked" }
  | { readonly type: "toolCall"; readonly call: ParsedToolCall }
  | { readonly type: "end"; readonly terminatedBy: "stop" | "eos" }

/** @category model */
export interface TurnFormat {
  readonly tokenizer: TokenizerService
  /** id that ends a turn of this format */
  readonly turnClose: number
  /** other ids that end it */
  readonly endIds: ReadonlyArray<number>
  readonly think: BodyParser.Pair | undefined
  readonly toolCall: BodyParser.Pair | undefined
  /** line breaks that the format puts around reasoning and before the content after it */
  readonly lines: { readonly aroundReasoning: number; readonly afterReasoning: number }
  /** whether reasoning of no characters is the same as none */
  readonly emptyReasoningIsNone: boolean
}

/** @category model */
export interface TurnParser {
  readonly push: (id: number) => ReadonlyArray<TurnEvent>
  /** Ends the turn where it stands, with the events that this decides. */
  readonly finish: () => { readonly parsed: Parsed; readonly events: ReadonlyArray<TurnEvent> }
}

/** Whether a prompt ends within reasoning, after it, or says nothing about it. */
const reasoningOfPrompt = (
  promptIds: Int32Array | undefined,
  format: TurnFormat
): "none" | "open" | "openWithText" | "closed" => {
  if (promptIds === undefined || format.think === undefined) return "none"
  for (let at = promptIds.length - 1; at >= 0; at--) {
    const id = promptIds[at]!
    if (id === format.think.close) return "closed"
    if (id === format.think.open) return at === promptIds.length - 1 ? "open" : "openWithText"
    if (id === format.turnClose || format.endIds.includes(id)) return "none"
  }
  return "none"
}

/** @category constructors */
export const make = (format: TurnFormat, promptIds?: Int32Array | undefined): TurnParser => {
  const { lines, think, tokenizer, toolCall } = format
  const start = reasoningOfPrompt(promptIds, format)
  const around = (leading: number) => Newlines.make({ leading, trailing: lines.aroundReasoning })

  let events: Array<TurnEvent> = []
  let mode: "undecided" | "reasoning" | "body" | "ended" =
    start === "none" ? (think === undefined ? "body" : "undecided") : start === "closed" ? "body" : "reasoning"
  let reasoning: string | undefined = mode === "reasoning" ? "" : undefined
  let reasoningComplete: boolean | undefined = mode === "reasoning" ? false : undefined
  const reasoningLines = around(lines.aroundReasoning - (start === "openWithText" ? 1 : 0))
  const reasoningDecoder = tokenizer.decoder()
  /** ids from the first tool call in open reasoning on */
  let draft: Array<number> | undefined
  /** ids of a turn that has shown no reasoning marker */
  let unmarked: Array<number> = []
  let content = ""
  let calls: Array<ParsedToolCall> = []
  let terminatedBy: Parsed["terminatedBy"]

  const makeBody = (leading: number) =>
    BodyParser.make({
      tokenizer,
      toolCall,
      leading,
      on: {
        content: (text) => {
          content += text
          events.push({ type: "content", text })
        },
        toolCall: (call) => {
          calls.push(call)
          if (mode !== "undecided") events.push({ type: "toolCall", call })
        }
      }
    })
  let body = makeBody(0)

  const addReasoning = (text: string) => {
    if (text === "") return
    reasoning = (reasoning ?? "") + text
    events.push({ type: "reasoning", text })
  }
  const endReasoning = (trim: boolean) => {
    addReasoning(reasoningLines.push(reasoningDecoder.flush()))
    addReasoning(reasoningLines.end({ trim }))
  }
  const closeReasoning = () => {
    for (const id of draft ?? []) addReasoning(reasoningLines.push(reasoningDecoder.push(id)))
    draft = undefined
    endReasoning(true)
    reasoning ??= ""
    reasoningComplete = true
    body = makeBody(lines.afterReasoning)
    mode = "body"
  }
  const pushUndecided = (id: number) => {
    if (id === think?.open && tokenizer.decode(unmarked).trim() === "") {
      mode = "reasoning"
      reasoning = ""
      reasoningComplete = false
      if (content !== "") events.push({ type: "contentRevoked" })
      content = ""
    } else if (id === think?.close) {
      if (content !== "") events.push({ type: "contentRevoked" })
      content = ""
      calls = []
      draft = unmarked
      closeReasoning()
    } else {
      unmarked.push(id)
      body.push(id)
    }
  }
  const pushReasoning = (id: number) => {
    if (id === think?.close) closeReasoning()
    else if (draft !== undefined) draft.push(id)
    else if (id === toolCall?.open) draft = [id]
    else addReasoning(reasoningLines.push(reasoningDecoder.push(id)))
  }
  const settle = () => {
    if (mode === "ended") return
    if (mode === "reasoning" && draft !== undefined) {
      endReasoning(true)
      reasoningComplete = true
      body = makeBody(0)
      mode = "body"
      for (const id of draft) body.push(id)
    }
    if (mode === "reasoning") endReasoning(false)
    else {
      const held = mode === "undecided" ? calls.length : 0
      mode = "body"
      for (const call of calls.slice(0, held)) events.push({ type: "toolCall", call })
      body.finish()
    }
    mode = "ended"
    unmarked = []
  }
  const message = (): AssistantMessage => {
    const prefix = promptIds === undefined ? "call" : `call_${promptIds.length}`
    const toolCalls = calls.flatMap((call, index) =>
      call.status === "ok" && call.name !== undefined && call.arguments !== undefined
        ? [{ id: `${prefix}_${index}`, name: call.name, arguments: call.arguments }]
        : []
    )
    const hasReasoning = reasoning !== undefined && !(format.emptyReasoningIsNone && reasoning === "")
    return {
      role: "assistant",
      content: content === "" && toolCalls.length > 0 ? null : content,
      ...(hasReasoning ? { reasoningContent: reasoning } : {}),
      ...(toolCalls.length > 0 ? { toolCalls } : {})
    }
  }
  const taken = () => {
    const done = events
    events = []
    return done
  }
  return {
    push: (id) => {
      if (mode === "ended") return []
      if (id === format.turnClose || format.endIds.includes(id)) {
        terminatedBy = id === format.turnClose ? "stop" : "eos"
        settle()
        events.push({ type: "end", terminatedBy })
      } else if (mode === "undecided") pushUndecided(id)
      else if (mode === "reasoning") pushReasoning(id)
      else body.push(id)
      return taken()
    },
    finish: () => {
      settle()
      return { parsed: { message: message(), toolCalls: calls, reasoningComplete, terminatedBy }, events: taken() }
    }
  }
}

/** The whole turn at once. @category reading */
export const parse = (format: TurnFormat, completionIds: Int32Array, promptIds?: Int32Array | undefined): Parsed => {
  const parser = make(format, promptIds)
  for (const id of completionIds) parser.push(id)
  return parser.finish().parsed
}
