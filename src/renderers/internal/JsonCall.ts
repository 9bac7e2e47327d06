/** A tool call written as a JSON object with a name and its arguments (the Hermes form). */
import * as Either from "effect/Either"
import type { ToolCall } from "../../Message.ts"
import type { CallReader, CallSink, CallSyntax, ReadCall } from "./CallReader.ts"
import { makeMemberScanner, memberTexts } from "./jsonText.ts"

/** Whether a text is JSON. @category checks */
export const isJson = (text: string): boolean => Either.isRight(Either.try((): unknown => JSON.parse(text)))

const isObject = (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value)

/** What the member that holds the arguments is called: "arguments", and "parameters" in some formats. */
const argumentsKeys = ["arguments", "parameters"]

/** A whole object; a member that is there twice leaves open what is meant. @category reading */
export const read = (raw: string, closed: boolean): ReadCall => {
  const call = { raw, name: undefined, arguments: undefined }
  if (!closed) return { ...call, status: "unclosed_block" }
  const json = Either.try((): unknown => JSON.parse(raw))
  if (Either.isLeft(json)) return { ...call, status: "invalid_json" }
  if (!isObject(json.right)) return { ...call, status: "missing_name" }
  const members = memberTexts(raw)
  const names = members.filter(([key]) => key === "name")
  const written = members.filter(([key]) => argumentsKeys.includes(key))
  if (names.length > 1 || written.length > 1) return { ...call, status: "malformed_structure" }
  const name: unknown = JSON.parse(names[0]?.[1] ?? "null")
  const value = written[0]?.[1] ?? "{}"
  // some models write the arguments as a string that holds JSON
  const text = value.startsWith('"') ? String(JSON.parse(value)) : value
  if (typeof name !== "string" || name === "") return { ...call, arguments: text, status: "missing_name" }
  return { status: isJson(text) ? "ok" : "invalid_json", raw, name, arguments: text }
}

/**
 * Reads one object as it arrives. Arguments are told once the name is known, as they come if they are an object and at
 * the end if they are anything else.
 *
 * @category constructors
 */
export const makeReader = (sink: CallSink): CallReader => {
  let raw = ""
  let name: string | undefined
  let nameText = ""
  let waiting = ""
  let told = ""
  let isTelling: boolean | undefined
  const tell = () => {
    if (name === undefined || waiting === "") return
    told += waiting
    sink.arguments(waiting)
    waiting = ""
  }
  const scanner = makeMemberScanner({
    value: (key, text) => {
      if (key === "name" && name === undefined) nameText += text
      else if (argumentsKeys.includes(key) && isTelling !== false) {
        isTelling ??= text.startsWith("{")
        if (isTelling) waiting += text
        tell()
      }
    },
    end: (key) => {
      if (argumentsKeys.includes(key)) isTelling = false
      if (key !== "name" || name !== undefined || !isJson(nameText)) return
      const value: unknown = JSON.parse(nameText)
      if (typeof value !== "string" || value === "") return
      name = value
      sink.start(name)
      tell()
    }
  })
  return {
    push: (text) => {
      raw += text
      scanner.push(text)
    },
    finish: (closed) => {
      const call = read(raw, closed)
      if (call.status === "ok" && call.arguments !== undefined && call.arguments.startsWith(told)) {
        waiting = call.arguments.slice(told.length)
        tell()
      }
      sink.end(call)
    }
  }
}

/** A block that holds one object. @category constructors */
export const syntax = (open: string, close: string): CallSyntax => ({
  open,
  close,
  hasStrings: true,
  inner: [],
  make: makeReader
})

/** The text between the markers of a block, arguments as they were written. @category writing */
export const write = (call: ToolCall): string =>
  `\n{"name": "${call.name}", "arguments": ${call.arguments === "" ? "{}" : call.arguments}}\n`
