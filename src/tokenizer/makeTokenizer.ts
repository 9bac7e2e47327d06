/** A tokenizer from what its file says. */
import * as Either from "effect/Either"
import type { Encoding, TokenizerError, TokenizerService } from "../Tokenizer.ts"
import * as AddedTokens from "./AddedTokens.ts"
import * as Bpe from "./Bpe.ts"
import * as ByteTable from "./ByteTable.ts"
import { type Compiled, Kind, mark } from "./Compiled.ts"
import * as Cut from "./Cut.ts"
import * as MergeTable from "./MergeTable.ts"
import * as Normalizer from "./Normalizer.ts"
import * as PreTokenizer from "./PreTokenizer.ts"
import * as Spelling from "./Spelling.ts"
import * as TokenBytes from "./TokenBytes.ts"

/** ids of the entries that are one character, by code point */
const charactersOf = ({ kinds, spelled: { bytes, starts } }: Compiled): Int32Array => {
  const ids = new Int32Array(0x110000).fill(-1)
  for (let id = 0; id < kinds.length; id++) {
    const start = starts[id]!
    const length = starts[id + 1]! - start
    const first = bytes[start]!
    const isOne = length === (first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4)
    if (kinds[id] !== Kind.ordinary || !isOne) continue
    ids[
      Buffer.from(bytes.subarray(start, start + length))
        .toString("utf8")
        .codePointAt(0)!
    ] = id
  }
  return ids
}

const bpeParts = (compiled: Compiled): Bpe.BpeParts => {
  const { byteLevel, idOfByte, ignoreMerges, kinds, lefts, results, rights, spelled } = compiled
  return {
    idOfByte,
    idOfCharacter: byteLevel ? undefined : charactersOf(compiled),
    table: MergeTable.make(lefts, rights, results),
    wholes: ignoreMerges ? ByteTable.finder(spelled, (id) => kinds[id] === Kind.ordinary) : undefined
  }
}

const makeEncoder = (compiled: Compiled, preTokenizer: PreTokenizer.PreTokenizer) => {
  const { starts } = compiled.spelled
  const encodePiece = Bpe.make(bpeParts(compiled))
  const cut = Cut.make()
  const output: Bpe.Output = { ids: new Int32Array(256), count: 0 }
  /** of sections of an added token its id, and how many bytes it takes */
  let addedBytes: Array<number> = []
  let shortened: Array<number> = []

  const appendText = (normalized: string) => {
    Cut.fill(cut, normalized)
    preTokenizer.split(cut)
    if (compiled.cutsAtMarks) Cut.cutBefore(cut, mark.charCodeAt(0))
    let from = 0
    let absent = 0
    for (let piece = 0; piece < cut.count; piece++) {
      const to = cut.ends[piece]!
      if (cut.inserted[absent] === from) {
        absent++
        shortened.push(output.count)
      }
      encodePiece(cut.units, from, to, output)
      from = to
    }
  }
  const appendAdded = (id: number, byteLength: number) => {
    Bpe.reserve(output, 1)
    addedBytes.push(output.count, byteLength)
    output.ids[output.count++] = id
  }
  const finish = (): Encoding => {
    const { count } = output
    const ids = output.ids.slice(0, count)
    const encoding = { ids, starts: new Int32Array(count), ends: new Int32Array(count) }
    let byte = 0
    let added = 0
    let short = 0
    for (let at = 0; at < count; at++) {
      const id = ids[at]!
      encoding.starts[at] = byte
      if (addedBytes[added] === at) {
        byte += addedBytes[added + 1]!
        added += 2
      } else byte += starts[id + 1]! - starts[id]!
      // a space that the text does not have takes no byte of it
      if (shortened[short] === at) {
        short++
        byte--
      }
      encoding.ends[at] = byte
    }
    output.count = 0
    if (output.ids.length > 1 << 20) output.ids = new Int32Array(256)
    addedBytes = []
    shortened = []
    return encoding
  }
  return { appendAdded, appendText, finish }
}

/** Fails on what cannot be supported in the parts that are as in the file. @category constructors */
export const makeTokenizer = (compiled: Compiled, file: string): Either.Either<TokenizerService, TokenizerError> =>
  Either.gen(function* () {
    const at = (where: string, value: unknown) => ({ file, where, value })
    const preTokenizer = yield* PreTokenizer.fromJson(at("pre_tokenizer", compiled.preTokenizer))
    const normalizer = yield* Normalizer.fromJson(at("normalizer", compiled.normalizer))
    const spelling = yield* Spelling.fromJson(at("decoder", compiled.decoder), compiled.byteLevel)
    const decoded = spelling.replacements.reduce(
      (table, [sought, content]) => ByteTable.replaced(table, Buffer.from(sought), Buffer.from(content)),
      compiled.spelled
    )
    const bytes = TokenBytes.make(decoded, spelling.stripsSpace)
    const encoder = makeEncoder(compiled, preTokenizer)
    const normalize = (text: string, first = true) => preTokenizer.respell(normalizer(text), first)
    const skipped = new Set(compiled.added.filter(({ special }) => special).map(({ id }) => id))
    const idOfAdded = new Map(compiled.added.map(({ content, id }) => [content, id]))
    const sections = AddedTokens.sectionsOf(compiled.added.filter(({ normalized }) => !normalized))
    const laterSections = AddedTokens.sectionsOf(
      compiled.added
        .filter(({ normalized }) => normalized)
        .map((token) => ({ ...token, content: normalizer(token.content) }))
    )
    return {
      vocabularySize: compiled.kinds.length,
      encode: (text) => {
        encoder.appendText(normalize(text))
        return encoder.finish()
      },
      encodeWithSpecials: (text) => {
        let first = true
        for (const section of sections(text)) {
          for (const part of section.id === undefined ? laterSections(normalizer(section.text)) : [section]) {
            if (part.id === undefined) encoder.appendText(preTokenizer.respell(part.text, first))
            else encoder.appendAdded(part.id, Buffer.byteLength(part.text))
          }
          first = false
        }
        return encoder.finish()
      },
      // half a surrogate pair has no UTF-8; it reads as U+FFFD
      normalize: (text) => normalize(text).replace(/\p{Surrogate}/gu, "\ufffd"),
      decode: (ids, options) =>
        bytes.decode(ids, options?.skipSpecialTokens === true ? (id) => skipped.has(id) : undefined),
      decoder: bytes.decoder,
      special: (content) => idOfAdded.get(content),
      isSpecial: (id) => compiled.kinds[id] === Kind.added
    } satisfies TokenizerService
  })
