/** Text to token ids and back: byte-level BPE as read from a Hugging Face `tokenizer.json`. */
import * as Context from "effect/Context"

/** @category model */
export interface Encoding {
  readonly ids: Int32Array
  /** byte range of each token in the UTF-8 encoding of the text: `starts[i]` inclusive, `ends[i]` exclusive */
  readonly starts: Int32Array
  readonly ends: Int32Array
}

/** Turns ids into text as they arrive; text comes out when a character is whole, never a replacement character midway. @category model */
export interface Decoder {
  readonly push: (id: number) => string
  /** what is left, with incomplete bytes as U+FFFD */
  readonly flush: () => string
}

/** @category model */
export interface TokenizerService {
  /** one more than the largest id */
  readonly vocabularySize: number
  /** Caller text: a special token's spelling is ordinary text here and never becomes its id. */
  readonly encode: (text: string) => Encoding
  readonly decode: (ids: Iterable<number>, options?: { readonly skipSpecialTokens?: boolean | undefined }) => string
  readonly decoder: () => Decoder
  /** id of a special (added) token, by its exact spelling */
  readonly special: (content: string) => number | undefined
  readonly isSpecial: (id: number) => boolean
}

/** @category tags */
export class Tokenizer extends Context.Tag("primerl/Tokenizer")<Tokenizer, TokenizerService>() {}
