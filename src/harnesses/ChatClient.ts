/** OpenAI's chat completions as a client asks for them: a conversation and its tools out, the next message back. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { Endpoint } from "../Interception.ts"
import type { Failure } from "../inference/openai/Failure.ts"
import * as Failures from "../inference/openai/Failure.ts"
import * as Http from "../inference/openai/Http.ts"
import type { AssistantMessage, Message, ToolSpec } from "../Message.ts"

const Answer = Schema.Struct({
  choices: Schema.NonEmptyArray(
    Schema.Struct({
      message: Schema.Struct({
        content: Schema.optional(Schema.NullOr(Schema.String)),
        reasoning_content: Schema.optional(Schema.NullOr(Schema.String)),
        tool_calls: Schema.optional(
          Schema.NullOr(
            Schema.Array(
              Schema.Struct({
                id: Schema.String,
                function: Schema.Struct({ name: Schema.String, arguments: Schema.String })
              })
            )
          )
        )
      })
    })
  )
})
const decode = Schema.decodeUnknown(Answer)

const wireOf = (message: Message): object => {
  if (message.role === "tool") return { role: "tool", tool_call_id: message.toolCallId, content: message.content }
  if (message.role !== "assistant") return message
  const { content, reasoningContent, toolCalls } = message
  return {
    role: "assistant",
    content,
    ...(reasoningContent === undefined ? {} : { reasoning_content: reasoningContent }),
    ...(toolCalls === undefined
      ? {}
      : {
          tool_calls: toolCalls.map(({ arguments: text, id, name }) => ({
            id,
            type: "function",
            function: { name, arguments: text }
          }))
        })
  }
}

const messageOf = ({ choices }: typeof Answer.Type): AssistantMessage => {
  const { content, reasoning_content: reasoning, tool_calls: calls } = choices[0].message
  return {
    role: "assistant",
    content: content ?? null,
    ...(typeof reasoning === "string" ? { reasoningContent: reasoning } : {}),
    ...(calls === undefined || calls === null || calls.length === 0
      ? {}
      : { toolCalls: calls.map(({ function: { arguments: text, name }, id }) => ({ id, name, arguments: text })) })
  }
}

/** Asks an endpoint for the next message of a conversation. @category model */
export type Ask = (messages: ReadonlyArray<Message>) => Effect.Effect<AssistantMessage, Failure>

/** A client with connections of its own. It waits as long as the server takes: the time limits are the server's. @category constructors */
export const make = (endpoint: Endpoint, tools: ReadonlyArray<ToolSpec>): Effect.Effect<Ask, never, Scope.Scope> =>
  Effect.map(Http.client, (client) => {
    const { baseUrl, model, secret } = endpoint
    const server = Http.make({
      client,
      baseUrl,
      key: Redacted.make(secret),
      timeoutMs: Number.POSITIVE_INFINITY
    })
    const functions = tools.map((tool) => ({ type: "function", function: tool }))
    return (messages) =>
      server
        .post("/v1/chat/completions", {
          model,
          messages: messages.map(wireOf),
          ...(functions.length === 0 ? {} : { tools: functions })
        })
        .pipe(
          Effect.flatMap((answer) =>
            Effect.mapError(decode(answer), () => Failures.unusable("an answer that is no chat completion"))
          ),
          Effect.map(messageOf)
        )
  })
