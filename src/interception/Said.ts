/** All that a turn has said so far, in its order: what an agent knows of it, and gives back in its next prompt. */
import type { AssistantMessage, ToolCall } from "../Message.ts"
import type { Delta } from "./Delta.ts"

/** Neighbours of one kind are one part. @category model */
export type Part =
  | { readonly type: "reasoning" | "content"; readonly text: string }
  | { readonly type: "call"; readonly call: ToolCall }

/** @category combinators */
export const add = (said: ReadonlyArray<Part>, deltas: ReadonlyArray<Delta>): ReadonlyArray<Part> => {
  let parts = [...said]
  for (const delta of deltas) {
    const last = parts.at(-1)
    if (delta.type === "contentRevoked") parts = parts.filter(({ type }) => type !== "content")
    else if (delta.type === "call") parts.push(delta)
    else if (last?.type === delta.type) parts[parts.length - 1] = { type: delta.type, text: last.text + delta.text }
    else parts.push(delta)
  }
  return parts
}

const textOf = (said: ReadonlyArray<Part>, type: "reasoning" | "content"): string =>
  said.map((part) => (part.type === type ? part.text : "")).join("")

/** @category getters */
export const content = (said: ReadonlyArray<Part>): string => textOf(said, "content")

/** @category getters */
export const reasoning = (said: ReadonlyArray<Part>): string => textOf(said, "reasoning")

/** @category getters */
export const calls = (said: ReadonlyArray<Part>): ReadonlyArray<ToolCall> =>
  said.flatMap((part) => (part.type === "call" ? [part.call] : []))

/** The message as an agent gives it back that keeps all of it. @category conversions */
export const message = (said: ReadonlyArray<Part>): AssistantMessage => {
  const thought = reasoning(said)
  return {
    role: "assistant",
    content: content(said),
    toolCalls: calls(said),
    ...(thought === "" ? {} : { reasoningContent: thought })
  }
}
