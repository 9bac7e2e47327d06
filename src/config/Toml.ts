/**
 * Values as canonical TOML text: scalars first, then tables. A table in a list's item stands on one line, unless it holds
 * tables itself.
 */
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

const holdsTables = (value: unknown): value is Readonly<Record<string, unknown>> =>
  isRecord(value) && Object.values(value).some(isRecord)

const block = (header: string, lines: ReadonlyArray<string>): ReadonlyArray<string> =>
  header === "" ? [lines.join("\n")] : [[header, ...lines].join("\n")]

const blocksOf = (table: Readonly<Record<string, unknown>>, path: string): ReadonlyArray<string> => {
  const scalars: Array<string> = []
  const nested: Array<string> = []
  for (const [name, value] of Object.entries(table)) {
    if (value === undefined) continue
    const inner = path === "" ? key(name) : `${path}.${key(name)}`
    if (isRecord(value)) nested.push(...blocksOf(value, inner))
    else if (isTableList(value)) {
      for (const item of value) {
        const entries = Object.entries(item)
        const lines = entries.flatMap(([itemKey, itemValue]) =>
          itemValue === undefined || holdsTables(itemValue) ? [] : [`${key(itemKey)} = ${inline(itemValue)}`]
        )
        nested.push(...block(`[[${inner}]]`, lines))
        for (const [itemKey, itemValue] of entries) {
          if (holdsTables(itemValue)) nested.push(...blocksOf(itemValue, `${inner}.${key(itemKey)}`))
        }
      }
    } else scalars.push(`${key(name)} = ${inline(value)}`)
  }
  const empty = scalars.length === 0 && (path === "" || nested.length > 0)
  return empty ? nested : [...block(path === "" ? "" : `[${path}]`, scalars), ...nested]
}

/** @category conversions */
export const print = (table: Readonly<Record<string, unknown>>): string => `${blocksOf(table, "").join("\n\n")}\n`
