/** Reads untyped JSON with its place in mind, so that every refusal names the file and the path of keys. */
import * as Either from "effect/Either"
import { TokenizerError } from "../Tokenizer.ts"

/** A value and where it stands. @category model */
export interface At<A = unknown> {
  readonly file: string
  readonly where: string
  readonly value: A
}

type Result<A> = Either.Either<A, TokenizerError>

/** @category errors */
export const fail = (at: At, reason: string): Result<never> =>
  Either.left(new TokenizerError({ file: at.file, where: at.where, reason }))

const found = (value: unknown): string => {
  if (value === undefined) return "nothing"
  if (value === null) return "null"
  if (Array.isArray(value)) return "an array"
  return typeof value === "object" ? "an object" : `${typeof value} ${String(JSON.stringify(value)).slice(0, 40)}`
}

const expected = (at: At, what: string): Result<never> => fail(at, `expected ${what}, found ${found(at.value)}`)

/** @category navigation */
export const key = (at: At<Readonly<Record<string, unknown>>>, name: string): At => ({
  file: at.file,
  where: at.where === "" ? name : `${at.where}.${name}`,
  value: Object.hasOwn(at.value, name) ? at.value[name] : undefined
})

/** @category navigation */
export const item = (at: At, index: number, value: unknown): At => ({
  file: at.file,
  where: `${at.where}[${index}]`,
  value
})

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** @category narrowing */
export const object = (at: At): Result<At<Readonly<Record<string, unknown>>>> =>
  isRecord(at.value) ? Either.right({ ...at, value: at.value }) : expected(at, "an object")

/** @category narrowing */
export const array = (at: At): Result<ReadonlyArray<At>> =>
  Array.isArray(at.value)
    ? Either.right(at.value.map((value: unknown, index) => item(at, index, value)))
    : expected(at, "an array")

/** @category narrowing */
export const string = (at: At): Result<string> =>
  typeof at.value === "string" ? Either.right(at.value) : expected(at, "a string")

/** Whether a value may be the id of a token. @category narrowing */
export const isId = (value: unknown): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 2 ** 31

/** @category narrowing */
export const id = (at: At): Result<number> =>
  isId(at.value) ? Either.right(at.value) : expected(at, "a token id (an integer from 0)")

/** An absent or null value reads as the default. @category narrowing */
export const boolean = (at: At, byDefault: boolean): Result<boolean> => {
  if (at.value === undefined || at.value === null) return Either.right(byDefault)
  return typeof at.value === "boolean" ? Either.right(at.value) : expected(at, "true or false")
}
