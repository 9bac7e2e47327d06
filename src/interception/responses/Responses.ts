/** OpenAI's Responses. Nothing is kept from one to the next: a client sends its whole input each time. */
import * as Either from "effect/Either"
import { json } from "../../wire/ApiError.ts"
import * as Decode from "../../wire/Decode.ts"
import type { Ask, Dialect } from "../Dialect.ts"
import * as ResponsesAnswer from "./ResponsesAnswer.ts"
import { messagesOf, ResponsesBody, toolsOf } from "./ResponsesBody.ts"

const askOf = (body: ResponsesBody): Ask => ({
  messages: messagesOf(body),
  tools: toolsOf(body),
  maxTokens: body.max_output_tokens ?? undefined,
  stop: [],
  stream: body.stream === true,
  whole: ResponsesAnswer.whole(body),
  writer: ResponsesAnswer.writer(body)
})

/** @category dialects */
export const dialect: Dialect = {
  read: (body) => Either.map(Decode.decode(ResponsesBody, body, "first"), askOf),
  error: json
}
