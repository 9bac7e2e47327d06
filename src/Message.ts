/** Chat messages, tool calls and tool specs: what people, judges and tools read. The trainer never reads text. */
import { createHash } from "node:crypto"
import * as Either from "effect/Either"

/** Who a message is from. @category model */
export type Role = "system" | "user" | "assistant" | "tool"

/** A function call of an assistant message; `arguments` is the JSON text as the model wrote it. @category model */
export interface ToolCall {
  readonly id: string
  readonly name: string
  readonly arguments: string
}

/** Instructions that stand before a conversation. @category model */
export interface SystemMessage {
  readonly role: "system"
  readonly content: string
}
/** What is asked of the model. @category model */
export interface UserMessage {
  readonly role: "user"
  readonly content: string
}
/** `content` is null when the turn holds nothing but tool calls. @category model */
export interface AssistantMessage {
  readonly role: "assistant"
  readonly content: string | null
  readonly reasoningContent?: string | undefined
  readonly toolCalls?: ReadonlyArray<ToolCall> | undefined
}
/** What a tool answered to a call. @category model */
export interface ToolMessage {
  readonly role: "tool"
  readonly toolCallId: string
  readonly content: string
  readonly name?: string | undefined
}
/** One message of a conversation. @category model */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage

/** A tool the model may call; `parameters` is a JSON Schema. @category model */
export interface ToolSpec {
  readonly name: string
  readonly description?: string | undefined
  readonly parameters: Readonly<Record<string, unknown>>
  /** that the model is told to keep to the schema */
  readonly strict?: boolean | undefined
}

/** One spelling for equal JSON values: keys sorted, no spaces; text that is not JSON stays as it is. */
const canonicalJson = (text: string): string =>
  Either.match(
    Either.try(() => JSON.parse(text) as unknown),
    {
      onLeft: () => text,
      onRight: (value) =>
        JSON.stringify(value, (_, part: unknown) =>
          typeof part === "object" && part !== null && !Array.isArray(part)
            ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))
            : part
        )
    }
  )

const sameCalls = (a: ReadonlyArray<ToolCall>, b: ReadonlyArray<ToolCall>): boolean =>
  a.length === b.length &&
  a.every((call, i) => {
    const { arguments: text, id, name } = b[i]!
    if (call.id !== id || call.name !== name) return false
    return call.arguments === text || canonicalJson(call.arguments) === canonicalJson(text)
  })

/** Whether two messages are one for prefix sharing: exactly when their hashes are equal, without computing them. @category identity */
export const equals = (a: Message, b: Message): boolean => {
  if (a === b) return true
  if (a.role !== b.role || (a.content ?? "") !== (b.content ?? "")) return false
  if (a.role === "tool") return a.toolCallId === (b as ToolMessage).toolCallId
  if (a.role !== "assistant") return true
  const other = b as AssistantMessage
  return a.reasoningContent === other.reasoningContent && sameCalls(a.toolCalls ?? [], other.toolCalls ?? [])
}

/**
 * Identity of a message for prefix sharing, 32 hexadecimal digits. Equal for `content` null and "", and for tool
 * arguments that are the same JSON; reasoning "" and no reasoning differ; the name of a tool message is left out.
 *
 * @category identity
 */
export const hash = (message: Message): string => {
  const parts: Array<string> = [message.role, message.content ?? ""]
  if (message.role === "tool") parts.push(message.toolCallId)
  if (message.role === "assistant") {
    if (message.reasoningContent !== undefined) parts.push("reasoning", message.reasoningContent)
    for (const call of message.toolCalls ?? []) parts.push("call", call.id, call.name, canonicalJson(call.arguments))
  }
  // Each part goes in with its length, so that no two lists of parts read the same.
  const digest = createHash("sha256")
  for (const part of parts) digest.update(`${part.length}:${part}`)
  return digest.digest("hex").slice(0, 32)
}
