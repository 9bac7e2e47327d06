/** The body of `POST /v1/chat/completions`, and the conversation in it. */
import * as Schema from "effect/Schema"
import * as Field from "../../config/Field.ts"
import type { Message, ToolSpec } from "../../Message.ts"
import * as Fields from "./Fields.ts"

const Content = Schema.Union(
  Schema.String,
  Schema.Array(Schema.Struct({ type: Schema.Literal("text"), text: Schema.String }))
).annotations({ description: 'text, or a list of {type: "text", text}' })
type Content = typeof Content.Type

const textOf = (content: Content): string =>
  typeof content === "string" ? content : content.map(({ text }) => text).join("")

const Call = Field.open({
  id: Fields.text,
  function: Field.open({ name: Fields.name, arguments: Fields.text })
})

// Messages come back as servers sent them, with fields that mean nothing here.
const ChatMessage = Schema.Union(
  Field.open({ role: Schema.Literal("system", "developer"), content: Content }),
  Field.open({ role: Schema.Literal("user"), content: Content }),
  Field.open({
    role: Schema.Literal("assistant"),
    content: Fields.maybe(Content),
    reasoning_content: Fields.maybe(Fields.text),
    reasoning: Fields.maybe(Fields.text),
    tool_calls: Fields.maybe(Schema.Array(Call))
  }),
  Field.open({ role: Schema.Literal("tool"), content: Content, tool_call_id: Fields.text })
).annotations({
  description:
    "a message of role system, developer, user, assistant or tool, with its content as text (and tool_call_id)"
})

const Tool = Field.open({
  type: Schema.Literal("function"),
  function: Field.open({
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

/** @category schemas */
export const ChatRequest = Schema.Struct({
  model: Fields.maybe(Fields.name),
  ...conversation,
  max_tokens: Fields.maybe(Field.count),
  max_completion_tokens: Fields.maybe(Field.count),
  logprobs: Fields.maybe(Fields.flag),
  top_logprobs: Fields.maybe(Fields.candidates),
  ...Fields.scoring,
  return_token_ids: Fields.maybe(Fields.flag),
  return_tokens_as_token_ids: Fields.maybe(Fields.flag),
  tool_choice: Fields.maybe(
    Schema.Literal("auto", "none").annotations({ description: '"auto" or "none" (a call cannot be forced)' })
  ),
  response_format: Fields.maybe(
    Schema.Struct({ type: Schema.Literal("text") }).annotations({
      description: '{"type": "text"} (answers of a given form are not supported)'
    })
  ),
  ignore_eos: Fields.only(false, "a chat turn ends where its format ends it"),
  add_generation_prompt: Fields.only(true, "the model always takes the next turn"),
  continue_final_message: Fields.only(false, "use /v1/completions with token ids to go on in the middle of a turn"),
  chat_template_kwargs: Fields.onlyEmpty("the format of the model takes no options here"),
  modalities: Fields.ignored,
  parallel_tool_calls: Fields.ignored,
  reasoning_effort: Fields.ignored,
  verbosity: Fields.ignored,
  include_reasoning: Fields.ignored,
  ...Fields.sampling,
  ...Fields.streaming,
  ...Fields.along
})
/** @category model */
export type ChatRequest = typeof ChatRequest.Type

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
export const messagesOf = ({ messages }: { readonly messages: ChatRequest["messages"] }): ReadonlyArray<Message> =>
  messages.map(messageOf)

/** The tools as renderers read them. @category conversions */
export const toolsOf = ({ tools }: { readonly tools?: ChatRequest["tools"] }): ReadonlyArray<ToolSpec> =>
  (tools ?? []).map(({ function: { description, name, parameters } }) => ({
    name,
    ...(description == null ? {} : { description }),
    parameters: parameters ?? {}
  }))
