/** Why a request has no turn, as an answer that tells a client whether to try again: 4xx never, 5xx perhaps. */
import type { CompletionError } from "../Session.ts"
import { ApiError, internal, invalid, promptTooLong } from "../wire/ApiError.ts"

/** Told alike of a rollout that is over, one that never was, and a wrong secret. @category constants */
export const unauthorized = new ApiError({
  status: 401,
  type: "authentication_error",
  reason: "the key is not that of a rollout under this address",
  code: "invalid_api_key"
})

/** @category constants */
export const over = invalid("the rollout is over: the model takes no further turn", { code: "rollout_over" })

/** @category constants */
export const defect = internal("a defect of the server; it is in its log")

/** @category conversions */
export const of = (error: CompletionError): ApiError => {
  switch (error._tag) {
    case "RendererError":
      return invalid(`messages: ${error.reason}`, { param: "messages" })
    case "Stopped": {
      if (error.reason !== "prompt_too_long") return invalid(error.message, { code: `rollout_over_${error.reason}` })
      return error.prompt === undefined
        ? invalid(error.message, { code: "context_length_exceeded", param: "messages" })
        : promptTooLong(error.prompt.tokens, error.prompt.most + 1, "messages")
    }
    case "ConditionError":
      return invalid(error.message, { code: "rollout_over_task" })
    default:
      return new ApiError({ status: 502, type: "server_error", reason: error.message })
  }
}
