/** A number of a loss's configuration, with the value that it has when it is left out. */
import * as Schema from "effect/Schema"

/** Finite and at least 0. @category schemas */
export const nonNegative = (fallback: number) =>
  Schema.optionalWith(Schema.Finite.pipe(Schema.nonNegative()), { default: () => fallback })
