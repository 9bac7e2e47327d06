/** What a turn of the model says, as OpenAI's clients read it: all at once, or in deltas. */
import type { Finish } from "./Choice.ts"
import type { Delta } from "./Reader.ts"

interface Call {
  readonly id: string
  readonly type: "function"
  readonly function: { readonly name: string; readonly arguments: string }
}

/** Of calls that are well formed, in their order; ids are the turn's own. @category conversions */
const callsOf = (deltas: ReadonlyArray<Delta>, options: { readonly promptTokens: number; readonly before: number }) =>
  deltas
    .flatMap((delta) => (delta.type === "toolCall" ? [delta.call] : []))
    .map(
      ({ arguments: text = "{}", name = "" }, index): Call => ({
        id: `call_${options.promptTokens}_${options.before + index}`,
        type: "function",
        function: { name, arguments: text }
      })
    )

const textOf = (deltas: ReadonlyArray<Delta>, type: "content" | "reasoning"): string =>
  deltas.map((delta) => (delta.type === type ? delta.text : "")).join("")

/** The whole message. @category conversions */
export const message = (deltas: ReadonlyArray<Delta>, promptTokens: number) => {
  const revoked = deltas.findLastIndex(({ type }) => type === "contentRevoked")
  const content = textOf(deltas.slice(revoked + 1), "content")
  const reasoning = textOf(deltas, "reasoning")
  const calls = callsOf(deltas, { promptTokens, before: 0 })
  return {
    role: "assistant",
    content: content === "" && calls.length > 0 ? null : content,
    refusal: null,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls })
  }
}

/** What one part adds to the message; `before` counts the calls that were told. What was sent cannot be taken back. @category conversions */
export const delta = (
  deltas: ReadonlyArray<Delta>,
  options: { readonly promptTokens: number; readonly before: number }
) => {
  const content = textOf(deltas, "content")
  const reasoning = textOf(deltas, "reasoning")
  const calls = callsOf(deltas, options)
  return {
    ...(content === "" ? {} : { content }),
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0
      ? {}
      : { tool_calls: calls.map((call, index) => ({ index: options.before + index, ...call })) })
  }
}

/** How many calls the deltas tell of. @category getters */
export const callCount = (deltas: ReadonlyArray<Delta>): number =>
  deltas.filter(({ type }) => type === "toolCall").length

/** A turn that ends with calls says so. @category conversions */
export const finishReason = (finish: Finish | undefined, calls: number) =>
  finish === undefined ? null : finish.reason === "stop" && calls > 0 ? "tool_calls" : finish.reason
