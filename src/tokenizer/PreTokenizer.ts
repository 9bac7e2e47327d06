/**
 * Cuts a text into pre-tokens, within which tokens merge and across which they never do. The pieces cover the text in
 * order and lose nothing, so that a cut is the list of their ends, and byte offsets are sums of lengths.
 */
import * as Either from "effect/Either"
import type { TokenizerError } from "../Tokenizer.ts"
import * as Automaton from "./Automaton.ts"
import * as Cut from "./Cut.ts"
import * as Json from "./Json.ts"
import * as Pattern from "./Pattern.ts"
import * as Program from "./Program.ts"

/** @category model */
export interface PreTokenizer {
  /** whether the vocabulary spells bytes in the byte-level alphabet */
  readonly byteLevel: boolean
  /** cuts what is one piece; `first` when it is the beginning of what is encoded */
  readonly split: (cut: Cut.Cut) => void
  /** as `Metaspace` changes a text before it cuts it: a normaliser more */
  readonly respell: (text: string, first: boolean) => string
}

type Stage = (cut: Cut.Cut) => void

const inOrder =
  (stages: ReadonlyArray<Stage>): Stage =>
  (cut) => {
    for (const stage of stages) stage(cut)
  }

/** Where a piece ends: before each match, after it, or both. */
interface Sides {
  readonly before: boolean
  readonly after: boolean
}

const sidesOf: Readonly<Record<string, Sides>> = {
  Isolated: { before: true, after: true },
  MergedWithPrevious: { before: false, after: true },
  MergedWithNext: { before: true, after: false }
}

const splitting =
  (automaton: Automaton.Automaton, { after, before }: Sides): Stage =>
  (cut) => {
    automaton.forget()
    Cut.refine(cut, (units, from, to) => {
      let at = from
      while (at < to) {
        const end = automaton.match(units, at, to)
        if (end < 0) at += Cut.isPair(units, at, to) ? 2 : 1
        else {
          if (before && at > from) Cut.endPiece(cut, at)
          if (after) Cut.endPiece(cut, end)
          at = end > at ? end : end + (Cut.isPair(units, at, to) ? 2 : 1)
        }
      }
      Cut.endPiece(cut, to)
    })
  }

const automatonOf = (at: Json.At, pattern: Either.Either<Pattern.Node, string>) =>
  Either.map(Either.flatMap(pattern, Program.make), Automaton.make).pipe(
    Either.orElse((reason) => Json.fail(at, reason))
  )

const ownPattern = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

const literal = (text: string): Pattern.Node => ({
  kind: "sequence",
  items: Array.from(text, (char) => ({
    kind: "char" as const,
    set: { key: char, has: (point: number) => point === char.codePointAt(0) }
  }))
})

interface Read {
  readonly byteLevel: boolean
  readonly stage: Stage
  readonly respell?: PreTokenizer["respell"] | undefined
}

const readMetaspace = (node: Json.At<Readonly<Record<string, unknown>>>): Either.Either<Read, TokenizerError> =>
  Either.gen(function* () {
    const mark = yield* Json.string({ ...Json.key(node, "replacement"), value: node.value.replacement ?? "\u2581" })
    const always = yield* Json.boolean(Json.key(node, "add_prefix_space"), true)
    const scheme = node.value.prepend_scheme ?? (always ? "always" : "never")
    if (scheme !== "always" && scheme !== "first" && scheme !== "never") {
      return yield* Json.fail(Json.key(node, "prepend_scheme"), `must be "always", "first" or "never"`)
    }
    const cuts = yield* Json.boolean(Json.key(node, "split"), true)
    const automaton = yield* automatonOf(node, Either.right(literal(mark)))
    return {
      byteLevel: false,
      stage: cuts ? splitting(automaton, sidesOf.MergedWithNext!) : () => {},
      respell: (text, first) => {
        const spelled = text.replaceAll(" ", () => mark)
        const asks = scheme === "always" || (scheme === "first" && first)
        return asks && spelled !== "" && !spelled.startsWith(mark) ? mark + spelled : spelled
      }
    }
  })

const readSplit = (node: Json.At<Readonly<Record<string, unknown>>>): Either.Either<Read, TokenizerError> =>
  Either.gen(function* () {
    const behavior = yield* Json.string(Json.key(node, "behavior"))
    const sides = Object.hasOwn(sidesOf, behavior) ? sidesOf[behavior] : undefined
    if (sides === undefined) {
      return yield* Json.fail(
        Json.key(node, "behavior"),
        `"${behavior}" is not supported; ${Object.keys(sidesOf).join(", ")} are`
      )
    }
    // with Isolated, matches and what lies between are pieces alike, so that `invert` changes nothing
    if (behavior !== "Isolated" && (yield* Json.boolean(Json.key(node, "invert"), false))) {
      return yield* Json.fail(Json.key(node, "invert"), `is not supported with "${behavior}"`)
    }
    const pattern = yield* Json.object(Json.key(node, "pattern"))
    const text = Json.key(pattern, "String")
    const source = Json.key(pattern, "Regex")
    const automaton =
      text.value === undefined
        ? yield* automatonOf(source, Pattern.parse(yield* Json.string(source)))
        : yield* automatonOf(text, Either.right(literal(yield* Json.string(text))))
    return { byteLevel: false, stage: splitting(automaton, sides) }
  })

const read = (at: Json.At): Either.Either<Read, TokenizerError> =>
  Either.gen(function* () {
    const node = yield* Json.object(at)
    const type = yield* Json.string(Json.key(node, "type"))
    switch (type) {
      case "ByteLevel": {
        const stages: Array<Stage> = []
        if (yield* Json.boolean(Json.key(node, "add_prefix_space"), false)) stages.push(Cut.prefixSpaces)
        if (yield* Json.boolean(Json.key(node, "use_regex"), true)) {
          stages.push(splitting(yield* automatonOf(node, Pattern.parse(ownPattern)), sidesOf.Isolated!))
        }
        return { byteLevel: true, stage: inOrder(stages) }
      }
      case "Digits": {
        const individual = yield* Json.boolean(Json.key(node, "individual_digits"), false)
        const digits = Pattern.parse(individual ? "\\p{N}" : "\\p{N}+")
        return { byteLevel: false, stage: splitting(yield* automatonOf(node, digits), sidesOf.Isolated!) }
      }
      case "Split":
        return yield* readSplit(node)
      case "Metaspace":
        return yield* readMetaspace(node)
      case "Sequence": {
        const stages: Array<Stage> = []
        let sequence: Read = { byteLevel: false, stage: inOrder(stages) }
        for (const item of yield* Json.array(Json.key(node, "pretokenizers"))) {
          if (sequence.byteLevel) return yield* Json.fail(item, "nothing may come after ByteLevel")
          const next: Read = yield* read(item)
          if (next.respell !== undefined && stages.length > 0) {
            return yield* Json.fail(item, "nothing may come before Metaspace")
          }
          stages.push(next.stage)
          sequence = { ...sequence, byteLevel: next.byteLevel, respell: sequence.respell ?? next.respell }
        }
        return sequence
      }
      default:
        return yield* Json.fail(
          Json.key(node, "type"),
          `pre-tokenizer "${type}" is not supported; ByteLevel, Split, Digits, Metaspace and Sequence are`
        )
    }
  })

const whole: Read = { byteLevel: false, stage: () => {} }

/** From the `pre_tokenizer` of a tokenizer.json; none at all makes one piece of the whole text. @category constructors */
export const fromJson = (at: Json.At): Either.Either<PreTokenizer, TokenizerError> =>
  Either.map(
    at.value === undefined || at.value === null ? Either.right(whole) : read(at),
    ({ byteLevel, respell, stage }) => ({
      byteLevel,
      split: stage,
      respell: respell ?? ((text) => text)
    })
  )
