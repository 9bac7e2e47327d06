/** Vocabulary, merges and added tokens of a tokenizer.json, checked: every id has one token and every token one id. */
import * as Either from "effect/Either"
import type { TokenizerError } from "../Tokenizer.ts"
import type { BpeParts } from "./Bpe.ts"
import { fromSymbols, symbolOfByte } from "./byteLevel.ts"
import * as Json from "./Json.ts"
import * as MergeTable from "./MergeTable.ts"

type Result<A> = Either.Either<A, TokenizerError>
type Node = Json.At<Readonly<Record<string, unknown>>>

/** @category model */
export interface AddedToken {
  readonly id: number
  readonly content: string
  /** left out by `skipSpecialTokens` */
  readonly special: boolean
}

/** @category reading */
export const readVocabulary = (model: Node): Result<ReadonlyMap<string, number>> =>
  Either.gen(function* () {
    const vocabulary = yield* Json.object(Json.key(model, "vocab"))
    const tokenOfId = new Map<number, string>()
    const ids = new Map<string, number>()
    for (const token of Object.keys(vocabulary.value)) {
      const at = {
        ...vocabulary,
        where: `${vocabulary.where}[${JSON.stringify(token)}]`,
        value: vocabulary.value[token]
      }
      const id = yield* Json.id(at)
      const other = tokenOfId.get(id)
      if (other !== undefined) return yield* Json.fail(at, `id ${id} already belongs to ${JSON.stringify(other)}`)
      tokenOfId.set(id, token)
      ids.set(token, id)
    }
    return ids
  })

/** @category reading */
export const readAddedTokens = (
  root: Node,
  vocabulary: ReadonlyMap<string, number>
): Result<ReadonlyArray<AddedToken>> =>
  Either.gen(function* () {
    const list = Json.key(root, "added_tokens")
    if (list.value === undefined || list.value === null) return []
    const tokenOfId = new Map<number, string>([...vocabulary].map(([token, id]) => [id, token]))
    const tokens: Array<AddedToken> = []
    const ids = new Map(vocabulary)
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
      const known = ids.get(content)
      if (known !== undefined && known !== id) {
        return yield* Json.fail(at, `${content} has two ids, ${known} and ${id}`)
      }
      tokenOfId.set(id, content)
      ids.set(content, id)
      tokens.push({ id, content, special })
    }
    return tokens
  })

/** The largest id must be near the number of tokens, since everything that is sized by the vocabulary is sized by it. @category reading */
export const readSize = (root: Node, ids: Iterable<number>): Result<number> => {
  const distinct = new Set(ids)
  let size = 0
  for (const id of distinct) size = Math.max(size, id + 1)
  if (size === 0) return Json.fail(root, "there is no token in it")
  return size > 2 * distinct.size + 1024
    ? Json.fail(root, `the largest id is ${size - 1}, but there are only ${distinct.size} tokens`)
    : Either.right(size)
}

/** "a b", or ["a", "b"] where tokens may hold spaces */
const sides = (merge: unknown): readonly [string, string] | undefined => {
  const parts: ReadonlyArray<unknown> = typeof merge === "string" ? merge.split(" ") : Array.isArray(merge) ? merge : []
  const [left, right] = parts
  return parts.length === 2 && typeof left === "string" && typeof right === "string" ? [left, right] : undefined
}

const readMerges = (
  model: Node,
  vocabulary: ReadonlyMap<string, number>,
  added: ReadonlySet<number>
): Result<MergeTable.MergeTable> =>
  Either.gen(function* () {
    const list = Json.key(model, "merges")
    if (!Array.isArray(list.value)) return yield* Json.fail(list, "expected an array of merges")
    const merges: ReadonlyArray<unknown> = list.value
    const columns = [0, 1, 2].map(() => new Int32Array(merges.length))
    const [lefts, rights, results] = columns as [Int32Array, Int32Array, Int32Array]
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
      lefts[count] = left
      rights[count] = right
      results[count] = result
      count++
    }
    return MergeTable.make(lefts.subarray(0, count), rights.subarray(0, count), results.subarray(0, count))
  })

const hexByte = (byte: number): string => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`

const fallbackBytes: ReadonlyMap<string, number> = new Map(
  Array.from({ length: 256 }, (_, byte) => [hexByte(byte), byte])
)

/** @category reading */
export const readBpe = (
  model: Node,
  options: {
    readonly byteLevel: boolean
    readonly vocabulary: ReadonlyMap<string, number>
    readonly added: ReadonlySet<number>
  }
): Result<BpeParts> =>
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
      if (id === undefined) {
        return yield* Json.fail(Json.key(model, "vocab"), `byte ${byte} (${JSON.stringify(spelling)}) has no token`)
      }
      idOfByte[byte] = id
    }
    const table = yield* readMerges(model, vocabulary, added)
    const ordinary = new Map([...vocabulary].filter(([token, id]) => !added.has(id) && !fallbackBytes.has(token)))
    const ignoreMerges = yield* Json.boolean(Json.key(model, "ignore_merges"), false)
    return {
      alphabet: { idOfByte, idOfCharacter: byteLevel ? undefined : ordinary },
      table,
      wholes: ignoreMerges ? ordinary : undefined
    }
  })

/** The bytes of each id. An entry of another alphabet than the vocabulary's stands for its own spelling. @category reading */
export const bytesOfIds = (options: {
  readonly size: number
  readonly byteLevel: boolean
  readonly vocabulary: ReadonlyMap<string, number>
  readonly added: ReadonlyArray<AddedToken>
}): ReadonlyArray<Uint8Array | undefined> => {
  const bytes = new Array<Uint8Array | undefined>(options.size).fill(undefined)
  for (const [token, id] of options.vocabulary) {
    const fallback = options.byteLevel ? undefined : fallbackBytes.get(token)
    if (fallback !== undefined) bytes[id] = Uint8Array.of(fallback)
    else bytes[id] = (options.byteLevel ? fromSymbols(token) : undefined) ?? Buffer.from(token, "utf8")
  }
  for (const { content, id } of options.added) bytes[id] = Buffer.from(content, "utf8")
  return bytes
}
