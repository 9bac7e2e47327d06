/**
 * How a section of the configuration is declared: each key once, with its kind, its default and its meaning. Checks,
 * messages, documentation and the canonical text all come from that one declaration.
 */
import * as Schema from "effect/Schema"
import { name as text } from "../wire/Fields.ts"

export { count, name as text, open } from "../wire/Fields.ts"

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

const wholeFrom = (least: number, most: number) =>
  number(`a whole number from ${least} to ${most}`, (n) => Number.isInteger(n) && n >= least && n <= most)

/** Largest number that engines and counters hold. */
const int32 = 2 ** 31 - 1

/** @category kinds */
export const wholeNumber = wholeFrom(0, int32)
/** Rollouts or examples: all of a step are planned at once. @category kinds */
export const many = wholeFrom(1, 2 ** 20)
/** Tokens of one sequence. @category kinds */
export const length = wholeFrom(1, 2 ** 24)
/** @category kinds */
export const threads = wholeFrom(1, 1024)
/** @category kinds */
export const positive = number("a number above 0", (n) => Number.isFinite(n) && n > 0)
/** A number that an engine computes with. @category kinds */
export const positiveFloat32 = number(
  "a number from 1.2e-38 to 3.4e38, as float32 holds it",
  (n) => n >= 2 ** -126 && Number.isFinite(Math.fround(n))
)
/** @category kinds */
export const notNegativeFloat32 = number(
  "0, or a number from 1.2e-38 to 3.4e38, as float32 holds it",
  (n) => n === 0 || (n >= 2 ** -126 && Number.isFinite(Math.fround(n)))
)
/** A share relative to others. @category kinds */
export const ratio = number("a number from 0.000001 to 1000000", (n) => n >= 1e-6 && n <= 1e6)
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
