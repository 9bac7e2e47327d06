/**
 * A configuration value that knows where it was written. Merging, renaming and indexing keep the place of every value,
 * so that a problem found late can still be shown at its line.
 */

/** @category model */
export interface Place {
  /** the file as the user named it, or `--set` */
  readonly source: string
  /** line in the file, counted from 1 */
  readonly line: number | undefined
  /** what relative paths in this source are relative to */
  readonly directory: string
  /** the dotted key as it is spelt in the source */
  readonly key: string
}

/** @category model */
export interface Table {
  readonly _tag: "Table"
  readonly place: Place
  readonly entries: ReadonlyMap<string, Located>
}
/** @category model */
export interface List {
  readonly _tag: "List"
  readonly place: Place
  readonly items: ReadonlyArray<Located>
}
/** @category model */
export interface Scalar {
  readonly _tag: "Scalar"
  readonly place: Place
  readonly value: unknown
}
/** @category model */
export type Located = Table | List | Scalar

/** A key or an index for each level. @category model */
export type KeyPath = ReadonlyArray<string | number>

/** Gives a parsed TOML value its places; `placeOf` answers for every path. @category constructors */
export const make = (value: unknown, placeOf: (path: KeyPath) => Place, path: KeyPath = []): Located => {
  const place = placeOf(path)
  if (Array.isArray(value)) {
    return { _tag: "List", place, items: value.map((item, index) => make(item, placeOf, [...path, index])) }
  }
  if (isRecord(value)) {
    const entries = Object.entries(value).map(([key, inner]) => [key, make(inner, placeOf, [...path, key])] as const)
    return { _tag: "Table", place, entries: new Map(entries) }
  }
  return { _tag: "Scalar", place, value }
}

/** A plain table: not a list, not a date. @category guards */
export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date)

/** @category conversions */
export const toPlain = (located: Located): unknown => {
  switch (located._tag) {
    case "Scalar":
      return located.value
    case "List":
      return located.items.map(toPlain)
    case "Table":
      return Object.fromEntries(Array.from(located.entries, ([key, inner]) => [key, toPlain(inner)]))
  }
}

const isIndexed = (table: Table): boolean =>
  table.entries.size > 0 && Array.from(table.entries.keys()).every((key) => /^\d+$/.test(key))

/**
 * Tables merge key by key, everything else is replaced. A table of indices laid over a list (`--set a.0.b=c`) changes
 * the items that it names.
 *
 * @category combinators
 */
export const merge = (base: Located, over: Located): Located => {
  if (base._tag === "Table" && over._tag === "Table") {
    const entries = new Map(base.entries)
    for (const [key, inner] of over.entries) {
      const before = entries.get(key)
      entries.set(key, before === undefined ? inner : merge(before, inner))
    }
    return { ...base, entries }
  }
  if (base._tag === "List" && over._tag === "Table" && isIndexed(over)) {
    const items = [...base.items]
    for (const [key, inner] of over.entries) {
      const index = Number(key)
      if (index >= items.length) return over
      items[index] = merge(items[index]!, inner)
    }
    return { ...base, items }
  }
  return over
}

/** @category getters */
export const at = (root: Located, path: KeyPath): Located | undefined => {
  let here: Located | undefined = root
  for (const key of path) {
    if (here?._tag === "Table") here = here.entries.get(String(key))
    else if (here?._tag === "List") here = here.items[Number(key)]
    else return undefined
  }
  return here
}

/** The value at a path, or the innermost table or list around it that was written. @category getters */
export const enclosing = (root: Located, path: KeyPath): Located => {
  for (let length = path.length; length > 0; length--) {
    const found = at(root, path.slice(0, length))
    if (found !== undefined) return found
  }
  return root
}

/** The tree without the value at a path. @category combinators */
export const without = (root: Located, path: KeyPath): Located => {
  const [head, ...rest] = path
  if (head === undefined) return root
  if (root._tag === "Table") {
    const inner = root.entries.get(String(head))
    if (inner === undefined) return root
    const entries = new Map(root.entries)
    if (rest.length === 0) entries.delete(String(head))
    else entries.set(String(head), without(inner, rest))
    return { ...root, entries }
  }
  if (root._tag === "List" && typeof head === "number") {
    const items =
      rest.length === 0
        ? root.items.filter((_, index) => index !== head)
        : root.items.map((item, index) => (index === head ? without(item, rest) : item))
    return { ...root, items }
  }
  return root
}

/** `["train", "source", 0, "name"]` as `train.source[0].name`. @category conversions */
export const dotted = (path: KeyPath): string =>
  path.reduce<string>((text, key) => {
    if (typeof key === "number") return `${text}[${key}]`
    const word = /^[A-Za-z0-9_-]+$/.test(key) ? key : JSON.stringify(key)
    return text === "" ? word : `${text}.${word}`
  }, "")
