/** Who may ask: routes that want a key take it as `Authorization: Bearer`. */
import { createHash, timingSafeEqual } from "node:crypto"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { ApiError } from "./ApiError.ts"

const digest = (text: string) => createHash("sha256").update(text).digest()

/** Takes as long for every wrong key. */
const isSame = (given: string, key: Redacted.Redacted) => timingSafeEqual(digest(given), digest(Redacted.value(key)))

const unauthorized = (reason: string) =>
  new ApiError({ status: 401, type: "authentication_error", reason, code: "invalid_api_key" })

/** Fails unless the request brings the key. @category checks */
export const bearer = (key: Redacted.Redacted): Effect.Effect<void, ApiError, HttpServerRequest.HttpServerRequest> =>
  Effect.gen(function* () {
    const { headers } = yield* HttpServerRequest.HttpServerRequest
    const given = /^Bearer +(.+)$/i.exec(headers.authorization ?? "")?.[1]
    if (given === undefined) return yield* unauthorized("no key was given; send it as Authorization: Bearer KEY")
    if (!isSame(given.trim(), key)) return yield* unauthorized("the key is wrong")
  })

/** Fails without the admin's key, and always when the server has none. @category checks */
export const admin = (key: Redacted.Redacted | undefined) =>
  key === undefined
    ? Effect.fail(
        new ApiError({
          status: 403,
          type: "permission_error",
          reason:
            "the admin routes are off; start the server with --admin-key-var NAME, where NAME is an environment variable that holds a key"
        })
      )
    : bearer(key)
