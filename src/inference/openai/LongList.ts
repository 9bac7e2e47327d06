/** A schema for lists with an item per token, which are checked in one pass: a step per item of a general schema is felt. */
import * as Schema from "effect/Schema"

/** @category schemas */
export const of = <A>(isItem: (item: unknown) => item is A, description: string): Schema.Schema<ReadonlyArray<A>> =>
  Schema.declare((value: unknown): value is ReadonlyArray<A> => Array.isArray(value) && value.every(isItem), {
    description,
    message: (issue) =>
      `expected ${description}, found ${Array.isArray(issue.actual) ? "other items" : typeof issue.actual}`
  })

/** @category schemas */
export const numbers = of((item) => typeof item === "number", "a list of numbers")
/** @category schemas */
export const numbersOrNull = of(
  (item): item is number | null => item === null || typeof item === "number",
  "a list of numbers or null"
)
/** @category schemas */
export const strings = of((item) => typeof item === "string", "a list of strings")
