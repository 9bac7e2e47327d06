/** Text to token ids and back: byte-level BPE as read from a Hugging Face `tokenizer.json`. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"

/** Token ids with the bytes of the text that each covers. @category model */
export interface Encoding {
  readonly ids: Int32Array
  /** byte range of each token in the UTF-8 of the normalised text: `starts[i]` inclusive, `ends[i]` exclusive */
  readonly starts: Int32Array
  readonly ends: Int32Array
}

/** Turns ids into text as they arrive; text comes out when a character is whole, never a replacement character midway. @category model */
export interface Decoder {
  readonly push: (id: number) => string
  /** what is left, with incomplete bytes as U+FFFD */
  readonly flush: () => string
}

/** Encodes and decodes; encoding cannot fail, since every byte has a token. @category model */
export interface TokenizerService {
  /** one more than the largest id */
  readonly vocabularySize: number
  /** Caller text: a special token's spelling is ordinary text here and never becomes its id. */
  readonly encode: (text: string) => Encoding
  /**
   * Text of a program's own, such as a whole rendered template: where an added token is spelled, it is that token. Between
   * them each stretch of text is normalised for itself, and the offsets count the bytes of what comes out.
   */
  readonly encodeWithSpecials: (text: string) => Encoding
  /** the text as `encode` reads it, whose bytes its offsets count */
  readonly normalize: (text: string) => string
  /** An id without a token reads as U+FFFD. `skipSpecialTokens` leaves out what the file flags as special. */
  readonly decode: (ids: Iterable<number>, options?: { readonly skipSpecialTokens?: boolean | undefined }) => string
  readonly decoder: () => Decoder
  /** id of an added token, flagged special or not, by its exact spelling */
  readonly special: (content: string) => number | undefined
  /** whether an id belongs to an added token: what `encode` never returns */
  readonly isSpecial: (id: number) => boolean
}

/** The tokenizer of the policy. @category tags */
export class Tokenizer extends Context.Tag("primerl/Tokenizer")<Tokenizer, TokenizerService>() {}

/** A tokenizer file that cannot be read, is malformed, or asks for what is not supported. @category errors */
export class TokenizerError extends Data.TaggedError("TokenizerError")<{
  readonly file: string
  /** place in the file, as a path of keys; empty for the file as a whole */
  readonly where: string
  readonly reason: string
}> {
  override get message() {
    return `tokenizer ${this.file}${this.where === "" ? "" : `, ${this.where}`}: ${this.reason}`
  }
}
