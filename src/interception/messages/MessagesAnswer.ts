/** A turn as Anthropic's clients read it: blocks of thinking, text and tool use, in the order in which they were said. */
import type { Completion } from "../../Session.ts"
import type { ApiError } from "../../wire/ApiError.ts"
import * as Sse from "../../wire/Sse.ts"
import type { Identity, Writer } from "../Dialect.ts"
import type { Part } from "../Said.ts"

const blockOf = (part: Part): object => {
  switch (part.type) {
    case "content":
      return { type: "text", text: part.text }
    case "reasoning":
      return { type: "thinking", thinking: part.text, signature: "" }
    case "call":
      return { type: "tool_use", id: part.call.id, name: part.call.name, input: JSON.parse(part.call.arguments) }
  }
}

const ending = ({ finishReason, stop }: Completion, hasCalls: boolean) => ({
  stop_reason:
    stop !== undefined
      ? "stop_sequence"
      : finishReason === "length"
        ? "max_tokens"
        : hasCalls
          ? "tool_use"
          : "end_turn",
  stop_sequence: stop ?? null
})

const usage = (inputTokens: number, outputTokens: number) => ({
  input_tokens: inputTokens,
  output_tokens: outputTokens,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0
})

const head = ({ id, model }: Identity) => ({ id: `msg_${id}`, type: "message", role: "assistant", model })

/** @category answers */
export const whole = (identity: Identity, said: ReadonlyArray<Part>, completion: Completion): object => ({
  ...head(identity),
  content: said.map(blockOf),
  ...ending(
    completion,
    said.some(({ type }) => type === "call")
  ),
  usage: usage(completion.promptTokens, completion.tokenIds.length)
})

const kinds: Readonly<Record<ApiError["type"], string>> = {
  invalid_request_error: "invalid_request_error",
  authentication_error: "authentication_error",
  permission_error: "permission_error",
  overloaded_error: "overloaded_error",
  server_error: "api_error"
}

/** @category errors */
export const error = ({ reason, status, type }: ApiError): object => ({
  type: "error",
  error: {
    type: status === 404 ? "not_found_error" : status === 413 ? "request_too_large" : kinds[type],
    message: reason
  }
})

const event = (data: { readonly type: string } & Readonly<Record<string, unknown>>): string =>
  Sse.frame(JSON.stringify(data), data.type)

/** @category answers */
export const writer = (identity: Identity): Writer => {
  let index = -1
  let open: "text" | "thinking" | undefined
  let hasCalls = false

  const start = (block: object) => {
    index++
    return event({ type: "content_block_start", index, content_block: block })
  }
  const delta = (more: object) => event({ type: "content_block_delta", index, delta: more })
  const stop = () => event({ type: "content_block_stop", index })
  /** A block is closed before the next one opens. */
  const close = () => {
    if (open === undefined) return ""
    open = undefined
    return stop()
  }
  const text = (type: "text" | "thinking", more: object) => {
    if (open === type) return delta(more)
    const before = close()
    open = type
    const empty = type === "text" ? { type, text: "" } : { type, thinking: "", signature: "" }
    return before + start(empty) + delta(more)
  }

  return {
    begin: (promptTokens) =>
      event({
        type: "message_start",
        message: {
          ...head(identity),
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: usage(promptTokens, 0)
        }
      }),
    said: (deltas) =>
      deltas
        .map((said) => {
          switch (said.type) {
            case "content":
              return text("text", { type: "text_delta", text: said.text })
            case "reasoning":
              return text("thinking", { type: "thinking_delta", thinking: said.text })
            case "call": {
              hasCalls = true
              const { arguments: json, id, name } = said.call
              const opening = close() + start({ type: "tool_use", id, name, input: {} })
              return opening + delta({ type: "input_json_delta", partial_json: json }) + stop()
            }
            default:
              return ""
          }
        })
        .join(""),
    end: (completion) =>
      close() +
      event({
        type: "message_delta",
        delta: ending(completion, hasCalls),
        usage: usage(completion.promptTokens, completion.tokenIds.length)
      }) +
      event({ type: "message_stop" }),
    fail: (failure) => Sse.frame(JSON.stringify(error(failure)), "error")
  }
}
