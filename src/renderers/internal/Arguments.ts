/**
 * The arguments of a call where the format writes each on its own, as text without JSON's quotes. Reading them back needs
 * the tool's schema: a value is a string unless the schema says that it is something else.
 */
import type { ToolSpec } from "../../Message.ts"
import { isJson } from "./JsonCall.ts"
import { memberTexts, respaced } from "./jsonText.ts"

/** Arguments by name, each as JSON text; none where the arguments are no JSON object. @category reading */
export const members = (json: string): ReadonlyArray<readonly [name: string, json: string]> =>
  isJson(json) && json.trimStart().startsWith("{") ? memberTexts(json) : []

const pythonWords: Readonly<Record<string, string>> = { true: "True", false: "False", null: "None" }

/** A value as the format writes it: a string as it is, anything else as JSON with its own digits. @category writing */
export const spoken = (json: string, words: "json" | "python" = "json"): string => {
  if (json.startsWith('"')) return String(JSON.parse(json))
  return (words === "python" ? pythonWords[json] : undefined) ?? respaced(json)
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Types that a schema allows; undefined for any. */
const typesOf = (schema: Readonly<Record<string, unknown>>): ReadonlyArray<unknown> | undefined => {
  const { anyOf, oneOf, type } = schema
  if (typeof type === "string") return [type]
  if (Array.isArray(type)) return type
  const variants: unknown = anyOf ?? oneOf
  if (!Array.isArray(variants)) return undefined
  const types = variants.map((variant: unknown) => (isRecord(variant) ? typesOf(variant) : undefined))
  return types.some((one) => one === undefined) ? undefined : types.flatMap((one) => one ?? [])
}

/** What a text stands for. @category model */
export interface Value {
  readonly json: string
  /** false where the schema allows no such text */
  readonly isValid: boolean
}

/** How the values of one tool are read; a tool that is not known has strings alone. @category constructors */
export const readerOf = (tools: ReadonlyArray<ToolSpec> | undefined, tool: string | undefined) => {
  const properties: unknown = tools?.find(({ name }) => name === tool)?.parameters.properties
  const schemaOf = (name: string): Readonly<Record<string, unknown>> | undefined => {
    const schema: unknown = isRecord(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined
    return isRecord(schema) ? schema : undefined
  }
  /** whether a value is a string whatever its text is, so that it can be told while it arrives */
  const isString = (name: string): boolean => {
    const schema = schemaOf(name)
    return schema === undefined || (typesOf(schema)?.every((type) => type === "string") ?? false)
  }
  const read = (name: string, text: string): Value => {
    const schema = schemaOf(name)
    const string = { json: JSON.stringify(text), isValid: true }
    if (schema === undefined || isString(name)) return string
    const types = typesOf(schema)
    const allows = (type: string) => types === undefined || types.includes(type)
    const written = text.trim()
    if (/^(true|false)$/i.test(written) && allows("boolean")) return { json: written.toLowerCase(), isValid: true }
    if (/^(null|none)$/i.test(written) && allows("null")) return { json: "null", isValid: true }
    if (!isJson(written)) return { ...string, isValid: allows("string") }
    const kind = written.startsWith("{")
      ? "object"
      : written.startsWith("[")
        ? "array"
        : /^[-\d]/.test(written)
          ? "number"
          : "word"
    const fits = allows(kind) || (kind === "number" && allows("integer"))
    return fits || !allows("string") ? { json: written, isValid: true } : string
  }
  return { isString, read }
}
