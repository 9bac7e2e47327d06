/** What a request could not have, in the form in which OpenAI's clients read errors. */
import * as Data from "effect/Data"

/** An answer that is an error. `param` is the field of the body that is to blame. @category errors */
export class ApiError extends Data.TaggedError("ApiError")<{
  readonly status: number
  readonly type:
    | "invalid_request_error"
    | "authentication_error"
    | "permission_error"
    | "overloaded_error"
    | "server_error"
  readonly reason: string
  readonly param?: string | undefined
  readonly code?: string | undefined
}> {
  override get message() {
    return this.reason
  }
}

/** The request is wrong and stays wrong. @category constructors */
export const invalid = (
  reason: string,
  more: { readonly status?: number; readonly param?: string | undefined; readonly code?: string | undefined } = {}
) => new ApiError({ status: 400, type: "invalid_request_error", reason, ...more })

/** The fault is the server's. @category constructors */
export const internal = (reason: string) => new ApiError({ status: 500, type: "server_error", reason })

/** The prompt leaves no room: OpenAI's words and code, by which clients know that a retry does not help. @category constructors */
export const promptTooLong = (tokens: number, maxLength: number, param: string) =>
  invalid(
    `This model's maximum context length is ${maxLength} tokens, and the prompt has ${tokens}, which leaves no room for a completion. Shorten it.`,
    { param, code: "context_length_exceeded" }
  )

/** The body of the answer. @category conversions */
export const json = ({ code, param, reason, type }: ApiError) => ({
  error: { message: reason, type, param: param ?? null, code: code ?? null }
})
