/**
 * Cuts a text into pre-tokens, within which tokens merge and across which they never do. The pieces cover the text in
 * order and lose nothing, so that byte offsets are sums of lengths.
 */
import * as Either from "effect/Either"
import type { TokenizerError } from "../Tokenizer.ts"
import * as Json from "./Json.ts"
import { toRegExp } from "./pattern.ts"

/** Receives one piece; `prefixed` when its first character is a space that the text does not have. @category model */
export type Emit = (piece: string, prefixed: boolean) => void

/** @category model */
export interface PreTokenizer {
  /** whether the vocabulary spells bytes in the byte-level alphabet */
  readonly byteLevel: boolean
  readonly split: (text: string, emit: Emit) => void
}

type Stage = (piece: string, prefixed: boolean, emit: Emit) => void

/** matches and what lies between them are pieces alike */
const isolate =
  (pattern: RegExp): Stage =>
  (piece, prefixed, emit) => {
    let from = 0
    pattern.lastIndex = 0
    for (let match = pattern.exec(piece); match !== null; match = pattern.exec(piece)) {
      const text = match[0]
      if (text === "") {
        pattern.lastIndex++
        continue
      }
      if (match.index > from) emit(piece.slice(from, match.index), prefixed && from === 0)
      emit(text, prefixed && match.index === 0)
      from = match.index + text.length
      pattern.lastIndex = from
    }
    if (from < piece.length) emit(piece.slice(from), prefixed && from === 0)
  }

const words = isolate(
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu
)

const whole: Stage = (piece, prefixed, emit) => emit(piece, prefixed)

const andThen =
  (first: Stage, second: Stage): Stage =>
  (piece, prefixed, emit) =>
    first(piece, prefixed, (part, partPrefixed) => second(part, partPrefixed, emit))

const byteLevelStage = (addPrefixSpace: boolean, useRegex: boolean): Stage => {
  const cut = useRegex ? words : whole
  if (!addPrefixSpace) return cut
  return (piece, prefixed, emit) => (piece.startsWith(" ") ? cut(piece, prefixed, emit) : cut(` ${piece}`, true, emit))
}

const literal = (text: string): RegExp => new RegExp(text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "gu")

interface Read {
  readonly byteLevel: boolean
  readonly stage: Stage
}

const read = (at: Json.At): Either.Either<Read, TokenizerError> =>
  Either.gen(function* () {
    const node = yield* Json.object(at)
    const type = yield* Json.string(Json.key(node, "type"))
    switch (type) {
      case "ByteLevel": {
        const addPrefixSpace = yield* Json.boolean(Json.key(node, "add_prefix_space"), false)
        const useRegex = yield* Json.boolean(Json.key(node, "use_regex"), true)
        return { byteLevel: true, stage: byteLevelStage(addPrefixSpace, useRegex) }
      }
      case "Digits": {
        const individual = yield* Json.boolean(Json.key(node, "individual_digits"), false)
        return { byteLevel: false, stage: isolate(individual ? /\p{N}/gu : /\p{N}+/gu) }
      }
      case "Split": {
        const behavior = yield* Json.string(Json.key(node, "behavior"))
        if (behavior !== "Isolated") {
          return yield* Json.fail(Json.key(node, "behavior"), `"${behavior}" is not supported; only "Isolated" is`)
        }
        // with Isolated, matches and gaps are pieces alike, so that `invert` changes nothing
        const pattern = yield* Json.object(Json.key(node, "pattern"))
        const text = Json.key(pattern, "String")
        if (text.value !== undefined) {
          return { byteLevel: false, stage: isolate(literal(yield* Json.string(text))) }
        }
        const source = Json.key(pattern, "Regex")
        const compiled = toRegExp(yield* Json.string(source))
        if (Either.isLeft(compiled)) return yield* Json.fail(source, compiled.left)
        return { byteLevel: false, stage: isolate(compiled.right) }
      }
      case "Sequence": {
        let sequence: Read = { byteLevel: false, stage: whole }
        for (const item of yield* Json.array(Json.key(node, "pretokenizers"))) {
          if (sequence.byteLevel) return yield* Json.fail(item, "nothing may come after ByteLevel")
          const next: Read = yield* read(item)
          sequence = { byteLevel: next.byteLevel, stage: andThen(sequence.stage, next.stage) }
        }
        return sequence
      }
      default:
        return yield* Json.fail(
          Json.key(node, "type"),
          `pre-tokenizer "${type}" is not supported; ByteLevel, Split, Digits and Sequence are`
        )
    }
  })

/** From the `pre_tokenizer` of a tokenizer.json; none at all makes one piece of the whole text. @category constructors */
export const fromJson = (at: Json.At): Either.Either<PreTokenizer, TokenizerError> =>
  Either.map(
    at.value === undefined || at.value === null ? Either.right({ byteLevel: false, stage: whole }) : read(at),
    ({ byteLevel, stage }) => ({
      byteLevel,
      split: (text, emit) => {
        if (text !== "") stage(text, false, emit)
      }
    })
  )
