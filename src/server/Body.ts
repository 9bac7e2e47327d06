/** Reads the body of a request. */
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { inWords } from "../internal/inWords.ts"
import { invalid } from "../wire/ApiError.ts"
import * as Decode from "../wire/Decode.ts"

/** Most bytes of one request: ten thousand tokens as ids take about 60,000. @category limits */
export const maxBodyBytes = 32 * 1024 * 1024

const tooLarge = invalid(`the body is larger than ${maxBodyBytes} bytes`, { status: 413 })
const unreadable = (cause: unknown) => invalid(`the body cannot be read: ${inWords(cause)}`)

/** What is too much is read and forgotten, so that the client hears of it instead of a connection that breaks. */
const bytes = Effect.gen(function* () {
  const request = yield* HttpServerRequest.HttpServerRequest
  if (Number(request.headers["content-length"] ?? 0) > maxBodyBytes) return yield* tooLarge
  const parts: Array<Uint8Array> = []
  let size = 0
  yield* Stream.runForEach(request.stream, (part) =>
    Effect.sync(() => {
      size += part.length
      if (size <= maxBodyBytes) parts.push(part)
      else parts.length = 0
    })
  ).pipe(Effect.mapError(({ cause }) => unreadable(cause)))
  return size > maxBodyBytes ? yield* tooLarge : Buffer.concat(parts)
})

/** The request's body as `schema` reads it. @category parsing */
export const read = <A, I>(schema: Schema.Schema<A, I>) =>
  Effect.flatMap(bytes, (encoded) => Decode.read(schema, encoded))
