/** Tools in the shapes in which programs say them, as the one shape that all formats render. */
import * as Data from "effect/Data"
import * as Either from "effect/Either"
import type { ToolSpec } from "../Message.ts"
import { pythonJson } from "./internal/pythonJson.ts"

/** A tool that cannot be rendered, or contradicts itself. @category errors */
export class ToolSpecError extends Data.TaggedError("ToolSpecError")<{
  readonly index: number
  readonly reason: string
}> {
  override get message() {
    return `tools[${this.index}] ${this.reason}`
  }
}

type Json = Readonly<Record<string, unknown>>

const isRecord = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

/** Where a shape keeps the JSON Schema of the arguments. */
const schemaKeys = ["parameters", "input_schema", "inputSchema"]

const read = (tool: unknown, index: number): Either.Either<ToolSpec, ToolSpecError> => {
  const fail = (reason: string) => Either.left(new ToolSpecError({ index, reason }))
  if (!isRecord(tool)) return fail("is no object")
  const { type } = tool
  if (type !== undefined && type !== "function" && type !== "custom") {
    return fail(`has the type ${JSON.stringify(type)}; only functions can be rendered`)
  }
  // Anthropic calls the tools of a caller "custom" and gives them a schema; OpenAI's have none
  if (type === "custom" && tool.input_schema === undefined) {
    return fail('has the type "custom"; only functions can be rendered')
  }
  const inner = tool.function
  if (inner !== undefined && !isRecord(inner)) return fail("has a function that is no object")
  const said: Json = inner ?? tool
  const { description, name, strict } = said
  if (typeof name !== "string" || name === "") return fail("has no name")
  if (description !== undefined && description !== null && typeof description !== "string") {
    return fail(`(${name}) has a description that is no string`)
  }
  if (strict !== undefined && strict !== null && typeof strict !== "boolean") {
    return fail(`(${name}) has "strict" that is neither true nor false`)
  }
  const schemas = schemaKeys.filter((key) => said[key] !== undefined && said[key] !== null)
  const [first] = schemas
  if (schemas.length > 1 && schemas.some((key) => JSON.stringify(said[key]) !== JSON.stringify(said[first!]))) {
    return fail(`(${name}) has two schemas that differ, in ${schemas.join(" and ")}`)
  }
  const parameters: unknown = first === undefined ? { type: "object", properties: {} } : said[first]
  if (!isRecord(parameters)) return fail(`(${name}) has ${first} that is no object`)
  return Either.right({
    name,
    ...(typeof description === "string" ? { description } : {}),
    // a copy, so that what a caller does with its own later changes nothing
    parameters: structuredClone(parameters) as Json,
    ...(typeof strict === "boolean" ? { strict } : {})
  })
}

/**
 * Reads the flat shape (name, description, parameters), OpenAI's of chat completions and of responses, Anthropic's
 * (`input_schema`) and MCP's (`inputSchema`). No tools and an empty list stay different.
 *
 * @category constructors
 */
export const normalise = (tools: unknown): Either.Either<ReadonlyArray<ToolSpec> | undefined, ToolSpecError> => {
  if (tools === undefined || tools === null) return Either.right(undefined)
  if (!Array.isArray(tools)) return Either.left(new ToolSpecError({ index: 0, reason: "is in no list" }))
  return Either.all(tools.map(read))
}

/** Arguments that came as an object instead of as text, in the spelling of chat templates. @category conversions */
export const argumentsText = (given: Readonly<Record<string, unknown>>): string => pythonJson(given)
