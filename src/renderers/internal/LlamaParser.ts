/**
 * Reads a turn that is either text or, from its first to its last character, one tool call as JSON. What begins as an
 * object with a name is a call, if there is such a tool or no tools are known; anything else is content.
 */
import type { ParsedToolCall, ParseEvent, ParseOptions, Parser } from "../../Renderer.ts"
import type { TokenizerService } from "../../Tokenizer.ts"
import type { CallReader } from "./CallReader.ts"
import * as JsonCall from "./JsonCall.ts"
import * as Segments from "./Segments.ts"

const start = '{"name":"'
const named = /^\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")/

/** No tool has a longer name; white space and names without end would be looked through again with every token. */
const longestStart = 1000

/** Whether a text is a call's beginning; undefined while it may become one. */
const nameIn = (text: string): string | undefined | false => {
  if (text.length > longestStart) return false
  const found = named.exec(text)?.[1]
  if (found !== undefined && JsonCall.isJson(found)) return String(JSON.parse(found))
  const dense = text.replace(/\s/g, "")
  return start.startsWith(dense) || dense.startsWith(start) ? undefined : false
}

/** @category constructors */
export const make = (
  format: {
    readonly tokenizer: TokenizerService
    readonly closeIds: ReadonlyArray<number>
    readonly endIds: ReadonlyArray<number>
    /** markers that the model may write before a call */
    readonly skipped: ReadonlyArray<string>
  },
  { promptIds, tools }: ParseOptions = {}
): Parser => {
  const segments = Segments.make(format.tokenizer, Segments.markersOf(format.tokenizer, format.skipped))
  const id = `${promptIds === undefined ? "call" : `call_${promptIds.length}`}_0`
  let events: Array<ParseEvent> = []
  let mode: "undecided" | "content" | "call" | "ended" = "undecided"
  let waiting = ""
  let source = ""
  let count = 0
  let content = ""
  let call: ParsedToolCall | undefined
  let terminatedBy: "stop" | "eos" | undefined
  let reader: CallReader | undefined

  const say = (text: string) => {
    if (text === "") return
    content += text
    events.push({ type: "content", text })
  }
  const decide = (isLast: boolean) => {
    const name = nameIn(waiting)
    const isKnown = (one: string) =>
      tools === undefined || tools.length === 0 || tools.some((tool) => tool.name === one)
    if (typeof name === "string" && name !== "" && isKnown(name)) {
      mode = "call"
      reader = JsonCall.makeReader({
        start: (tool) => events.push({ type: "toolCallStart", index: 0, id, name: tool }),
        arguments: (text) => events.push({ type: "toolCallArguments", index: 0, text }),
        end: (read) => {
          call = { ...read, id, source, span: [0, count] }
          events.push({ type: "toolCallEnd", index: 0, call })
        }
      })
      reader.push(waiting, false)
    } else if (name !== undefined || isLast) {
      mode = "content"
      say(waiting)
    }
  }
  const push = ({ isMarker, text }: Segments.Segment) => {
    source += text
    // a marker that says that a call follows says nothing else
    if (isMarker && mode === "undecided" && waiting.trim() === "") return
    if (mode === "call") reader?.push(text, isMarker)
    else if (mode === "content") say(text)
    else {
      waiting += text
      decide(false)
    }
  }
  const settle = () => {
    if (mode === "ended") return
    for (const segment of segments.finish()) push(segment)
    if (mode === "undecided") decide(true)
    // a text that is no JSON where the turn was cut was not closed
    if (mode === "call") reader?.finish(terminatedBy !== undefined || JsonCall.isJson(source))
    mode = "ended"
  }
  const taken = () => {
    const done = events
    events = []
    return done
  }
  return {
    push: (token) => {
      if (mode === "ended") return []
      const isClose = format.closeIds.includes(token)
      if (isClose || format.endIds.includes(token)) {
        terminatedBy = isClose ? "stop" : "eos"
        settle()
        events.push({ type: "end", terminatedBy })
        return taken()
      }
      count++
      for (const segment of segments.push(token)) push(segment)
      return taken()
    },
    finish: () => {
      settle()
      const toolCalls =
        call?.status === "ok" && call.name !== undefined && call.arguments !== undefined
          ? [{ id, name: call.name, arguments: call.arguments }]
          : []
      return {
        parsed: {
          message: {
            role: "assistant",
            content: content === "" && toolCalls.length > 0 ? null : content,
            ...(toolCalls.length > 0 ? { toolCalls } : {})
          },
          toolCalls: call === undefined ? [] : [call],
          reasoningComplete: undefined,
          terminatedBy
        },
        events: taken()
      }
    }
  }
}
