/** The body of OpenAI's `POST /v1/responses`, of which all is read that changes what a turn is, and its conversation. */
import * as Schema from "effect/Schema"
import type { AssistantMessage, Message, ToolSpec } from "../../Message.ts"
import * as Fields from "../../wire/Fields.ts"

const TextPart = Fields.open({
  type: Schema.Literal("input_text", "output_text", "text", "summary_text", "reasoning_text"),
  text: Schema.String
})
const Texts = Schema.Union(Schema.String, Schema.Array(TextPart)).annotations({
  description: "text, or a list of parts of type input_text or output_text; texts are all that is read"
})

const Item = Schema.Union(
  Fields.open({
    type: Schema.Literal("function_call"),
    call_id: Fields.text,
    name: Fields.name,
    arguments: Fields.text
  }),
  Fields.open({ type: Schema.Literal("function_call_output"), call_id: Fields.text, output: Texts }),
  Fields.open({
    type: Schema.Literal("reasoning"),
    summary: Fields.maybe(Schema.Array(TextPart)),
    content: Fields.maybe(Schema.Array(TextPart))
  }),
  Fields.open({
    type: Fields.maybe(Schema.Literal("message")),
    role: Schema.Literal("user", "assistant", "system", "developer"),
    content: Texts
  })
).annotations({
  description: "a message with role and content, or an item of type function_call, function_call_output or reasoning"
})
type Item = typeof Item.Type

const Tool = Fields.open({
  type: Schema.Literal("function"),
  name: Fields.name,
  description: Fields.maybe(Fields.text),
  parameters: Fields.maybe(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
}).annotations({ description: '{type: "function", name, parameters} (tools of a provider are none here)' })

/** Sampling is the run's: a temperature and its like are passed over, and so is what nobody here knows. @category schemas */
export const ResponsesBody = Fields.open({
  input: Schema.Union(Schema.NonEmptyString, Schema.NonEmptyArray(Item)).annotations({
    description: "text, or a list of items"
  }),
  instructions: Fields.maybe(Fields.text),
  max_output_tokens: Fields.maybe(Fields.count),
  stream: Fields.maybe(Fields.flag),
  tools: Fields.maybe(Schema.Array(Tool)),
  tool_choice: Fields.maybe(
    Schema.Literal("auto", "none").annotations({ description: '"auto" or "none" (a call cannot be forced)' })
  ),
  text: Fields.maybe(
    Fields.open({
      format: Fields.maybe(
        Fields.open({ type: Schema.Literal("text") }).annotations({
          description: '{"type": "text"} (answers of a given form are not supported)'
        })
      )
    })
  ),
  include: Fields.maybe(Schema.Array(Schema.String)),
  previous_response_id: Fields.onlyEmpty("responses are not kept: send the whole input"),
  conversation: Fields.onlyEmpty("conversations are not kept: send the whole input"),
  background: Fields.only(false, "answers are not kept: wait for this one")
})
/** @category model */
export type ResponsesBody = typeof ResponsesBody.Type

const textOf = (texts: typeof Texts.Type, between = ""): string =>
  typeof texts === "string" ? texts : texts.map(({ text }) => text).join(between)

const reasoningOf = ({ content, summary }: Extract<Item, { readonly type: "reasoning" }>): string =>
  textOf(content == null || content.length === 0 ? (summary ?? []) : content)

/** Neighbours on the side of the model are one message: reasoning, text and calls of one turn. */
const join = (a: AssistantMessage, b: AssistantMessage): AssistantMessage => {
  const reasoning = (a.reasoningContent ?? "") + (b.reasoningContent ?? "")
  const calls = [...(a.toolCalls ?? []), ...(b.toolCalls ?? [])]
  return {
    role: "assistant",
    content: (a.content ?? "") + (b.content ?? ""),
    ...(reasoning === "" ? {} : { reasoningContent: reasoning }),
    ...(calls.length === 0 ? {} : { toolCalls: calls })
  }
}

const messageOf = (item: Item): Message => {
  switch (item.type) {
    case "function_call":
      return {
        role: "assistant",
        content: "",
        toolCalls: [{ id: item.call_id, name: item.name, arguments: item.arguments }]
      }
    case "function_call_output":
      return { role: "tool", toolCallId: item.call_id, content: textOf(item.output) }
    case "reasoning":
      return { role: "assistant", content: "", reasoningContent: reasoningOf(item) }
    default: {
      const role = item.role === "developer" ? "system" : item.role
      return { role, content: textOf(item.content) }
    }
  }
}

/** The conversation as renderers read it. @category conversions */
export const messagesOf = ({ input, instructions }: ResponsesBody): ReadonlyArray<Message> => {
  const messages: Array<Message> =
    instructions == null || instructions === "" ? [] : [{ role: "system", content: instructions }]
  const items: ReadonlyArray<Item> = typeof input === "string" ? [{ role: "user", content: input }] : input
  for (const message of items.map(messageOf)) {
    const last = messages.at(-1)
    if (last?.role === "assistant" && message.role === "assistant") messages[messages.length - 1] = join(last, message)
    else messages.push(message)
  }
  return messages
}

/** The tools as renderers read them. @category conversions */
export const toolsOf = ({ tool_choice, tools }: ResponsesBody): ReadonlyArray<ToolSpec> =>
  tool_choice === "none"
    ? []
    : (tools ?? []).map(({ description, name, parameters }) => ({
        name,
        ...(description == null ? {} : { description }),
        parameters: parameters ?? {}
      }))
