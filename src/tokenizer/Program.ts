/** A pattern as instructions, each of which takes one character, or chooses, or looks at the next character, or is done. */
import * as Either from "effect/Either"
import type { CharSet, Node } from "./Pattern.ts"

/** @category model */
export type Instruction =
  | { readonly kind: "take"; readonly set: number; readonly to: number }
  /** `to` is preferred */
  | { readonly kind: "fork"; readonly to: number; readonly otherwise: number }
  | { readonly kind: "next"; readonly set: number; readonly end: boolean; readonly to: number }
  | { readonly kind: "done" }

/** @category model */
export interface Program {
  readonly instructions: ReadonlyArray<Instruction>
  readonly start: number
  /** what the instructions' sets are indices of */
  readonly sets: ReadonlyArray<CharSet>
}

const longest = 2000

/** The left side says why a pattern has no program. @category constructors */
export const make = (pattern: Node): Either.Either<Program, string> => {
  const instructions: Array<Instruction> = [{ kind: "done" }]
  const sets: Array<CharSet> = []
  const indices = new Map<string, number>()
  const setOf = (set: CharSet): number => {
    const known = indices.get(set.key)
    if (known !== undefined) return known
    indices.set(set.key, sets.length)
    return sets.push(set) - 1
  }
  const emit = (instruction: Instruction): number => instructions.push(instruction) - 1
  const fork = (preferred: number, other: number, lazy: boolean): Instruction =>
    lazy ? { kind: "fork", to: other, otherwise: preferred } : { kind: "fork", to: preferred, otherwise: other }

  /** the place where `node`, followed by what is at `then`, begins */
  const place = (node: Node, then: number): number => {
    if (instructions.length > longest) return then
    switch (node.kind) {
      case "char":
        return emit({ kind: "take", set: setOf(node.set), to: then })
      case "next":
        return emit({ kind: "next", set: setOf(node.set), end: node.end, to: then })
      case "sequence":
        return node.items.reduceRight((after, item) => place(item, after), then)
      case "choice":
        return node.options
          .map((option) => place(option, then))
          .reduceRight((otherwise, option) => emit({ kind: "fork", to: option, otherwise }))
      case "repeat": {
        let after = then
        if (node.max === Infinity) {
          const loop = emit({ kind: "done" })
          instructions[loop] = fork(place(node.item, loop), then, node.lazy)
          after = loop
        } else {
          for (let count = node.min; count < node.max && instructions.length <= longest; count++) {
            after = emit(fork(place(node.item, after), then, node.lazy))
          }
        }
        for (let count = 0; count < node.min && instructions.length <= longest; count++) after = place(node.item, after)
        return after
      }
    }
  }
  const start = place(pattern, 0)
  return instructions.length > longest
    ? Either.left("a pattern of this size is not supported")
    : Either.right({ instructions, start, sets })
}
