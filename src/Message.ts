/** Chat messages, tool calls and tool specs: what people, judges and tools read. The trainer never reads text. */

/** @category model */
export type Role = "system" | "user" | "assistant" | "tool"

/** A function call of an assistant message; `arguments` is the JSON text as the model wrote it. @category model */
export interface ToolCall {
  readonly id: string
  readonly name: string
  readonly arguments: string
}

/** @category model */
export interface SystemMessage {
  readonly role: "system"
  readonly content: string
}
/** @category model */
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
/** @category model */
export interface ToolMessage {
  readonly role: "tool"
  readonly toolCallId: string
  readonly content: string
  readonly name?: string | undefined
}
/** @category model */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage

/** A tool the model may call; `parameters` is a JSON Schema. @category model */
export interface ToolSpec {
  readonly name: string
  readonly description?: string | undefined
  readonly parameters: Readonly<Record<string, unknown>>
}
