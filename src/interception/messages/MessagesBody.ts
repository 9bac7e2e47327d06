/** The body of Anthropic's `POST /v1/messages`, of which all is read that changes what a turn is, and its conversation. */
import * as Schema from "effect/Schema"
import type { AssistantMessage, Message, ToolCall, ToolSpec } from "../../Message.ts"
import * as Fields from "../../wire/Fields.ts"

const Text = Fields.open({ type: Schema.Literal("text"), text: Schema.String })
const Texts = Schema.Union(Schema.String, Schema.Array(Text)).annotations({
  description: 'text, or a list of {type: "text", text}'
})
type Texts = typeof Texts.Type

const Block = Schema.Union(
  Text,
  Fields.open({ type: Schema.Literal("thinking"), thinking: Schema.String }),
  Fields.open({ type: Schema.Literal("redacted_thinking") }),
  Fields.open({ type: Schema.Literal("tool_use"), id: Fields.text, name: Fields.name, input: Schema.Unknown }),
  Fields.open({ type: Schema.Literal("tool_result"), tool_use_id: Fields.text, content: Fields.maybe(Texts) })
).annotations({ description: "a block of type text, thinking, tool_use or tool_result; texts are all that is read" })
type Block = typeof Block.Type

const BodyMessage = Fields.open({
  role: Schema.Literal("user", "assistant", "system"),
  content: Schema.Union(Schema.String, Schema.Array(Block)).annotations({ description: "text, or a list of blocks" })
}).annotations({ description: "a message of role user or assistant, with its content" })

const Tool = Fields.open({
  type: Fields.maybe(Schema.Literal("custom").annotations({ description: "left out: a tool of the agent's own" })),
  name: Fields.name,
  description: Fields.maybe(Fields.text),
  input_schema: Schema.Record({ key: Schema.String, value: Schema.Unknown })
})

/** What is counted and what is answered. @category schemas */
const conversation = {
  messages: Schema.NonEmptyArray(BodyMessage),
  system: Fields.maybe(Texts),
  tools: Fields.maybe(Schema.Array(Tool).annotations({ description: "a list of {name, input_schema}" })),
  tool_choice: Fields.maybe(
    Fields.open({ type: Schema.Literal("auto", "none") }).annotations({
      description: '{"type": "auto"} or {"type": "none"} (a call cannot be forced)'
    })
  )
}

/** Sampling is the run's: a temperature and its like are passed over, and so is what nobody here knows. @category schemas */
export const MessagesBody = Fields.open({
  ...conversation,
  max_tokens: Fields.count,
  stop_sequences: Fields.maybe(Schema.Array(Schema.String.pipe(Schema.minLength(1))).pipe(Schema.maxItems(64))),
  stream: Fields.maybe(Fields.flag),
  mcp_servers: Fields.onlyEmpty("tools are the agent's own")
})
/** @category model */
export type MessagesBody = typeof MessagesBody.Type

/** The body of `POST /v1/messages/count_tokens`. @category schemas */
export const CountBody = Fields.open(conversation)

const textOf = (texts: Texts | null | undefined): string =>
  texts == null ? "" : typeof texts === "string" ? texts : texts.map(({ text }) => text).join("\n\n")

/** A user's message holds the results of tools, which are messages of their own. */
const fromUser = (blocks: ReadonlyArray<Block>): ReadonlyArray<Message> => {
  const messages: Array<Message> = []
  let texts: Array<string> = []
  const flush = () => {
    if (texts.length > 0) messages.push({ role: "user", content: texts.join("\n\n") })
    texts = []
  }
  for (const block of blocks) {
    if (block.type === "text") texts.push(block.text)
    else if (block.type === "tool_result") {
      flush()
      messages.push({ role: "tool", toolCallId: block.tool_use_id, content: textOf(block.content) })
    }
  }
  flush()
  return messages
}

const fromAssistant = (blocks: ReadonlyArray<Block>): AssistantMessage => {
  const of = <T extends Block["type"]>(type: T) =>
    blocks.filter((block): block is Extract<Block, { readonly type: T }> => block.type === type)
  const reasoning = of("thinking")
  const calls = of("tool_use").map(
    ({ id, input, name }): ToolCall => ({ id, name, arguments: JSON.stringify(input ?? {}) })
  )
  return {
    role: "assistant",
    content: of("text")
      .map(({ text }) => text)
      .join(""),
    ...(reasoning.length === 0 ? {} : { reasoningContent: reasoning.map(({ thinking }) => thinking).join("") }),
    ...(calls.length === 0 ? {} : { toolCalls: calls })
  }
}

const messageOf = ({ content, role }: typeof BodyMessage.Type): ReadonlyArray<Message> => {
  const blocks: ReadonlyArray<Block> = typeof content === "string" ? [{ type: "text", text: content }] : content
  if (role === "assistant") return [fromAssistant(blocks)]
  const messages = fromUser(blocks)
  return role === "user"
    ? messages
    : messages.map((message) => (message.role === "user" ? { ...message, role: "system" } : message))
}

/** The conversation as renderers read it. @category conversions */
export const messagesOf = ({ messages, system }: typeof CountBody.Type): ReadonlyArray<Message> => {
  const instructions = textOf(system)
  return [
    ...(instructions === "" ? [] : [{ role: "system" as const, content: instructions }]),
    ...messages.flatMap(messageOf)
  ]
}

/** The tools as renderers read them. @category conversions */
export const toolsOf = ({ tool_choice, tools }: typeof CountBody.Type): ReadonlyArray<ToolSpec> =>
  tool_choice?.type === "none"
    ? []
    : (tools ?? []).map(({ description, input_schema, name }) => ({
        name,
        ...(description == null ? {} : { description }),
        parameters: input_schema
      }))
