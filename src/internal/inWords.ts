/** What somebody's code threw, failed with or gave back, in words: never "[object Object]". */
import * as Inspectable from "effect/Inspectable"

/** An error's message, a text as it is, anything else as one line of JSON where it has one. */
export const inWords = (value: unknown): string =>
  value instanceof Error ? value.message || value.name : Inspectable.toStringUnknown(value, 0)
