/** Reads a request's body against its schema, and names everything that is wrong with it in one answer. */
import * as HttpIncomingMessage from "@effect/platform/HttpIncomingMessage"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { found } from "../config/Decode.ts"
import { inWords } from "../internal/inWords.ts"
import { nearest } from "../internal/Nearest.ts"
import * as Allowed from "./Allowed.ts"
import { type ApiError, invalid } from "./ApiError.ts"

/** Most bytes of one request: ten thousand tokens as ids take about 60,000. @category limits */
export const maxBodyBytes = 32 * 1024 * 1024

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

/** The value, or an error that names every wrong field; its `param` is the first of them. @category parsing */
export const decode = <A, I>(schema: Schema.Schema<A, I>, body: unknown): Either.Either<A, ApiError> =>
  Either.mapLeft(Schema.decodeUnknownEither(schema, { errors: "all", onExcessProperty: "error" })(body), (error) => {
    const wrong = problems(schema, body, error)
    return invalid(wrong.map(({ text }) => text).join("; "), { param: wrong[0]?.param })
  })

const tooLarge = invalid(`the body is larger than ${maxBodyBytes} bytes`, { status: 413 })

const text = Effect.gen(function* () {
  const request = yield* HttpServerRequest.HttpServerRequest
  if (Number(request.headers["content-length"] ?? 0) > maxBodyBytes) return yield* tooLarge
  return yield* Effect.mapError(request.text, (error) =>
    error.cause instanceof Error && error.cause.message === "maxBytes exceeded"
      ? tooLarge
      : invalid(`the body cannot be read: ${inWords(error.cause)}`)
  )
}).pipe(HttpIncomingMessage.withMaxBodySize(Option.some(maxBodyBytes)))

/** The request's body as `schema` reads it. @category parsing */
export const read = <A, I>(schema: Schema.Schema<A, I>) =>
  Effect.gen(function* () {
    const json = yield* text
    const body = yield* Either.try({
      try: (): unknown => JSON.parse(json),
      catch: (cause) =>
        invalid(json === "" ? "the body is empty; it must be a JSON object" : `the body is not JSON: ${inWords(cause)}`)
    })
    if (typeof body !== "object" || body === null || Array.isArray(body)) {
      return yield* invalid(`the body is ${kind(body)}; it must be a JSON object`)
    }
    return yield* decode(schema, body)
  })
