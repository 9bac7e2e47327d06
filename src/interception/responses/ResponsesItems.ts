/** The output of a response: one item for each part of a turn, in the order in which they were said. */
import type { Completion } from "../../Session.ts"
import * as Logprobs from "../../wire/Logprobs.ts"
import type { Identity } from "../Dialect.ts"
import type { Part } from "../Said.ts"
import type { ResponsesBody } from "./ResponsesBody.ts"

const prefixes: Readonly<Record<Part["type"], string>> = { content: "msg", reasoning: "rs", call: "fc" }

/** @category items */
export const idOf = ({ id }: Identity, type: Part["type"], index: number): string => `${prefixes[type]}_${id}_${index}`

/** The log-probabilities of a turn, where they are asked for. @category items */
export const logprobsOf = (
  { include }: ResponsesBody,
  { spelling }: Identity,
  { logprobs, tokenIds }: Completion
): ReadonlyArray<object> =>
  include?.includes("message.output_text.logprobs") === true
    ? Logprobs.chatContent(
        Array.from(tokenIds, (id, at) => ({ id, logprob: logprobs[at]! })),
        { spelling, candidates: 0 }
      )
    : []

/** What a message or its reasoning holds. @category items */
export const contentOf = (type: "content" | "reasoning", text: string, logprobs: ReadonlyArray<object>): object =>
  type === "reasoning" ? { type: "reasoning_text", text } : { type: "output_text", text, annotations: [], logprobs }

/** An item with all of its content. @category items */
export const whole = (part: Part, id: string, logprobs: ReadonlyArray<object>): object => {
  switch (part.type) {
    case "content":
      return {
        id,
        type: "message",
        status: "completed",
        role: "assistant",
        content: [contentOf(part.type, part.text, logprobs)]
      }
    case "reasoning":
      return { id, type: "reasoning", summary: [], content: [contentOf(part.type, part.text, [])] }
    case "call": {
      const { arguments: json, id: callId, name } = part.call
      return { id, type: "function_call", status: "completed", call_id: callId, name, arguments: json }
    }
  }
}

/** An item as it is announced. @category items */
export const begun = (part: Part, id: string): object => {
  switch (part.type) {
    case "content":
      return { id, type: "message", status: "in_progress", role: "assistant", content: [] }
    case "reasoning":
      return { id, type: "reasoning", summary: [], content: [] }
    case "call": {
      const { id: callId, name } = part.call
      return { id, type: "function_call", status: "in_progress", call_id: callId, name, arguments: "" }
    }
  }
}

/** All items of a turn; log-probabilities are those of the whole turn, and stand with its last text. @category items */
export const all = (
  body: ResponsesBody,
  identity: Identity,
  said: ReadonlyArray<Part>,
  completion: Completion
): ReadonlyArray<object> => {
  const last = said.findLastIndex(({ type }) => type === "content")
  return said.map((part, index) =>
    whole(part, idOf(identity, part.type, index), index === last ? logprobsOf(body, identity, completion) : [])
  )
}
