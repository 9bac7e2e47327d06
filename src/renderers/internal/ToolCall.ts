/** A tool call written as a JSON object with "name" and "arguments" between two markers (the Hermes form). */
import * as Either from "effect/Either"
import type { ToolCall } from "../../Message.ts"
import type { ParsedToolCall } from "../../Renderer.ts"
import { memberTexts } from "./jsonText.ts"

const parseJson = (text: string) => Either.try((): unknown => JSON.parse(text))

/** @category reading */
export const parse = (raw: string, closed: boolean): ParsedToolCall => {
  const call = { raw, name: undefined, arguments: undefined }
  if (!closed) return { ...call, status: "unclosed_block" }
  const json = parseJson(raw)
  if (Either.isLeft(json)) return { ...call, status: "invalid_json" }
  if (typeof json.right !== "object" || json.right === null || Array.isArray(json.right)) {
    return { ...call, status: "missing_name" }
  }
  const members = memberTexts(raw)
  const name: unknown = JSON.parse(members.get("name") ?? "null")
  const written = members.get("arguments") ?? "{}"
  // some models write the arguments as a string that holds JSON
  const text = written.startsWith('"') ? String(JSON.parse(written)) : written
  if (typeof name !== "string" || name === "") return { ...call, arguments: text, status: "missing_name" }
  return { status: Either.isRight(parseJson(text)) ? "ok" : "invalid_json", raw, name, arguments: text }
}

/** The text between the markers, arguments as they were written. @category writing */
export const write = (call: ToolCall): string =>
  `\n{"name": "${call.name}", "arguments": ${call.arguments === "" ? "{}" : call.arguments}}\n`
