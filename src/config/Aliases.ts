/**
 * Other spellings that mean the same: `[[orchestrator.train.env]]` for `source`, `id = "math-env"` for
 * `env = { id = "math-env" }`, loss `default` for `dppo`, `import_path` for a loss's `type`. Each document is rewritten before documents are merged, so that
 * a file in one spelling can be laid over a file in the other.
 */
import { at, type KeyPath, type Located, type Table } from "./Located.ts"
import { atPath, type Problem } from "./Problem.ts"

/** @category model */
export interface Rewritten {
  readonly tree: Located
  readonly problems: ReadonlyArray<Problem>
}

type Rewrite = (located: Located, report: (path: KeyPath, what: string) => void, path: KeyPath) => Located

const inTable =
  (change: (table: Table, report: (path: KeyPath, what: string) => void, path: KeyPath) => Table): Rewrite =>
  (located, report, path) =>
    located._tag === "Table" ? change(located, report, path) : located

const within = (key: string, rewrite: Rewrite): Rewrite =>
  inTable((table, report, path) => {
    const inner = table.entries.get(key)
    if (inner === undefined) return table
    return { ...table, entries: new Map(table.entries).set(key, rewrite(inner, report, [...path, key])) }
  })

const renamed = (from: string, to: string): Rewrite =>
  inTable((table, report, path) => {
    const inner = table.entries.get(from)
    if (inner === undefined) return table
    if (table.entries.has(to)) {
      report([...path, from], `"${from}" and "${to}" are two spellings of one list; keep "${to}"`)
    }
    const entries = Array.from(table.entries, ([key, value]) => [key === from ? to : key, value] as const)
    return { ...table, entries: new Map(entries) }
  })

/** Applies to every item of a list, or of a table of indices as `--set` makes them. */
const eachItem =
  (rewrite: Rewrite): Rewrite =>
  (located, report, path) => {
    if (located._tag === "List") {
      return { ...located, items: located.items.map((item, index) => rewrite(item, report, [...path, index])) }
    }
    if (located._tag === "Scalar") return located
    const entries = Array.from(located.entries, ([key, item]) => [key, rewrite(item, report, [...path, key])] as const)
    return { ...located, entries: new Map(entries) }
  }

const idInEnv: Rewrite = inTable((table, report, path) => {
  const id = table.entries.get("id")
  if (id === undefined) return table
  const entries = new Map(table.entries)
  entries.delete("id")
  const env = entries.get("env")
  if (env === undefined) entries.set("env", { _tag: "Table", place: id.place, entries: new Map([["id", id]]) })
  else report([...path, "id"], '"id" and "env" both name the environment; keep env = { id = "…" }')
  return { ...table, entries }
})

const lossNamedDefault: Rewrite = inTable((table) => {
  const type = table.entries.get("type")
  if (type?._tag !== "Scalar" || type.value !== "default") return table
  return { ...table, entries: new Map(table.entries).set("type", { ...type, value: "dppo" }) }
})

/** `import_path = "./my-loss.ts"`, with `type = "custom"` or none, for `type = "./my-loss.ts"`. */
const lossByPath: Rewrite = inTable((table, report, path) => {
  const imported = table.entries.get("import_path")
  if (imported === undefined) return table
  const entries = new Map(table.entries)
  entries.delete("import_path")
  const type = entries.get("type")
  if (type === undefined || (type._tag === "Scalar" && type.value === "custom")) entries.set("type", imported)
  else report([...path, "import_path"], '"import_path" and "type" both name the loss; keep type = "./my-loss.ts"')
  return { ...table, entries }
})

/** `kwargs = { clip = 0.2 }` for `clip = 0.2`: the loss's own keys. */
const lossKwargs: Rewrite = inTable((table, report, path) => {
  const kwargs = table.entries.get("kwargs")
  if (kwargs?._tag !== "Table") return table
  const entries = new Map(table.entries)
  entries.delete("kwargs")
  for (const [key, value] of kwargs.entries) {
    if (entries.has(key)) report([...path, "kwargs", key], `"${key}" stands in kwargs and beside it; keep one`)
    else entries.set(key, value)
  }
  return { ...table, entries }
})

const loss: Rewrite = (table, report, path) =>
  [lossByPath, lossKwargs, lossNamedDefault].reduce((done, rewrite) => rewrite(done, report, path), table)

const sources: Rewrite = (table, report, path) => {
  const canonical = renamed("env", "source")(table, report, path)
  return within("source", eachItem(idInEnv))(canonical, report, path)
}

/** A training file in its canonical spelling. @category conversions */
export const canonicalTrain = (tree: Located): Rewritten => {
  const problems: Array<Problem> = []
  const report = (path: KeyPath, what: string) => problems.push(atPath(tree, path, what))
  const steps: ReadonlyArray<Rewrite> = [
    within("orchestrator", within("train", sources)),
    within("orchestrator", within("eval", sources)),
    within("trainer", within("loss", loss))
  ]
  return { tree: steps.reduce((done, step) => step(done, report, []), tree), problems }
}

/** Whether documents read as supervised fine-tuning rather than as reinforcement learning. @category guards */
export const describesSft = (documents: ReadonlyArray<Located>): boolean => {
  const has = (key: string) => documents.some((document) => at(document, [key]) !== undefined)
  return has("data") && !has("orchestrator") && !has("trainer")
}
