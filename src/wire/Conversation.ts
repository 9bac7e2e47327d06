/** A conversation and its tools as OpenAI's chat bodies hold them. */
import * as Schema from "effect/Schema"
import type { Message, ToolSpec } from "../Message.ts"
import * as Fields from "./Fields.ts"

const Content = Schema.Union(
  Schema.String,
  Schema.Array(Fields.open({ type: Schema.Literal("text"), text: Schema.String }))
).annotations({ description: 'text, or a list of {type: "text", text}' })
type Content = typeof Content.Type

const textOf = (content: Content): string =>
  typeof content === "string" ? content : content.map(({ text }) => text).join("")

const Call = Fields.open({
  id: Fields.text,
  function: Fields.open({ name: Fields.name, arguments: Fields.text })
})

// Messages come back as servers sent them, with fields that mean nothing here.
const ChatMessage = Schema.Union(
  Fields.open({ role: Schema.Literal("system", "developer"), content: Content }),
  Fields.open({ role: Schema.Literal("user"), content: Content }),
  Fields.open({
    role: Schema.Literal("assistant"),
    content: Fields.maybe(Content),
    reasoning_content: Fields.maybe(Fields.text),
    reasoning: Fields.maybe(Fields.text),
    tool_calls: Fields.maybe(Schema.Array(Call))
  }),
  Fields.open({ role: Schema.Literal("tool"), content: Content, tool_call_id: Fields.text })
).annotations({
  description:
    "a message of role system, developer, user, assistant or tool, with its content as text (and tool_call_id)"
})

const Tool = Fields.open({
  type: Schema.Literal("function"),
  function: Fields.open({
    name: Fields.name,
    description: Fields.maybe(Fields.text),
    parameters: Fields.maybe(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
  })
})

/** What is rendered. @category schemas */
export const conversation = {
  messages: Schema.NonEmptyArray(ChatMessage),
  tools: Fields.maybe(Schema.Array(Tool).annotations({ description: 'a list of {type: "function", function}' }))
}

interface Conversation {
  readonly messages: (typeof conversation.messages)["Type"]
  readonly tools?: ReadonlyArray<typeof Tool.Type> | null
}

const messageOf = (message: typeof ChatMessage.Type): Message => {
  switch (message.role) {
    case "system":
    case "developer":
      return { role: "system", content: textOf(message.content) }
    case "user":
      return { role: "user", content: textOf(message.content) }
    case "tool":
      return { role: "tool", toolCallId: message.tool_call_id, content: textOf(message.content) }
    case "assistant": {
      const reasoning = message.reasoning_content ?? message.reasoning
      const calls = message.tool_calls ?? []
      return {
        role: "assistant",
        content: message.content == null ? null : textOf(message.content),
        ...(reasoning == null ? {} : { reasoningContent: reasoning }),
        ...(calls.length === 0
          ? {}
          : {
              toolCalls: calls.map(({ function: { arguments: text, name }, id }) => ({ id, name, arguments: text }))
            })
      }
    }
  }
}

/** The conversation as renderers read it. @category conversions */
export const messagesOf = ({ messages }: { readonly messages: Conversation["messages"] }): ReadonlyArray<Message> =>
  messages.map(messageOf)

/** The tools as renderers read them. @category conversions */
export const toolsOf = ({ tools }: { readonly tools?: Conversation["tools"] }): ReadonlyArray<ToolSpec> =>
  (tools ?? []).map(({ function: { description, name, parameters } }) => ({
    name,
    ...(description == null ? {} : { description }),
    parameters: parameters ?? {}
  }))
