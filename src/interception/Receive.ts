/** The body of a request as it arrives. What is too much is read and forgotten, so that the client hears of it. */
import type { IncomingMessage } from "node:http"
import * as Either from "effect/Either"
import { type ApiError, invalid } from "../wire/ApiError.ts"

/** Calls back once, unless the client goes away before its body is whole. @category receiving */
export const receive = (
  request: IncomingMessage,
  maxBytes: number,
  done: (body: Either.Either<Uint8Array, ApiError>) => void
): void => {
  const tooLarge = () => Either.left(invalid(`the body is larger than ${maxBytes} bytes`, { status: 413 }))
  if (Number(request.headers["content-length"] ?? 0) > maxBytes) {
    request.resume()
    done(tooLarge())
    return
  }
  const parts: Array<Buffer> = []
  let size = 0
  request.on("data", (part: Buffer) => {
    size += part.length
    if (size <= maxBytes) parts.push(part)
    else parts.length = 0
  })
  request.on("end", () => {
    done(size > maxBytes ? tooLarge() : Either.right(parts.length === 1 ? parts[0]! : Buffer.concat(parts)))
  })
  // It goes away: there is nobody to answer.
  request.on("error", () => {})
}
