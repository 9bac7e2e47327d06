/** Tool calls written as a name and pairs of keys and values, each between markers of its own (the GLM form). */
import type { ToolSpec } from "../../Message.ts"
import * as Arguments from "./Arguments.ts"
import type { CallReader, CallSink, CallSyntax } from "./CallReader.ts"

const key = { open: "<arg_key>", close: "</arg_key>" }
const value = { open: "<arg_value>", close: "</arg_value>" }

/** The markers inside a call. @category constants */
export const inner = ["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"] as const

/** @category constructors */
export const makeReader = (sink: CallSink, tools: ReadonlyArray<ToolSpec> | undefined): CallReader => {
  let raw = ""
  let place: "name" | "between" | "key" | "value" = "name"
  let text = ""
  let name = ""
  let argument: string | undefined
  let json = ""
  const names = new Set<string>()
  let isMalformed = false
  let isInvalid = false
  let isStarted = false
  let values = Arguments.readerOf(tools, undefined)

  const tell = (piece: string) => {
    json += piece
    if (name !== "") sink.arguments(piece)
  }
  const start = () => {
    if (isStarted) return
    isStarted = true
    name = text.trim()
    values = Arguments.readerOf(tools, name)
    if (name !== "") sink.start(name)
  }
  const startValue = (of: string) => {
    if (names.has(of)) isMalformed = true
    names.add(of)
    tell(`${json === "" ? "{" : ", "}${JSON.stringify(of)}: `)
    if (values.isString(of)) tell('"')
  }
  const endValue = (of: string) => {
    if (values.isString(of)) tell('"')
    else {
      const read = values.read(of, text)
      if (!read.isValid) isInvalid = true
      tell(read.json)
    }
  }
  const pushMarker = (marker: string) => {
    if (marker === key.open && (place === "name" || place === "between")) {
      start()
      if (argument !== undefined) isMalformed = true
      place = "key"
    } else if (marker === key.close && place === "key") {
      argument = text.trim()
      place = "between"
    } else if (marker === value.open && place === "between" && argument !== undefined) {
      startValue(argument)
      place = "value"
    } else if (marker === value.close && place === "value" && argument !== undefined) {
      endValue(argument)
      argument = undefined
      place = "between"
    } else {
      isMalformed = true
      text += marker
      return
    }
    text = ""
  }
  return {
    push: (piece, isMarker) => {
      raw += piece
      if (isMarker) {
        pushMarker(piece)
        return
      }
      text += piece
      if (place === "value" && argument !== undefined && values.isString(argument)) {
        tell(JSON.stringify(piece).slice(1, -1))
      } else if (place === "between" && piece.trim() !== "") isMalformed = true
    },
    finish: (closed) => {
      start()
      if (place === "key" || place === "value" || argument !== undefined) isMalformed = true
      const isUnknown = tools !== undefined && tools.length > 0 && !tools.some((tool) => tool.name === name)
      const isWhole = closed && !isMalformed
      if (isWhole) tell(json === "" ? "{}" : "}")
      const status = !closed
        ? "unclosed_block"
        : name === ""
          ? "missing_name"
          : isUnknown
            ? "unknown_tool"
            : isMalformed
              ? "malformed_structure"
              : isInvalid
                ? "invalid_json"
                : "ok"
      sink.end({ status, raw, name: name === "" ? undefined : name, arguments: isWhole ? json : undefined })
    }
  }
}

/** @category constructors */
export const syntax = (open: string, close: string): CallSyntax => ({
  open,
  close,
  hasStrings: false,
  inner,
  make: makeReader
})
