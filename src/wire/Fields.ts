/** Kinds of fields of JSON bodies. `null` reads as left out, as clients of typed languages send it. */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as AST from "effect/SchemaAST"

/** An object whose other keys are nobody's business here. @category kinds */
export const open = <F extends Schema.Struct.Fields>(fields: F) =>
  Schema.Struct(fields, Schema.Record({ key: Schema.String, value: Schema.Unknown }))

const describedBy = (schema: Schema.Schema.All) =>
  Option.match(AST.getDescriptionAnnotation(schema.ast), {
    onNone: () => ({}),
    onSome: (description) => ({ description })
  })

/** A field that may be left out or null. @category fields */
export const maybe = <A, I>(schema: Schema.Schema<A, I>) =>
  Schema.optionalWith(Schema.NullOr(schema).annotations(describedBy(schema)), { exact: true })

/** A field that is taken and changes nothing: what clients send along that has no meaning for one engine. @category fields */
export const ignored = Schema.optionalWith(Schema.Unknown, { exact: true })

/** A field of which only the value that changes nothing is supported. @category fields */
export const only = <A extends AST.LiteralValue>(value: A, why: string) =>
  maybe(Schema.Literal(value).annotations({ description: `${JSON.stringify(value)} (${why})` }))

/** A field that may only be empty. @category fields */
export const onlyEmpty = (why: string) =>
  maybe(
    Schema.Object.pipe(Schema.filter((value) => Object.keys(value).length === 0)).annotations({
      description: `nothing (${why})`
    })
  )

/** @category kinds */
export const flag = Schema.Boolean.annotations({ description: "true or false" })
/** @category kinds */
export const text = Schema.String.annotations({ description: "text" })
/** @category kinds */
export const name = Schema.String.pipe(Schema.filter((s) => s.length > 0)).annotations({
  description: "text that is not empty"
})

/** A whole number from 1 that counters hold. @category kinds */
export const count = Schema.Number.pipe(Schema.filter((n) => Number.isInteger(n) && n >= 1 && n < 2 ** 31)).annotations(
  { description: `a whole number from 1 to ${2 ** 31 - 1}` }
)

/** How many candidates beside the sampled token: the engine tells of none. @category kinds */
export const candidates = Schema.Literal(0, 1).annotations({
  description: "0 or 1: the log-probability of the token itself is all that this server has"
})
