/** The body of `POST /v1/chat/completions`. */
import * as Schema from "effect/Schema"
import * as Field from "../../config/Field.ts"
import { conversation } from "../../wire/Conversation.ts"
import * as Fields from "./Fields.ts"

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
