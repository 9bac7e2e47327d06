/** Anthropic's messages. */
import * as Either from "effect/Either"
import * as Decode from "../../wire/Decode.ts"
import type { Ask, Dialect } from "../Dialect.ts"
import * as MessagesAnswer from "./MessagesAnswer.ts"
import { CountBody, MessagesBody, messagesOf, toolsOf } from "./MessagesBody.ts"

const askOf = (body: typeof CountBody.Type, more: Partial<MessagesBody>): Ask => ({
  messages: messagesOf(body),
  tools: toolsOf(body),
  maxTokens: more.max_tokens,
  stop: more.stop_sequences ?? [],
  stream: more.stream === true,
  whole: MessagesAnswer.whole,
  writer: MessagesAnswer.writer
})

/** @category dialects */
export const dialect: Dialect = {
  read: (body) => Either.map(Decode.decode(MessagesBody, body, "first"), (asked) => askOf(asked, asked)),
  error: MessagesAnswer.error
}

/** A conversation that is only counted: nothing but it need be there. @category dialects */
export const counting: Dialect = {
  read: (body) => Either.map(Decode.decode(CountBody, body, "first"), (asked) => askOf(asked, {})),
  error: MessagesAnswer.error
}
