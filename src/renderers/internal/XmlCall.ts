/**
 * Tool calls written as elements: one per call, and in it one per argument with its value as plain text. The end of a value
 * counts where an argument or the end of the call follows, so that a value may spell its own end.
 */
import type { ToolSpec } from "../../Message.ts"
import * as Arguments from "./Arguments.ts"
import type { CallReader, CallSink, CallSyntax } from "./CallReader.ts"
import { heldBy } from "./Segments.ts"

/** How the elements are spelled. @category model */
export interface Words {
  /** before and behind a call's name */
  readonly call: readonly [before: string, behind: string]
  readonly callEnd: string
  /** before and behind an argument's name */
  readonly argument: readonly [before: string, behind: string]
  readonly argumentEnd: string
  /** one line break on each side of a value is the format's */
  readonly valuesOnLines: boolean
  /** a block holds any number of calls, each of which is whole with its own end */
  readonly many: boolean
}

type Place = "outside" | "inside" | "value"

/** @category constructors */
export const makeReader = (words: Words, sink: CallSink, tools: ReadonlyArray<ToolSpec> | undefined): CallReader => {
  let raw = ""
  let pending = ""
  let place: Place = "outside"
  let name: string | undefined
  let json = ""
  let names = new Set<string>()
  let argument = ""
  let isMalformed = false
  let isInvalid = false
  let isDone = false
  let count = 0
  let values = Arguments.readerOf(tools, undefined)
  /** of a string that is told while it arrives: whether its first line break is still to come */
  let isFirst = true

  const tell = (text: string) => {
    json += text
    if (name !== undefined && name !== "") sink.arguments(text)
  }
  const endCall = (closed: boolean) => {
    const whole = isDone && closed
    if (whole && json === "") tell("{}")
    else if (whole) tell("}")
    const status = !closed
      ? "unclosed_block"
      : !isDone || isMalformed
        ? "malformed_structure"
        : name === ""
          ? "missing_name"
          : isInvalid
            ? "invalid_json"
            : "ok"
    sink.end({ status, raw, name: name === "" ? undefined : name, arguments: whole ? json : undefined })
    raw = ""
    place = "outside"
    name = undefined
    json = ""
    names = new Set()
    isMalformed = false
    isInvalid = false
    isDone = false
    count++
  }
  const start = (found: string) => {
    place = "inside"
    if (name !== undefined) {
      isMalformed = true
      return
    }
    name = found.trim()
    values = Arguments.readerOf(tools, name)
    if (name !== "") sink.start(name)
  }
  const startArgument = (found: string) => {
    argument = found.trim()
    if (names.has(argument)) isMalformed = true
    names.add(argument)
    tell(`${json === "" ? "{" : ", "}${JSON.stringify(argument)}: `)
    isFirst = true
    if (values.isString(argument)) tell('"')
    place = "value"
  }
  /** the text between two spellings at the front of what is pending, if both are there */
  const named = ([before, behind]: readonly [string, string]): string | undefined => {
    const from = pending.indexOf(before)
    const to = from < 0 ? -1 : pending.indexOf(behind, from + before.length)
    if (to < 0) return undefined
    if (pending.slice(0, from).trim() !== "") isMalformed = true
    const found = pending.slice(from + before.length, to)
    pending = pending.slice(to + behind.length)
    return found
  }
  const tellString = (text: string) => {
    const own = isFirst && words.valuesOnLines && text.startsWith("\n") ? text.slice(1) : text
    if (text !== "") isFirst = false
    if (own !== "") tell(JSON.stringify(own).slice(1, -1))
  }
  const endValue = (text: string) => {
    if (values.isString(argument)) {
      tellString(words.valuesOnLines && text.endsWith("\n") && !(isFirst && text === "\n") ? text.slice(0, -1) : text)
      tell('"')
    } else {
      const own = words.valuesOnLines ? text.replace(/^\n/, "").replace(/\n$/, "") : text
      const { isValid, json: value } = values.read(argument, own)
      if (!isValid) isInvalid = true
      tell(value)
    }
    place = "inside"
  }
  /** whether what follows the end of a value shows that it is one; undefined while that is open */
  const confirms = (rest: string): boolean | undefined => {
    const text = rest.trimStart()
    for (const next of [words.argument[0], words.callEnd]) {
      if (text.startsWith(next)) return true
      if (next.startsWith(text)) return undefined
    }
    return false
  }
  const stepValue = (isLast: boolean): boolean => {
    const { argumentEnd } = words
    let at = pending.indexOf(argumentEnd)
    while (at >= 0) {
      const confirmed = confirms(pending.slice(at + argumentEnd.length))
      if (confirmed === true || (confirmed === undefined && isLast)) {
        endValue(pending.slice(0, at))
        pending = pending.slice(at + argumentEnd.length)
        return true
      }
      if (confirmed === undefined) break
      at = pending.indexOf(argumentEnd, at + 1)
    }
    if (!isLast && values.isString(argument)) {
      const line = words.valuesOnLines ? "\n" : ""
      const to =
        at >= 0
          ? at - (pending[at - 1] === line ? 1 : 0)
          : pending.length - heldBy(pending, [line + argumentEnd, argumentEnd])
      // the line break that stands before the value's end is not its own, the one at its very start is taken off
      tellString(pending.slice(0, to))
      pending = pending.slice(to)
    }
    return false
  }
  /** whether something was read, so that there may be more */
  const step = (isLast: boolean): boolean => {
    if (place === "value") return stepValue(isLast)
    if (place === "outside") {
      const found = named(words.call)
      if (found !== undefined) start(found)
      return found !== undefined
    }
    const argumentAt = pending.indexOf(words.argument[0])
    const endAt = pending.indexOf(words.callEnd)
    if (argumentAt >= 0 && (endAt < 0 || argumentAt < endAt)) {
      const found = named(words.argument)
      if (found !== undefined) startArgument(found)
      return found !== undefined
    }
    if (endAt < 0) return false
    if (pending.slice(0, endAt).trim() !== "") isMalformed = true
    pending = pending.slice(endAt + words.callEnd.length)
    isDone = true
    if (words.many) endCall(true)
    else place = "outside"
    return true
  }
  return {
    push: (text) => {
      raw += text
      pending += text
      while (step(false));
    },
    finish: (closed) => {
      while (step(true));
      if (pending.trim() !== "") isMalformed = true
      if (!words.many || count === 0 || name !== undefined || pending.trim() !== "") endCall(closed)
    }
  }
}

/** @category constructors */
export const syntax = (block: { readonly open: string; readonly close: string }, words: Words): CallSyntax => ({
  ...block,
  hasStrings: false,
  inner: [],
  make: (sink, tools) => makeReader(words, sink, tools)
})
