/** The shape in which a credit is written down: every number and every array of tokens comes back bit for bit. */
import * as Schema from "effect/Schema"
import { Float, Float32Column } from "./RolloutWire.ts"

const Claim = Schema.Struct({
  stream: Schema.Literal("advantages", "referenceLogprobs", "rl", "ce", "refKl"),
  over: Schema.Union(Schema.Literal("sampled"), Schema.NonNegativeInt),
  // No name of a number is a column: none is base64 of whole 4-byte values.
  values: Schema.Union(Float, Float32Column),
  writer: Schema.String
})

export const Credit = Schema.Struct({
  claims: Schema.Array(Claim),
  counts: Schema.optional(Schema.Record({ key: Schema.String, value: Float }))
})
