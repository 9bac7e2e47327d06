/** How the tokens of a vocabulary spell text, as the `decoder` of a tokenizer.json says: what to put for a mark of a space. */
import * as Either from "effect/Either"
import type { TokenizerError } from "../Tokenizer.ts"
import * as Json from "./Json.ts"

/** @category model */
export interface Spelling {
  /** what each token holds, and what is put there instead */
  readonly replacements: ReadonlyArray<readonly [sought: string, content: string]>
  /** whether a decoded text loses a space at its start, which encoding put there */
  readonly stripsSpace: boolean
}

type Node = Json.At<Readonly<Record<string, unknown>>>

const flatten = (at: Json.At): Either.Either<ReadonlyArray<Node>, TokenizerError> =>
  Either.gen(function* () {
    if (at.value === undefined || at.value === null) return []
    const node = yield* Json.object(at)
    if (node.value.type !== "Sequence") return [node]
    const parts = yield* Either.all((yield* Json.array(Json.key(node, "decoders"))).map(flatten))
    return parts.flat()
  })

const refuse = (node: Node, known: ReadonlyArray<string>) =>
  Json.fail(
    Json.key(node, "type"),
    `decoder ${JSON.stringify(node.value.type)} is not supported here; ${known.join(", ")} are`
  )

// each may only come after those before it
const order = ["Replace", "Metaspace", "ByteFallback", "Fuse", "Strip"]

/** From the `decoder` of a tokenizer.json. @category constructors */
export const fromJson = (at: Json.At, byteLevel: boolean): Either.Either<Spelling, TokenizerError> =>
  Either.gen(function* () {
    const nodes = yield* flatten(at)
    const replacements: Array<readonly [string, string]> = []
    let stripsSpace = false
    let reached = 0
    for (const node of nodes) {
      const type = yield* Json.string(Json.key(node, "type"))
      if (byteLevel) {
        if (type !== "ByteLevel") return yield* refuse(node, ["ByteLevel"])
        continue
      }
      const place = order.indexOf(type)
      if (place < reached) return yield* refuse(node, order.slice(reached))
      reached = place
      if (type === "Replace") {
        const sought = yield* Json.string(Json.key(yield* Json.object(Json.key(node, "pattern")), "String"))
        if (sought === "") return yield* Json.fail(Json.key(node, "pattern"), "there is nothing to replace in it")
        replacements.push([sought, yield* Json.string(Json.key(node, "content"))])
      } else if (type === "Metaspace") {
        const added = yield* Json.boolean(Json.key(node, "add_prefix_space"), true)
        replacements.push([typeof node.value.replacement === "string" ? node.value.replacement : "\u2581", " "])
        stripsSpace = (node.value.prepend_scheme ?? (added ? "always" : "never")) !== "never"
      } else if (type === "Strip") {
        const { content, start, stop } = node.value
        const fused = nodes.some(({ value }) => value.type === "Fuse")
        if (content !== " " || (start !== 0 && start !== 1) || stop !== 0 || !fused) {
          return yield* Json.fail(node, `only the removal of one space at the start of the whole text is supported`)
        }
        stripsSpace = start === 1
      }
    }
    return { replacements, stripsSpace }
  })
