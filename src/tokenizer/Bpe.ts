/** One pre-token to its ids: first one id per byte (or character), then merges. Results are remembered by pre-token. */
import { toSymbols } from "./byteLevel.ts"
import type { MergeTable } from "./MergeTable.ts"
import { merge } from "./merge.ts"

/** @category model */
export interface Alphabet {
  /** id of each byte that has no better token, indexed by byte value */
  readonly idOfByte: Int32Array
  /** ids of characters that are tokens by themselves; undefined when the vocabulary spells bytes */
  readonly idOfCharacter: ReadonlyMap<string, number> | undefined
}

/** @category model */
export interface BpeParts {
  readonly alphabet: Alphabet
  readonly table: MergeTable
  /** entries that a whole pre-token takes without merging, in the vocabulary's spelling (`ignore_merges`) */
  readonly wholes: ReadonlyMap<string, number> | undefined
}

const remembered = 1 << 16
const longestRemembered = 256

const firstIds = (piece: string, { idOfByte, idOfCharacter }: Alphabet): Int32Array => {
  const bytes = Buffer.from(piece, "utf8")
  if (idOfCharacter === undefined) {
    const ids = new Int32Array(bytes.length)
    for (let at = 0; at < bytes.length; at++) ids[at] = idOfByte[bytes[at]!]!
    return ids
  }
  const ids: Array<number> = []
  for (const character of piece) {
    const id = idOfCharacter.get(character)
    if (id !== undefined) ids.push(id)
    else for (const byte of Buffer.from(character, "utf8")) ids.push(idOfByte[byte]!)
  }
  return Int32Array.from(ids)
}

/** A function from pre-token to ids, whose result is shared and must not be written to. @category constructors */
export const make = ({ alphabet, table, wholes }: BpeParts): ((piece: string) => Int32Array) => {
  const memory = new Map<string, Int32Array>()
  const compute = (piece: string): Int32Array => {
    const whole = wholes?.get(alphabet.idOfCharacter === undefined ? toSymbols(piece) : piece)
    if (whole !== undefined) return Int32Array.of(whole)
    const ids = firstIds(piece, alphabet)
    return ids.slice(0, merge(ids, ids.length, table))
  }
  return (piece) => {
    const known = memory.get(piece)
    if (known !== undefined) return known
    const ids = compute(piece)
    if (piece.length <= longestRemembered) {
      if (memory.size >= remembered) memory.clear()
      memory.set(piece, ids)
    }
    return ids
  }
}
