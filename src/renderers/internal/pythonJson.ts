/**
 * JSON as Python's `json.dumps` spells it, which is what chat templates produce and models were trained on: a space
 * after ":" and ",", keys in their order, non-ASCII characters as they are.
 */

/** @category model */
export interface PythonJsonOptions {
  readonly ensureAscii?: boolean | undefined
  readonly sortKeys?: boolean | undefined
  /** between items, and between key and value */
  readonly separators?: readonly [item: string, key: string] | undefined
  /** spaces per level; one line when absent */
  readonly indent?: number | undefined
}

/** Python writes exponents from 1e-5 down, with two digits at least. */
const numberText = (value: number): string => {
  const magnitude = Math.abs(value)
  const text = magnitude > 0 && magnitude < 1e-4 ? value.toExponential() : String(value)
  return text.replace(/e([+-])(\d)$/, "e$10$2")
}

const stringText = (value: string, ensureAscii: boolean): string => {
  const text = JSON.stringify(value)
  return ensureAscii
    ? text.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    : text
}

/** Members whose value is undefined are left out. @category conversions */
export const pythonJson = (value: unknown, options: PythonJsonOptions = {}): string => {
  const { ensureAscii = false, indent, sortKeys = false } = options
  const [itemSeparator, keySeparator] = options.separators ?? [indent === undefined ? ", " : ",", ": "]
  const wrap = (open: string, close: string, items: ReadonlyArray<string>, depth: number): string => {
    if (items.length === 0) return open + close
    if (indent === undefined) return open + items.join(itemSeparator) + close
    const inner = `\n${" ".repeat(indent * (depth + 1))}`
    return `${open}${inner}${items.join(itemSeparator + inner)}\n${" ".repeat(indent * depth)}${close}`
  }
  const write = (node: unknown, depth: number): string => {
    if (typeof node === "string") return stringText(node, ensureAscii)
    if (typeof node === "number") return numberText(node)
    if (typeof node === "boolean") return node ? "true" : "false"
    if (Array.isArray(node)) {
      return wrap(
        "[",
        "]",
        node.map((item: unknown) => write(item, depth + 1)),
        depth
      )
    }
    if (typeof node !== "object" || node === null) return "null"
    const members = Object.entries(node).filter(([, member]) => member !== undefined)
    if (sortKeys) members.sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0))
    const items = members.map(([key, member]) => stringText(key, ensureAscii) + keySeparator + write(member, depth + 1))
    return wrap("{", "}", items, depth)
  }
  return write(value, 0)
}
