/** Log-probabilities in the three forms in which clients read them. The engine tells of the token itself and of no other. */
import type { TokenizerService } from "../Tokenizer.ts"
import type { Spelling } from "../wire/Logprobs.ts"
import type { Token } from "./Choice.ts"

export { asId, asText, chatContent, type Spelling } from "../wire/Logprobs.ts"

/** What a completion's `logprobs` holds; a token without a log-probability has null. @category conversions */
export const completion = (
  tokens: ReadonlyArray<Omit<Token, "logprob"> & { readonly logprob: number | null }>,
  options: { readonly spelling: Spelling; readonly candidates: number }
) => {
  const spelt = tokens.map(({ id }) => options.spelling(id))
  return {
    text_offset: tokens.map(({ offset }) => offset),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    tokens: spelt,
    top_logprobs:
      options.candidates > 0
        ? tokens.map(({ logprob }, at) => (logprob === null ? null : { [spelt[at]!]: logprob }))
        : null
  }
}

/** Of every token of a prompt a table with the token's own entry, by its id; of the first null. @category conversions */
export const prompt = (tokenIds: Int32Array, logprobs: Float32Array, tokenizer: TokenizerService) =>
  Array.from(tokenIds, (id, at) =>
    at === 0 ? null : { [id]: { logprob: logprobs[at]!, decoded_token: tokenizer.decode([id]) } }
  )
