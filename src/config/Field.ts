/**
 * How a section of the configuration is declared: each key once, with its kind, its default and its meaning. Checks,
 * messages, documentation and the canonical text all come from that one declaration.
 */
import * as Schema from "effect/Schema"

/** Annotation: how a relative path in this value is understood. @category annotations */
export const ResolvesAgainst: unique symbol = Symbol.for("primerl/config/ResolvesAgainst")

/**
 * `file`: relative to the file it is written in; `module`: the same, when it starts with `./` or `../`;
 * `working`: relative to the directory in which the command runs.
 *
 * @category annotations
 */
export type ResolvesAgainst = "file" | "module" | "working"

const number = (allowed: string, accepts: (value: number) => boolean) =>
  Schema.Number.pipe(Schema.filter(accepts)).annotations({ description: allowed })

/** @category kinds */
export const count = number("a whole number, at least 1", (n) => Number.isSafeInteger(n) && n >= 1)
/** @category kinds */
export const wholeNumber = number("a whole number, at least 0", (n) => Number.isSafeInteger(n) && n >= 0)
/** @category kinds */
export const positive = number("a number above 0", (n) => Number.isFinite(n) && n > 0)
/** @category kinds */
export const notNegative = number("a number, at least 0", (n) => Number.isFinite(n) && n >= 0)
/** @category kinds */
export const norm = number("a number above 0 (inf: no limit)", (n) => n > 0)
/** @category kinds */
export const share = number("a number from 0 to 1", (n) => n >= 0 && n <= 1)
/** @category kinds */
export const positiveShare = number("a number above 0, at most 1", (n) => n > 0 && n <= 1)
/** @category kinds */
export const decay = number("a number, at least 0 and below 1", (n) => n >= 0 && n < 1)
/** @category kinds */
export const seed = number(
  "a whole number from 0 to 4294967295",
  (n) => Number.isInteger(n) && n >= 0 && n <= 0xffff_ffff
)
/** @category kinds */
export const text = Schema.String.pipe(Schema.filter((s) => s.length > 0)).annotations({
  description: "text that is not empty"
})
/** @category kinds */
export const folderName = Schema.String.pipe(
  Schema.filter((s) => /^[A-Za-z0-9_+][A-Za-z0-9._+-]*$/.test(s))
).annotations({
  description: "a folder name of letters, digits and . _ + -"
})
/** @category kinds */
export const path = (against: ResolvesAgainst) =>
  text.annotations({ description: "a path", [ResolvesAgainst]: against })
/** @category kinds */
export const moduleName = text.annotations({
  description: "a name, a package, or a path that starts with ./",
  [ResolvesAgainst]: "module" satisfies ResolvesAgainst
})

/** A table whose other keys are checked by what it names: an algorithm, a loss, an environment. @category kinds */
export const open = <F extends Schema.Struct.Fields>(fields: F) =>
  Schema.Struct(fields, Schema.Record({ key: Schema.String, value: Schema.Unknown }))

/** A key that must be written. @category fields */
export const required = <A, I>(schema: Schema.Schema<A, I>, documentation: string) =>
  Schema.propertySignature(schema.annotations({ documentation }))

/** A key that may be left out. @category fields */
export const optional = <A, I>(schema: Schema.Schema<A, I>, documentation: string) =>
  Schema.optionalWith(schema.annotations({ documentation }), { exact: true })

/** A key with a value of its own when it is left out. @category fields */
export const defaulted = <A, I>(schema: Schema.Schema<A, I>, value: NoInfer<A>, documentation: string) =>
  Schema.optionalWith(schema.annotations({ documentation, default: value }), { exact: true, default: () => value })

/** A table that is read as if it were empty when it is left out. @category fields */
export const table = <A, I>(schema: Schema.Schema<A, I>, documentation: string) =>
  Schema.optionalWith(schema.annotations({ documentation }), {
    exact: true,
    default: () => Schema.decodeUnknownSync(schema)({})
  })

/** `batchSize` as `batch_size`. */
const tomlKey = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** A table of keys: camelCase in programs, snake_case in TOML. @category constructors */
export const section = <F extends Readonly<Record<string, Schema.PropertySignature.All>>>(
  fields: F
): Schema.Schema<Schema.Simplify<Schema.Struct.Type<F>>, Readonly<Record<string, unknown>>> => {
  const renamed: Record<string, Schema.PropertySignature.All> = {}
  for (const [name, signature] of Object.entries(fields)) {
    renamed[name] = Schema.fromKey(signature as never, tomlKey(name)) as Schema.PropertySignature.All
  }
  return Schema.Struct(renamed as unknown as F) as never
}
