/**
 * Reads one assistant turn a token at a time. Structure is decided by ids alone: text that merely spells a marker is
 * text. Batch parsing and streaming are this one machine, so they cannot disagree.
 *
 * - The first stop id ends the turn; nothing after it is read.
 * - There is at most one reasoning region, at the start: opened by the prompt, by an opener before any other text, or
 *   (without an opener) ended by the first close. After it every reasoning marker is text.
 * - A tool call that stands before the close was a draft and is reasoning. When reasoning is never closed, the first
 *   tool call closes it, in formats that read it so.
 */
import type { AssistantMessage } from "../../Message.ts"
import type { Parsed, ParsedToolCall, ParseEvent, ParseOptions, Parser } from "../../Renderer.ts"
import type { TokenizerService } from "../../Tokenizer.ts"
import * as BodyParser from "./BodyParser.ts"
import type { CallSyntax } from "./CallReader.ts"
import * as Newlines from "./Newlines.ts"
import * as Segments from "./Segments.ts"

/** The markers around reasoning. @category model */
export interface Pair {
  readonly open: string
  readonly close: string
}

/** @category model */
export interface TurnFormat {
  readonly tokenizer: TokenizerService
  /** ids that end a turn of this format as it should end */
  readonly closeIds: ReadonlyArray<number>
  /** other ids that end it */
  readonly endIds: ReadonlyArray<number>
  /** ids that begin a turn: what stands before the last of them is of earlier turns */
  readonly openIds: ReadonlyArray<number>
  readonly think: Pair | undefined
  readonly calls: CallSyntax | undefined
  /** whether a tool call ends reasoning that is never closed */
  readonly callClosesReasoning: boolean
  /** line breaks that the format puts around reasoning, before the content after it, and between content and a call */
  readonly lines: {
    readonly aroundReasoning: number
    readonly afterReasoning: number
    readonly beforeCall: number
    /** the last ones stand there without content, too */
    readonly beforeCallAlways?: boolean | undefined
  }
  /** whether reasoning of no characters is the same as none */
  readonly emptyReasoningIsNone: boolean
}

const markersOf = ({ calls, think, tokenizer }: TurnFormat) =>
  Segments.markersOf(tokenizer, [
    ...(think === undefined ? [] : [think.open, think.close]),
    ...(calls === undefined ? [] : [calls.open, calls.close, ...calls.inner])
  ])

/** How a prompt ends, as far as reasoning goes; `text` is what stands behind the marker. */
const reasoningOfPrompt = (
  promptIds: Int32Array | undefined,
  format: TurnFormat,
  markers: Segments.Markers
): { readonly state: "none" | "open" | "closed"; readonly text: string } => {
  const none = { state: "none", text: "" } as const
  const { think } = format
  if (promptIds === undefined || think === undefined) return none
  const boundaries = new Set([...format.closeIds, ...format.endIds, ...format.openIds])
  const from = promptIds.findLastIndex((id) => boundaries.has(id)) + 1
  const segments = Segments.make(format.tokenizer, markers)
  const said = [...promptIds.subarray(from)].flatMap((id) => segments.push(id)).concat(segments.finish())
  const last = said.findLastIndex(({ isMarker, text }) => isMarker && (text === think.open || text === think.close))
  if (last < 0) return none
  const text = said
    .slice(last + 1)
    .map((segment) => segment.text)
    .join("")
  return { state: said[last]!.text === think.open ? "open" : "closed", text }
}

/** Line breaks of the format that are still to come after those that the prompt ends with. */
const remaining = (lines: number, text: string) => Math.max(0, lines - /^\n*/.exec(text)![0].length)

/** @category constructors */
export const make = (format: TurnFormat, { promptIds, tools }: ParseOptions = {}): Parser => {
  const { calls: syntax, lines, think } = format
  const markers = markersOf(format)
  const start = reasoningOfPrompt(promptIds, format, markers)
  const segments = Segments.make(format.tokenizer, markers)
  const prefix = promptIds === undefined ? "call" : `call_${promptIds.length}`

  let events: Array<ParseEvent> = []
  let mode: "undecided" | "reasoning" | "body" | "ended" =
    start.state === "none"
      ? think === undefined
        ? "body"
        : "undecided"
      : start.state === "closed"
        ? "body"
        : "reasoning"
  let reasoning: string | undefined = mode === "reasoning" ? "" : undefined
  let reasoningComplete: boolean | undefined = mode === "reasoning" ? false : undefined
  const reasoningLines = Newlines.make({
    leading: remaining(lines.aroundReasoning, start.text),
    trailing: lines.aroundReasoning
  })
  /** from the first tool call in open reasoning on */
  let draft: Array<Segments.Segment> | undefined
  /** a turn that has shown no reasoning marker */
  let unmarked: Array<Segments.Segment> = []
  let content = ""
  let calls: Array<ParsedToolCall> = []
  /** events of calls that may still turn out to be drafts */
  let callEvents: Array<ParseEvent> = []
  let terminatedBy: Parsed["terminatedBy"]

  const idOf = (id: string | undefined, index: number) => id ?? `${prefix}_${index}`
  const tell = (event: ParseEvent) => (mode === "undecided" ? callEvents : events).push(event)
  const makeBody = (before: number) =>
    BodyParser.make({
      calls: syntax,
      tools,
      lines: { before, after: lines.beforeCall, always: lines.beforeCallAlways === true },
      on: {
        content: (text) => {
          content += text
          events.push({ type: "content", text })
        },
        start: (name, id) => tell({ type: "toolCallStart", index: calls.length, id: idOf(id, calls.length), name }),
        arguments: (text) => tell({ type: "toolCallArguments", index: calls.length, text }),
        end: (read, span, source) => {
          const index = calls.length
          const call: ParsedToolCall = { ...read, id: idOf(read.id, index), span, source }
          calls.push(call)
          tell({ type: "toolCallEnd", index, call })
        }
      }
    })
  let body = makeBody(start.state === "closed" ? remaining(lines.afterReasoning, start.text) : 0)

  const addReasoning = (text: string) => {
    if (text === "") return
    reasoning = (reasoning ?? "") + text
    events.push({ type: "reasoning", text })
  }
  const closeReasoning = () => {
    for (const { text } of draft ?? []) addReasoning(reasoningLines.push(text))
    draft = undefined
    addReasoning(reasoningLines.end({ trim: true }))
    reasoning ??= ""
    reasoningComplete = true
    body = makeBody(lines.afterReasoning)
    mode = "body"
  }
  const revoke = () => {
    if (content !== "") events.push({ type: "contentRevoked" })
    content = ""
    calls = []
    callEvents = []
  }
  const isMarker = (segment: Segments.Segment, text: string | undefined) => segment.isMarker && segment.text === text
  const isBlank = (of: ReadonlyArray<Segments.Segment>) => of.every(({ text }) => text.trim() === "")
  const pushUndecided = (segment: Segments.Segment) => {
    if (isMarker(segment, think?.open) && isBlank(unmarked)) {
      revoke()
      mode = "reasoning"
      reasoning = ""
      reasoningComplete = false
    } else if (isMarker(segment, think?.close)) {
      revoke()
      draft = unmarked
      closeReasoning()
    } else {
      const wasBlank = isBlank(unmarked)
      unmarked.push(segment)
      // white space may stand before an opener
      if (!wasBlank) body.push(segment)
      else if (!isBlank(unmarked)) for (const one of unmarked) body.push(one)
    }
  }
  const pushReasoning = (segment: Segments.Segment) => {
    if (isMarker(segment, think?.close)) closeReasoning()
    else if (draft !== undefined) draft.push(segment)
    else if (format.callClosesReasoning && isMarker(segment, syntax?.open)) draft = [segment]
    else addReasoning(reasoningLines.push(segment.text))
  }
  const push = (segment: Segments.Segment) => {
    if (mode === "undecided") pushUndecided(segment)
    else if (mode === "reasoning") pushReasoning(segment)
    else body.push(segment)
  }
  const settle = () => {
    if (mode === "ended") return
    for (const segment of segments.finish()) push(segment)
    if (mode === "reasoning" && draft !== undefined) {
      addReasoning(reasoningLines.end({ trim: true }))
      reasoningComplete = true
      body = makeBody(0)
      mode = "body"
      for (const segment of draft) body.push(segment)
    }
    if (mode === "reasoning") addReasoning(reasoningLines.end({ trim: false }))
    else {
      if (mode === "undecided" && isBlank(unmarked)) for (const one of unmarked) body.push(one)
      mode = "body"
      events.push(...callEvents)
      body.finish()
    }
    mode = "ended"
    unmarked = []
  }
  const message = (): AssistantMessage => {
    const toolCalls = calls.flatMap(({ arguments: text, id, name, status }) =>
      status === "ok" && name !== undefined && text !== undefined ? [{ id, name, arguments: text }] : []
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
      const isClose = format.closeIds.includes(id)
      if (isClose || format.endIds.includes(id)) {
        terminatedBy = isClose ? "stop" : "eos"
        settle()
        events.push({ type: "end", terminatedBy })
      } else for (const segment of segments.push(id)) push(segment)
      return taken()
    },
    finish: () => {
      settle()
      return { parsed: { message: message(), toolCalls: calls, reasoningComplete, terminatedBy }, events: taken() }
    }
  }
}
