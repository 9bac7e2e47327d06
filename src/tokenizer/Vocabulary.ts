/** Vocabulary, merges and added tokens of a tokenizer.json, checked: every id has one token and every token one id. */
import * as Either from "effect/Either"
import type { TokenizerError } from "../Tokenizer.ts"
import type { AddedToken } from "./AddedTokens.ts"
import * as ByteTable from "./ByteTable.ts"
import { fromSymbols, symbolOfByte } from "./byteLevel.ts"
import { Kind, mark } from "./Compiled.ts"
import * as Json from "./Json.ts"

type Result<A> = Either.Either<A, TokenizerError>
type Node = Json.At<Readonly<Record<string, unknown>>>
type Vocabulary = ReadonlyMap<string, number>

/** @category reading */
export const readVocabulary = (model: Node): Result<Vocabulary> =>
  Either.gen(function* () {
    const { file, value, where } = yield* Json.object(Json.key(model, "vocab"))
    const tokenOfId = new Map<number, string>()
    const ids = new Map<string, number>()
    for (const token of Object.keys(value)) {
      const found = value[token]
      const at = () => ({ file, where: `${where}[${JSON.stringify(token)}]`, value: found })
      const id = Json.isId(found) ? found : yield* Json.id(at())
      const other = tokenOfId.get(id)
      if (other !== undefined) return yield* Json.fail(at(), `id ${id} already belongs to ${JSON.stringify(other)}`)
      tokenOfId.set(id, token)
      ids.set(token, id)
    }
    return ids
  })

/** @category reading */
export const readAddedTokens = (root: Node, vocabulary: Vocabulary): Result<ReadonlyArray<AddedToken>> =>
  Either.gen(function* () {
    const list = Json.key(root, "added_tokens")
    if (list.value === undefined || list.value === null) return []
    const tokenOfId = new Map<number, string>()
    for (const [token, id] of vocabulary) tokenOfId.set(id, token)
    const tokens: Array<AddedToken> = []
    const idOfAdded = new Map<string, number>()
    for (const at of yield* Json.array(list)) {
      const node = yield* Json.object(at)
      const id = yield* Json.id(Json.key(node, "id"))
      const content = yield* Json.string(Json.key(node, "content"))
      const special = yield* Json.boolean(Json.key(node, "special"), false)
      if (content === "") return yield* Json.fail(at, "an added token needs a spelling")
      const other = tokenOfId.get(id)
      if (other !== undefined && other !== content) {
        return yield* Json.fail(at, `id ${id} of ${content} already belongs to ${JSON.stringify(other)}`)
      }
      const known = idOfAdded.get(content) ?? vocabulary.get(content)
      if (known !== undefined && known !== id) {
        return yield* Json.fail(at, `${content} has two ids, ${known} and ${id}`)
      }
      tokenOfId.set(id, content)
      idOfAdded.set(content, id)
      tokens.push({
        id,
        content,
        special,
        normalized: yield* Json.boolean(Json.key(node, "normalized"), !special),
        lstrip: yield* Json.boolean(Json.key(node, "lstrip"), false),
        rstrip: yield* Json.boolean(Json.key(node, "rstrip"), false),
        singleWord: yield* Json.boolean(Json.key(node, "single_word"), false)
      })
    }
    return tokens
  })

/** The largest id must be near the number of tokens, since everything that is sized by the vocabulary is sized by it. @category reading */
export const readSize = (root: Node, vocabulary: Vocabulary, added: ReadonlyArray<AddedToken>): Result<number> => {
  const count = vocabulary.size + added.filter(({ content }) => !vocabulary.has(content)).length
  let size = 0
  for (const id of vocabulary.values()) size = Math.max(size, id + 1)
  for (const { id } of added) size = Math.max(size, id + 1)
  if (size === 0) return Json.fail(root, "there is no token in it")
  return size > 2 * count + 1024
    ? Json.fail(root, `the largest id is ${size - 1}, but there are only ${count} tokens`)
    : Either.right(size)
}

/** "a b", or ["a", "b"] where tokens may hold spaces */
const sides = (merge: unknown): readonly [string, string] | undefined => {
  const parts: ReadonlyArray<unknown> = typeof merge === "string" ? merge.split(" ") : Array.isArray(merge) ? merge : []
  const [left, right] = parts
  return parts.length === 2 && typeof left === "string" && typeof right === "string" && left !== "" && right !== ""
    ? [left, right]
    : undefined
}

/** Merges as three columns of ids. */
interface Merges {
  readonly lefts: Int32Array
  readonly rights: Int32Array
  readonly results: Int32Array
  /** whether something that does not end in the mark of a space merges with something that begins with it */
  readonly crossesMarks: boolean
}

const readMerges = (model: Node, vocabulary: Vocabulary, added: ReadonlySet<number>): Result<Merges> =>
  Either.gen(function* () {
    const list = Json.key(model, "merges")
    if (!Array.isArray(list.value)) return yield* Json.fail(list, "expected an array of merges")
    const merges: ReadonlyArray<unknown> = list.value
    const lefts = new Int32Array(merges.length)
    const rights = new Int32Array(merges.length)
    const results = new Int32Array(merges.length)
    let crossesMarks = false
    let count = 0
    for (let rank = 0; rank < merges.length; rank++) {
      const pair = sides(merges[rank])
      if (pair === undefined) {
        return yield* Json.fail(Json.item(list, rank, merges[rank]), `expected "a b" or ["a", "b"]`)
      }
      const left = vocabulary.get(pair[0])
      const right = vocabulary.get(pair[1])
      const result = vocabulary.get(pair[0] + pair[1])
      if (left === undefined || right === undefined || result === undefined) {
        const missing = left === undefined ? pair[0] : right === undefined ? pair[1] : pair[0] + pair[1]
        return yield* Json.fail(
          Json.item(list, rank, merges[rank]),
          `${JSON.stringify(missing)} is not in the vocabulary`
        )
      }
      // a merge into an added token would let ordinary text become it
      if (added.has(result)) continue
      crossesMarks ||= pair[1].startsWith(mark) && !pair[0].endsWith(mark)
      lefts[count] = left
      rights[count] = right
      results[count] = result
      count++
    }
    const filled = (column: Int32Array) => (count === merges.length ? column : column.slice(0, count))
    return { lefts: filled(lefts), rights: filled(rights), results: filled(results), crossesMarks }
  })

const hexByte = (byte: number): string => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`

const fallbackBytes: ReadonlyMap<string, number> = new Map(
  Array.from({ length: 256 }, (_, byte) => [hexByte(byte), byte])
)

const isUtf8 = (byte: number): boolean => byte !== 0xc0 && byte !== 0xc1 && byte < 0xf5

/** @category reading */
export const readBpe = (
  model: Node,
  options: { readonly byteLevel: boolean; readonly vocabulary: Vocabulary; readonly added: ReadonlySet<number> }
) =>
  Either.gen(function* () {
    const { added, byteLevel, vocabulary } = options
    for (const name of ["continuing_subword_prefix", "end_of_word_suffix", "dropout"]) {
      const at = Json.key(model, name)
      if (at.value !== undefined && at.value !== null && at.value !== "" && at.value !== 0) {
        return yield* Json.fail(at, "is not supported; it must be null")
      }
    }
    const byteFallback = yield* Json.boolean(Json.key(model, "byte_fallback"), false)
    if (!byteLevel && !byteFallback) {
      return yield* Json.fail(
        Json.key(model, "byte_fallback"),
        "without a ByteLevel pre-tokenizer it must be true, or some texts would have no tokens"
      )
    }
    const idOfByte = new Int32Array(256)
    for (let byte = 0; byte < 256; byte++) {
      const spelling = byteLevel ? symbolOfByte[byte]! : hexByte(byte)
      const id = vocabulary.get(spelling)
      // a byte that is a character with a token is never asked for, nor is one that no UTF-8 has
      const ofCharacter = byteLevel || byte > 0x7f ? undefined : vocabulary.get(String.fromCharCode(byte))
      const isNeeded = byteLevel || (isUtf8(byte) && (ofCharacter === undefined || added.has(ofCharacter)))
      if (id === undefined && isNeeded) {
        return yield* Json.fail(Json.key(model, "vocab"), `byte ${byte} (${JSON.stringify(spelling)}) has no token`)
      }
      idOfByte[byte] = id ?? -1
    }
    const { crossesMarks, ...merges } = yield* readMerges(model, vocabulary, added)
    const ignoreMerges = yield* Json.boolean(Json.key(model, "ignore_merges"), false)
    return { ...merges, idOfByte, ignoreMerges, cutsAtMarks: !byteLevel && !ignoreMerges && !crossesMarks }
  })

const replacement = Buffer.from("\ufffd", "utf8")

/** What each id is, and its bytes. An entry of another alphabet than the vocabulary's stands for its own spelling. @category reading */
export const readTokens = (options: {
  readonly size: number
  readonly byteLevel: boolean
  readonly vocabulary: Vocabulary
  readonly added: ReadonlyArray<AddedToken>
}) => {
  const kinds = new Uint8Array(options.size)
  const bytes = new Array<Uint8Array>(options.size).fill(replacement)
  for (const [token, id] of options.vocabulary) {
    const byte = options.byteLevel ? undefined : fallbackBytes.get(token)
    const symbols = options.byteLevel ? fromSymbols(token) : undefined
    bytes[id] = byte === undefined ? (symbols ?? Buffer.from(token, "utf8")) : Uint8Array.of(byte)
    kinds[id] =
      byte !== undefined ? Kind.byte : options.byteLevel && symbols === undefined ? Kind.foreign : Kind.ordinary
  }
  for (const { content, id } of options.added) {
    bytes[id] = Buffer.from(content, "utf8")
    kinds[id] = Kind.added
  }
  return { kinds, spelled: ByteTable.make(bytes) }
}
