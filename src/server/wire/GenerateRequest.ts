/** The body of `POST /inference/v1/generate`: token ids in, token ids out, as vLLM has it. */
import * as Schema from "effect/Schema"
import * as Field from "../../config/Field.ts"
import * as Fields from "./Fields.ts"

/** @category schemas */
export const GenerateRequest = Schema.Struct({
  model: Fields.maybe(Fields.name),
  token_ids: Fields.tokenIds,
  sampling_params: Schema.Struct({
    ...Fields.sampling,
    /** as much as the sequence has room for, when left out */
    max_tokens: Fields.maybe(Field.wholeNumber),
    logprobs: Fields.maybe(Fields.candidates),
    ...Fields.scoring,
    ignore_eos: Fields.maybe(Fields.flag),
    stop: Fields.onlyEmpty("text is not looked at here; use stop_token_ids"),
    output_kind: Fields.ignored
  }),
  features: Fields.onlyEmpty("models of text only are served"),
  kv_transfer_params: Fields.onlyEmpty("there is one engine"),
  ...Fields.along,
  ...Fields.streaming,
  request_id: Fields.maybe(Fields.name)
})
/** @category model */
export type GenerateRequest = typeof GenerateRequest.Type
