/** Kinds of fields that the routes share. */
import * as Schema from "effect/Schema"
import * as Field from "../../config/Field.ts"
import { candidates, flag, ignored, maybe, only, onlyEmpty } from "../../wire/Fields.ts"

export { candidates, flag, ignored, maybe, name, only, onlyEmpty, text } from "../../wire/Fields.ts"

/** Ids are checked against the model later; a list of them is long, so it is checked in one pass. @category kinds */
export const tokenIds = Schema.declare(
  (value: unknown): value is ReadonlyArray<number> =>
    Array.isArray(value) && value.every((id) => Number.isInteger(id) && id >= 0 && id <= 0x7fff_ffff),
  { description: "a list of token ids, whole numbers from 0" }
)

const fewStops = Schema.Array(Schema.String.pipe(Schema.minLength(1))).pipe(Schema.maxItems(16))

/** How sampling is asked for, by OpenAI's names and vLLM's. @category fields */
export const sampling = {
  n: maybe(
    Field.count.pipe(Schema.filter((n) => n <= 128)).annotations({ description: "a whole number from 1 to 128" })
  ),
  temperature: maybe(Field.notNegativeFloat32),
  top_p: maybe(Field.positiveShare),
  top_k: maybe(
    Schema.Int.pipe(Schema.between(-1, 2 ** 31 - 1)).annotations({
      description: "a whole number; 0 or -1 keeps every token"
    })
  ),
  min_p: maybe(Field.share),
  seed: maybe(Schema.Int.annotations({ description: "a whole number" })),
  stop: maybe(
    Schema.Union(Schema.String.pipe(Schema.minLength(1)), fewStops).annotations({
      description: "text that is not empty, or a list of at most 16"
    })
  ),
  stop_token_ids: maybe(tokenIds),
  skip_special_tokens: maybe(flag),
  // what the engine does not do is refused, unless the value asks for nothing
  frequency_penalty: only(0, "penalties are not supported"),
  presence_penalty: only(0, "penalties are not supported"),
  repetition_penalty: only(1, "penalties are not supported"),
  length_penalty: only(1, "beam search is not supported"),
  use_beam_search: only(false, "beam search is not supported"),
  min_tokens: only(0, "a least length is not supported"),
  include_stop_str_in_output: only(false, "the stop text is left out"),
  logit_bias: onlyEmpty("biases are not supported"),
  // no meaning here
  spaces_between_special_tokens: ignored,
  detokenize: ignored
}

/** What clients send along with any request. @category fields */
export const along = {
  user: ignored,
  metadata: ignored,
  store: ignored,
  service_tier: ignored,
  safety_identifier: ignored,
  prompt_cache_key: ignored,
  cache_salt: ignored,
  priority: ignored,
  request_id: ignored
}

/** How a prompt is scored. @category fields */
export const scoring = {
  prompt_logprobs: maybe(candidates),
  /** of the prompt's distributions, of which `temperature` says nothing; 1 */
  prompt_logprobs_temperature: maybe(Field.positiveFloat32)
}

/** @category fields */
export const streaming = {
  stream: maybe(flag),
  stream_options: maybe(Schema.Struct({ include_usage: maybe(flag) }).annotations({ description: "{include_usage}" }))
}
