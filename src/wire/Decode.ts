/** Checks a JSON body against a schema, and names everything that is wrong with it in one answer. */
import { isUtf8 } from "node:buffer"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { found } from "../internal/found.ts"
import { inWords } from "../internal/inWords.ts"
import { nearest } from "../internal/Nearest.ts"
import * as Allowed from "./Allowed.ts"
import { type ApiError, invalid } from "./ApiError.ts"

const written = (path: Allowed.Path): string =>
  path.reduce<string>(
    (text, key) => (typeof key === "number" ? `${text}[${key}]` : text === "" ? key : `${text}.${key}`),
    ""
  )

const at = (value: unknown, path: Allowed.Path): unknown =>
  path.reduce<unknown>((here, key) => (here as Readonly<Record<string, unknown>> | undefined)?.[key], value)

const kind = (of: unknown): string => {
  if (of === null) return "null"
  const text = typeof of === "object" && !Array.isArray(of) ? "an object" : found(of)
  return text.length > 60 ? `${text.slice(0, 60)}…` : text
}

const unknownKey = (schema: Schema.Schema.AnyNoContext, path: Allowed.Path): string => {
  const close = nearest(String(path.at(-1)), Allowed.at(schema, path.slice(0, -1)).keys)
  return `${written(path)}: unknown parameter${close === undefined ? "" : `; did you mean "${close}"?`}`
}

interface Problem {
  readonly param: string
  readonly text: string
}

/** One for each place that the schema describes. */
const problems = (schema: Schema.Schema.AnyNoContext, body: unknown, error: ParseResult.ParseError) => {
  const byPlace = new Map<string, Problem>()
  for (const issue of ParseResult.ArrayFormatter.formatErrorSync(error)) {
    const whole = issue.path.map((key) => (typeof key === "number" ? key : String(key)))
    const param = written(whole)
    if (issue._tag === "Unexpected") {
      byPlace.set(param, { param, text: unknownKey(schema, whole) })
      continue
    }
    const { allowed, path } = Allowed.at(schema, whole)
    const place = written(path)
    if (byPlace.has(place)) continue
    const what = issue._tag === "Missing" ? "missing" : `found ${kind(at(body, whole))}`
    byPlace.set(place, {
      param,
      text: `${param}: ${what}, allowed ${place === param ? "" : `as ${place} `}is ${allowed}`
    })
  }
  return Array.from(byPlace.values())
}

/** Problems that one answer names. */
const mostNamed = 20

const named = (wrong: ReadonlyArray<Problem>): string => {
  const texts = wrong.slice(0, mostNamed).map(({ text }) => text)
  return wrong.length > mostNamed ? `${texts.join("; ")}; and ${wrong.length - mostNamed} more` : texts.join("; ")
}

/** The value, or an error that names what is wrong in it; its `param` is the first of that. @category parsing */
export const decode = <A, I>(
  schema: Schema.Schema<A, I>,
  body: unknown,
  errors: "all" | "first" = "all"
): Either.Either<A, ApiError> =>
  Either.mapLeft(Schema.decodeUnknownEither(schema, { errors, onExcessProperty: "error" })(body), (error) => {
    const wrong = problems(schema, body, error)
    return invalid(named(wrong), { param: wrong[0]?.param })
  })

/** Deeper bodies are nobody's; what walks them without a bound runs out of stack. */
const mostLevels = 200

/**
 * Whether it is nested deeper. On the way it takes out the key that sets the prototype of an object that is copied key by
 * key: what stands under it would then be read as the object's own fields.
 */
const isDeeper = (value: unknown, levels: number): boolean => {
  if (typeof value !== "object" || value === null) return false
  if (levels === 0) return true
  if (Object.hasOwn(value, "__proto__")) Reflect.deleteProperty(value, "__proto__")
  return Object.values(value).some((inner) => isDeeper(inner, levels - 1))
}

/** A body longer than this has its first problem named alone: telling all would keep every other request waiting. */
const mostBytesToldInFull = 64 * 1024

/** Bytes that are UTF-8 as text, without the mark that some writers begin with. */
const textOf = (encoded: Uint8Array): string => {
  const text = Buffer.from(encoded.buffer, encoded.byteOffset, encoded.byteLength).toString()
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
}

/** The object in the bytes of a body, whatever it holds. @category parsing */
export const parse = (encoded: Uint8Array): Either.Either<object, ApiError> =>
  Either.gen(function* () {
    if (!isUtf8(encoded)) return yield* Either.left(invalid("the body is not UTF-8"))
    const json = textOf(encoded)
    const body = yield* Either.try({
      try: (): unknown => JSON.parse(json),
      catch: (cause) =>
        invalid(json === "" ? "the body is empty; it must be a JSON object" : `the body is not JSON: ${inWords(cause)}`)
    })
    if (typeof body !== "object" || body === null || Array.isArray(body)) {
      return yield* Either.left(invalid(`the body is ${kind(body)}; it must be a JSON object`))
    }
    return isDeeper(body, mostLevels)
      ? yield* Either.left(invalid(`the body is nested deeper than ${mostLevels} levels`))
      : body
  })

/** The body as `schema` reads it. @category parsing */
export const read = <A, I>(schema: Schema.Schema<A, I>, encoded: Uint8Array): Either.Either<A, ApiError> =>
  Either.flatMap(parse(encoded), (body) => decode(schema, body, encoded.length > mostBytesToldInFull ? "first" : "all"))
