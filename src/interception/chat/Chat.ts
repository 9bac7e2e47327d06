/** OpenAI's chat completions. */
import * as Either from "effect/Either"
import { invalid, json } from "../../wire/ApiError.ts"
import { messagesOf, toolsOf } from "../../wire/Conversation.ts"
import * as Decode from "../../wire/Decode.ts"
import type { Ask, Dialect } from "../Dialect.ts"
import { least } from "../least.ts"
import * as ChatAnswer from "./ChatAnswer.ts"
import { ChatBody } from "./ChatBody.ts"

const askOf = (body: ChatBody): Ask => ({
  messages: messagesOf(body),
  tools: body.tool_choice === "none" ? [] : toolsOf(body),
  maxTokens: least(body.max_tokens, body.max_completion_tokens),
  stop: body.stop == null ? [] : typeof body.stop === "string" ? [body.stop] : body.stop,
  stream: body.stream === true,
  whole: ChatAnswer.whole(body),
  writer: ChatAnswer.writer(body)
})

/** @category dialects */
export const dialect: Dialect = {
  read: (body) =>
    Either.flatMap(Decode.decode(ChatBody, body, "first"), (asked) =>
      asked.top_logprobs != null && asked.logprobs !== true
        ? Either.left(invalid("top_logprobs needs logprobs: true", { param: "top_logprobs" }))
        : Either.right(askOf(asked))
    ),
  error: json
}
