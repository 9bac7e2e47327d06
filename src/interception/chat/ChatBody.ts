/** The body of OpenAI's `POST /v1/chat/completions`, of which all is read that changes what a turn is. */
import * as Schema from "effect/Schema"
import { conversation } from "../../wire/Conversation.ts"
import * as Fields from "../../wire/Fields.ts"

/** Texts that end a turn. @category kinds */
export const stopTexts = Schema.Array(Schema.String.pipe(Schema.minLength(1))).pipe(Schema.maxItems(64))

/** Sampling is the run's: a temperature and its like are passed over, and so is what nobody here knows. @category schemas */
export const ChatBody = Fields.open({
  ...conversation,
  n: Fields.only(1, "ask as often as you want answers"),
  max_tokens: Fields.maybe(Fields.count),
  max_completion_tokens: Fields.maybe(Fields.count),
  stop: Fields.maybe(
    Schema.Union(Schema.String.pipe(Schema.minLength(1)), stopTexts).annotations({
      description: "text that is not empty, or a list of at most 64"
    })
  ),
  stream: Fields.maybe(Fields.flag),
  stream_options: Fields.maybe(Fields.open({ include_usage: Fields.maybe(Fields.flag) })),
  logprobs: Fields.maybe(Fields.flag),
  top_logprobs: Fields.maybe(Fields.candidates),
  tool_choice: Fields.maybe(
    Schema.Literal("auto", "none").annotations({ description: '"auto" or "none" (a call cannot be forced)' })
  ),
  response_format: Fields.maybe(
    Fields.open({ type: Schema.Literal("text") }).annotations({
      description: '{"type": "text"} (answers of a given form are not supported)'
    })
  ),
  functions: Fields.onlyEmpty("use tools"),
  function_call: Fields.onlyEmpty("use tools")
})
/** @category model */
export type ChatBody = typeof ChatBody.Type
