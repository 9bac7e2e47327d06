/** Tools as the harmony format declares them: a TypeScript namespace. */
import type { ToolSpec } from "../../Message.ts"

type Json = Readonly<Record<string, unknown>>

const isRecord = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

const unionOf = (variants: ReadonlyArray<unknown>, depth: number): string =>
  variants.map((variant) => typeOf(variant, depth)).join(" | ")

const nullable = (schema: Json, type: string): string => (schema.nullable === true ? `${type} | null` : type)

/** The type of a value of a schema. */
const typeOf = (schema: unknown, depth: number): string => {
  if (!isRecord(schema)) return "any"
  const { anyOf, items, oneOf, type } = schema
  if (Array.isArray(oneOf)) return unionOf(oneOf, depth)
  if (Array.isArray(anyOf)) return unionOf(anyOf, depth)
  if (Array.isArray(type)) {
    return type.map((one: unknown) => (one === "integer" ? "number" : String(one))).join(" | ")
  }
  if (type === "object") return isRecord(schema.properties) ? objectOf(schema, depth) : "object"
  if (type === "string") {
    const { enum: values } = schema
    const text = Array.isArray(values) ? values.map((value: unknown) => `"${String(value)}"`).join(" | ") : "string"
    return nullable(schema, text)
  }
  if (type === "number" || type === "integer") return nullable(schema, "number")
  if (type === "boolean") return nullable(schema, "boolean")
  if (type === "array") return nullable(schema, items === undefined ? "Array<any>" : `${typeOf(items, depth)}[]`)
  return "any"
}

const defaultOf = (schema: Json): string => {
  const { default: value } = schema
  if (value === undefined) return ""
  const text = typeof value === "string" && !Array.isArray(schema.enum) ? JSON.stringify(value) : String(value)
  return ` // default: ${typeof value === "object" ? JSON.stringify(value) : text}`
}

const comment = (text: unknown, indent: string): string =>
  typeof text === "string" && text !== ""
    ? `${text
        .split("\n")
        .map((line) => `${indent}// ${line}`)
        .join("\n")}\n`
    : ""

const objectOf = (schema: Json, depth: number): string => {
  const { properties, required } = schema
  const names: ReadonlyArray<unknown> = Array.isArray(required) ? required : []
  const indent = "    ".repeat(depth)
  const members = Object.entries(isRecord(properties) ? properties : {}).map(([name, value]) => {
    const property = isRecord(value) ? value : {}
    const mark = names.includes(name) ? "" : "?"
    return `${comment(property.description, indent)}${indent}${name}${mark}: ${typeOf(value, depth + 1)},${defaultOf(property)}\n`
  })
  return `{\n${members.join("")}${"    ".repeat(Math.max(0, depth - 1))}}`
}

/** The namespace of a conversation's functions. @category conversions */
export const namespaceOf = (tools: ReadonlyArray<ToolSpec>): string => {
  const types = tools.map(({ description, name, parameters }) => {
    const hasArguments = isRecord(parameters.properties) && Object.keys(parameters.properties).length > 0
    const given = hasArguments ? `(_: ${objectOf(parameters, 0)})` : "()"
    return `${comment(description, "")}type ${name} = ${given} => any;\n\n`
  })
  return `# Tools\n\n## functions\n\nnamespace functions {\n\n${types.join("")}} // namespace functions`
}
