/** Values as canonical TOML text: scalars first, then tables; what stands in a list's items stands on one line. */
import { TomlDate } from "smol-toml"
import { isRecord } from "./Located.ts"

const key = (name: string): string => (/^[A-Za-z0-9_-]+$/.test(name) ? name : string(name))

// JSON's escapes are TOML's, but for DEL
const string = (value: string): string => JSON.stringify(value).replaceAll("\u007f", "\\u007f")

const number = (value: number): string => {
  if (Number.isNaN(value)) return "nan"
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf"
  if (Object.is(value, -0)) return "-0.0"
  const unsafe = Number.isInteger(value) && !Number.isSafeInteger(value)
  return unsafe || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential() : String(value)
}

const inline = (value: unknown): string => {
  if (typeof value === "string") return string(value)
  if (typeof value === "number") return number(value)
  if (Array.isArray(value)) return `[${value.map(inline).join(", ")}]`
  if (value instanceof TomlDate) return value.toISOString()
  if (isRecord(value)) {
    const entries = Object.entries(value).filter(([, inner]) => inner !== undefined)
    return entries.length === 0
      ? "{}"
      : `{ ${entries.map(([name, inner]) => `${key(name)} = ${inline(inner)}`).join(", ")} }`
  }
  return String(value)
}

const isTableList = (value: unknown): value is ReadonlyArray<Readonly<Record<string, unknown>>> =>
  Array.isArray(value) && value.length > 0 && value.every(isRecord)

const block = (header: string, lines: ReadonlyArray<string>): ReadonlyArray<string> =>
  header === "" ? [lines.join("\n")] : [[header, ...lines].join("\n")]

const blocksOf = (table: Readonly<Record<string, unknown>>, path: string): ReadonlyArray<string> => {
  const scalars: Array<string> = []
  const nested: Array<string> = []
  for (const [name, value] of Object.entries(table)) {
    if (value === undefined) continue
    const inner = path === "" ? key(name) : `${path}.${key(name)}`
    if (isRecord(value) && !(value instanceof TomlDate)) nested.push(...blocksOf(value, inner))
    else if (isTableList(value)) {
      for (const item of value) {
        const lines = Object.entries(item).flatMap(([itemKey, itemValue]) =>
          itemValue === undefined ? [] : [`${key(itemKey)} = ${inline(itemValue)}`]
        )
        nested.push(...block(`[[${inner}]]`, lines))
      }
    } else scalars.push(`${key(name)} = ${inline(value)}`)
  }
  const empty = scalars.length === 0 && (path === "" || nested.length > 0)
  return empty ? nested : [...block(path === "" ? "" : `[${path}]`, scalars), ...nested]
}

/** @category conversions */
export const print = (table: Readonly<Record<string, unknown>>): string => `${blocksOf(table, "").join("\n\n")}\n`
