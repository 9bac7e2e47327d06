/**
 * Reads a turn in the harmony format: messages, each with a header that names its channel and its recipient. Messages to a
 * function are calls, the analysis channel is reasoning, any other text is content. The recipient may stand in the part
 * of the role or in that of the channel.
 */
import type { Parsed, ParsedToolCall, ParseEvent, ParseOptions, Parser } from "../../Renderer.ts"
import type { TokenizerService } from "../../Tokenizer.ts"
import { isJson } from "./JsonCall.ts"
import * as Segments from "./Segments.ts"

/** @category constants */
export const markers = ["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"]

/** @category model */
export interface Format {
  readonly tokenizer: TokenizerService
  readonly returnId: number
  readonly callId: number
  /** ids that end a turn beside these two */
  readonly endIds: ReadonlyArray<number>
}

interface Call {
  readonly index: number
  readonly id: string
  readonly name: string
  readonly from: number
  source: string
  raw: string
}

const recipientIn = (header: string): string | undefined => /\bto=functions\.([^\s<]+)/.exec(header)?.[1]

/** @category constructors */
export const make = (format: Format, { promptIds }: ParseOptions = {}): Parser => {
  const known = Segments.markersOf(format.tokenizer, markers)
  const segments = Segments.make(format.tokenizer, known)
  const prefix = promptIds === undefined ? "call" : `call_${promptIds.length}`
  let events: Array<ParseEvent> = []
  let place: "header" | "body" | "ended" = "header"
  let header = ""
  let headerAt = 0
  /** where the header has come to: behind the role, the channel, or the content type */
  let part: "role" | "channel" | "type" = "role"
  let channel = ""
  let call: Call | undefined
  const calls: Array<ParsedToolCall> = []
  const texts = { content: "", reasoning: undefined as string | undefined }
  /** whether the next text of a kind is of another message than the text before it */
  let isNew = { content: false, reasoning: false }
  let reasoningComplete: boolean | undefined
  let terminatedBy: Parsed["terminatedBy"]

  const say = (type: "content" | "reasoning", text: string) => {
    if (text === "") return
    const before = texts[type] ?? ""
    const told = isNew[type] && before !== "" ? `\n${text}` : text
    isNew[type] = false
    texts[type] = before + told
    events.push({ type, text: told })
  }
  const startBody = (at: number) => {
    place = "body"
    const name = recipientIn(header)
    isNew = { content: true, reasoning: true }
    if (name !== undefined) {
      const index = calls.length
      call = { index, id: `${prefix}_${index}`, name, from: headerAt, source: `${header}<|message|>`, raw: "" }
      events.push({ type: "toolCallStart", index, id: call.id, name })
    } else if (channel.trim().startsWith("analysis")) {
      texts.reasoning ??= ""
      reasoningComplete = false
    }
    headerAt = at
  }
  const endBody = (closed: boolean, end: number, marker: string) => {
    if (call !== undefined) {
      const { from, id, index, name, raw, source } = call
      const status = !closed ? "unclosed_block" : isJson(raw) ? "ok" : "invalid_json"
      const done: ParsedToolCall = {
        ...{ id, name, raw, status, arguments: closed ? raw : undefined },
        ...{ source: source + marker, span: [from, end] }
      }
      calls.push(done)
      events.push({ type: "toolCallEnd", index, call: done })
      call = undefined
    } else if (closed && channel.trim().startsWith("analysis")) reasoningComplete = true
    place = "header"
    header = ""
    part = "role"
    channel = ""
    headerAt = end
  }
  const pushHeader = ({ at, isMarker, text }: Segments.Segment) => {
    if (isMarker && text === "<|message|>") return startBody(at)
    if (isMarker && text === "<|start|>") {
      header = ""
      headerAt = at
      part = "role"
      channel = ""
    } else if (isMarker && text === "<|channel|>") {
      part = "channel"
      channel = ""
    } else if (isMarker) part = "type"
    else if (part === "channel") channel += text
    header += text
  }
  const push = (segment: Segments.Segment) => {
    const { at, isMarker, text } = segment
    if (place === "header") return pushHeader(segment)
    if (isMarker && (text === "<|end|>" || text === "<|start|>")) {
      endBody(text === "<|end|>", text === "<|end|>" ? at + 1 : at, text === "<|end|>" ? text : "")
      if (text === "<|start|>") pushHeader(segment)
    } else if (call !== undefined) {
      call.raw += text
      call.source += text
      events.push({ type: "toolCallArguments", index: call.index, text })
    } else say(channel.trim().startsWith("analysis") ? "reasoning" : "content", text)
  }
  if (promptIds !== undefined) {
    // the prompt ends with the header of the turn, whose place counts before the first token
    const start = format.tokenizer.special("<|start|>")
    const from = start === undefined ? -1 : promptIds.lastIndexOf(start)
    const opening = Segments.make(format.tokenizer, known)
    const said = from < 0 ? [] : [...promptIds.subarray(from)].flatMap((id) => opening.push(id))
    for (const segment of said) push(segment)
    headerAt = 0
    events = []
  }
  let count = 0
  const settle = (ending: "call" | "return" | "eos" | undefined) => {
    if (place === "ended") return
    for (const segment of segments.finish()) push(segment)
    if (place === "body") {
      const isAnalysis = call === undefined && channel.trim().startsWith("analysis")
      const closed = ending === "call" || (ending === "return" && call === undefined && !isAnalysis)
      endBody(closed, count + (ending === "call" ? 1 : 0), ending === "call" ? "<|call|>" : "")
    } else if (header !== "" && !header.includes("<|") && promptIds === undefined) {
      // text without any header is what a turn says
      say("content", header)
    }
    place = "ended"
  }
  const taken = () => {
    const done = events
    events = []
    return done
  }
  return {
    push: (id) => {
      if (place === "ended") return []
      const isOther = format.endIds.includes(id)
      if (id !== format.returnId && id !== format.callId && !isOther) {
        for (const segment of segments.push(id)) push(segment)
        count++
        return taken()
      }
      terminatedBy = isOther ? "eos" : "stop"
      settle(isOther ? "eos" : id === format.callId ? "call" : "return")
      events.push({ type: "end", terminatedBy })
      return taken()
    },
    finish: () => {
      settle(undefined)
      const toolCalls = calls.flatMap(({ arguments: text, id, name, status }) =>
        status === "ok" && name !== undefined && text !== undefined ? [{ id, name, arguments: text }] : []
      )
      const { content, reasoning } = texts
      return {
        parsed: {
          message: {
            role: "assistant",
            content: content === "" && toolCalls.length > 0 ? null : content,
            ...(reasoning === undefined || reasoning === "" ? {} : { reasoningContent: reasoning }),
            ...(toolCalls.length > 0 ? { toolCalls } : {})
          },
          toolCalls: calls,
          reasoningComplete,
          terminatedBy
        },
        events: taken()
      }
    }
  }
}
