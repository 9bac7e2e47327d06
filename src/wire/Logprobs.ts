/** Log-probabilities of sampled tokens as chat clients read them. The engine tells of the token itself and of no other. */
import type { TokenizerService } from "../Tokenizer.ts"

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
  tokens: ReadonlyArray<{ readonly id: number; readonly logprob: number }>,
  options: { readonly spelling: Spelling; readonly candidates: number }
) =>
  tokens.map(({ id, logprob }) => {
    const token = options.spelling(id)
    // not known from the text of a part of a character
    const bytes = options.spelling === asId || token.includes("\ufffd") ? null : Array.from(encoder.encode(token))
    const entry = { token, logprob, bytes }
    return { ...entry, top_logprobs: options.candidates > 0 ? [entry] : [] }
  })
