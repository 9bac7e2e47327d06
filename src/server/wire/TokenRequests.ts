/** The bodies of `POST /tokenize` and `POST /detokenize`. */
import * as Schema from "effect/Schema"
import { conversation } from "../../wire/Conversation.ts"
import * as Fields from "./Fields.ts"

/** A text, or a conversation. @category schemas */
export const TokenizeRequest = Schema.Struct({
  model: Fields.maybe(Fields.name),
  prompt: Fields.maybe(Fields.text),
  messages: Fields.maybe(conversation.messages),
  tools: conversation.tools,
  add_generation_prompt: Fields.maybe(Fields.flag),
  return_token_strs: Fields.maybe(Fields.flag),
  add_special_tokens: Fields.ignored
})

/** @category schemas */
export const DetokenizeRequest = Schema.Struct({ model: Fields.maybe(Fields.name), tokens: Fields.tokenIds })
