/**
 * Agents give back what a turn said to them, and often less than that: most leave its reasoning out or keep a piece of it,
 * some trim its text. Such a message is the turn that was said, and its tokens are those that were sampled. One that says
 * anything else is another.
 */
import * as Message from "../Message.ts"
import * as Said from "./Said.ts"

/** @category model */
export interface Recall {
  /** Remembers what was said of a turn's message. */
  readonly add: (said: ReadonlyArray<Said.Part>, message: Message.AssistantMessage) => void
  /** The prompt with every message of a turn as the turn has it. */
  readonly restore: (messages: ReadonlyArray<Message.Message>) => ReadonlyArray<Message.Message>
}

/** Texts are their own keys; calls, which may be spelled in several ways, go by their hash. */
const keyOf = ({ content, toolCalls = [] }: Message.AssistantMessage): string => {
  const text = (content ?? "").trim()
  return toolCalls.length === 0
    ? `text ${text}`
    : `calls ${Message.hash({ role: "assistant", content: text, toolCalls })}`
}

/** @category constructors */
export const make = (): Recall => {
  const known = new Map<string, { readonly reasoning: string; readonly message: Message.AssistantMessage }>()
  const restored = (message: Message.AssistantMessage): Message.AssistantMessage => {
    const turn = known.get(keyOf(message))
    const { reasoningContent = "" } = message
    return turn?.reasoning.includes(reasoningContent.trim()) ? turn.message : message
  }
  return {
    add: (said, message) => {
      known.set(keyOf(Said.message(said)), { reasoning: Said.reasoning(said), message })
    },
    restore: (messages) =>
      known.size === 0
        ? messages
        : messages.map((message) => (message.role === "assistant" ? restored(message) : message))
  }
}
