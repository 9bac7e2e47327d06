/** What the native layer could not do. */
import * as Data from "effect/Data"

/**
 * `code` is stable: ERR_CANCELLED, ERR_DISPOSED, ERR_STATE, ERR_BATCH, ERR_CONFIG, ERR_TENSOR, ERR_PROMPT_TOO_LONG,
 * ERR_NONFINITE, ERR_OUT_OF_MEMORY, ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE, ERR_NOT_BUILT, ERR_NATIVE.
 *
 * @category errors
 */
export class NativeError extends Data.TaggedError("NativeError")<{
  readonly operation: string
  readonly code: string
  readonly reason: string
}> {
  override get message() {
    return `native ${this.operation}: ${this.reason} (${this.code})`
  }
}

/** The error for whatever the addon threw or rejected with. @category constructors */
export const fromUnknown = (operation: string, cause: unknown): NativeError => {
  const code = cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : "ERR_NATIVE"
  return new NativeError({ operation, code, reason: cause instanceof Error ? cause.message : String(cause) })
}
