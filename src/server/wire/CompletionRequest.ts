/** The body of `POST /v1/completions`. */
import * as Schema from "effect/Schema"
import * as Field from "../../config/Field.ts"
import * as Fields from "./Fields.ts"

/** @category schemas */
export const CompletionRequest = Schema.Struct({
  model: Fields.maybe(Fields.name),
  /** read by `Prompts`, which can say which item of which prompt is wrong */
  prompt: Schema.Unknown.annotations({ description: "text, token ids, or a list of one of them" }),
  max_tokens: Fields.maybe(Field.wholeNumber),
  logprobs: Fields.maybe(Fields.candidates),
  ...Fields.scoring,
  echo: Fields.maybe(Fields.flag),
  ignore_eos: Fields.maybe(Fields.flag),
  return_token_ids: Fields.maybe(Fields.flag),
  return_tokens_as_token_ids: Fields.maybe(Fields.flag),
  best_of: Fields.only(1, "use n"),
  suffix: Fields.only("", "text after the completion is not supported"),
  add_special_tokens: Fields.ignored,
  ...Fields.sampling,
  ...Fields.streaming,
  ...Fields.along
})
/** @category model */
export type CompletionRequest = typeof CompletionRequest.Type
