/** What a request could not have, as a whole answer. */
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { type ApiError, json } from "../wire/ApiError.ts"

export { ApiError, internal, invalid, json, promptTooLong } from "../wire/ApiError.ts"

/** The whole answer. @category conversions */
export const response = (error: ApiError): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.unsafeJson(json(error), {
    status: error.status,
    headers: {
      ...(error.status === 503 ? { "retry-after": "1" } : {}),
      ...(error.status === 401 ? { "www-authenticate": "Bearer" } : {}),
      // what is left of the body would be read as the next request
      ...(error.status === 413 ? { connection: "close" } : {})
    }
  })
