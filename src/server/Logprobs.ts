/** Log-probabilities in the three forms in which clients read them. The engine tells of the token itself and of no other. */
import type { TokenizerService } from "../Tokenizer.ts"
import type { Token } from "./Choice.ts"

/** How a token is written where its text is asked for. @category model */
export type Spelling = (id: number) => string

/** The token's own text, which is U+FFFD for a part of a character. @category constructors */
export const asText =
  (tokenizer: TokenizerService): Spelling =>
  (id) =>
    tokenizer.decode([id])

/** @category constructors */
export const asId: Spelling = (id) => `token_id:${id}`

const encoder = new TextEncoder()

/** What a chat completion's `logprobs.content` holds. `candidates` is 0 or 1; the one candidate is the token itself. @category conversions */
export const chatContent = (
  tokens: ReadonlyArray<Token>,
  options: { readonly spelling: Spelling; readonly candidates: number }
) =>
  tokens.map(({ id, logprob }) => {
    const token = options.spelling(id)
    // not known from the text of a part of a character
    const bytes = options.spelling === asId || token.includes("\ufffd") ? null : Array.from(encoder.encode(token))
    const entry = { token, logprob, bytes }
    return { ...entry, top_logprobs: options.candidates > 0 ? [entry] : [] }
  })

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
