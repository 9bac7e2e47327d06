/** What a tokenizer.json says, in flat arrays: what a tokenizer is made from, and what its cached form holds. */
import type { AddedToken } from "./AddedTokens.ts"
import type { ByteTable } from "./ByteTable.ts"

/** What an id is. @category model */
export const Kind = {
  /** no token */
  none: 0,
  /** of the vocabulary */
  ordinary: 1,
  /** one byte of a character that has no token */
  byte: 2,
  /** of the vocabulary, but spelled in another alphabet than its; no text becomes it */
  foreign: 3,
  added: 4
} as const

/** @category model */
export interface Compiled {
  /** whether the vocabulary spells bytes in the byte-level alphabet */
  readonly byteLevel: boolean
  /** whether a piece that is an entry takes its id without merging */
  readonly ignoreMerges: boolean
  /** whether a text may be cut before each mark of a space that follows something else, since nothing merges across */
  readonly cutsAtMarks: boolean
  readonly added: ReadonlyArray<AddedToken>
  /** these three as they are in the file */
  readonly normalizer: unknown
  readonly preTokenizer: unknown
  readonly decoder: unknown
  /** of each id, one of {@link Kind} */
  readonly kinds: Uint8Array
  /** the bytes of each id as encoding reads them, U+FFFD for an id without a token */
  readonly spelled: ByteTable
  /** id of each byte that has no better token */
  readonly idOfByte: Int32Array
  /** one entry per merge, in rank order */
  readonly lefts: Int32Array
  readonly rights: Int32Array
  readonly results: Int32Array
}

/** how SentencePiece spells a space @category constants */
export const mark = "\u2581"
