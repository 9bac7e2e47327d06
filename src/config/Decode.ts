/** Checks a tree against a schema and says of everything that is wrong where it stands and what belongs there. */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { found } from "../internal/found.ts"
import { nearest } from "../internal/Nearest.ts"
import { at, dotted, type KeyPath, type Located, toPlain, without } from "./Located.ts"
import { atPath, type Problem } from "./Problem.ts"
import * as Shape from "./Shape.ts"

/** Keys that have another name or another table elsewhere in the field. */
const elsewhere: ReadonlyMap<string, string> = new Map([
  ["orchestrator.max_off_policy_steps", "orchestrator.off_policy.max_steps"],
  ["orchestrator.concurrency", "orchestrator.max_inflight"],
  ["orchestrator.rollouts_per_example", "orchestrator.group_size"],
  ["orchestrator.model", "model"],
  ["orchestrator.max_steps", "max_steps"],
  ["orchestrator.ckpt", "ckpt"],
  ["trainer.max_steps", "max_steps"],
  ["trainer.ckpt", "ckpt"],
  ["trainer.model.name", "model.name"],
  ["max_async_level", "orchestrator.off_policy.max_steps"],
  ["learning_rate", "trainer.optim.lr"]
])

const header = (path: KeyPath): string => (path.length === 0 ? "the top level" : `[${dotted(path)}]`)

/** Lists at the end of a path have no index of their own in a table's header. */
const withoutIndices = (path: KeyPath): KeyPath => path.filter((key) => typeof key === "string")

const unknownKey = (shape: Shape.Shape, path: KeyPath, isTable: boolean): string => {
  const key = String(path.at(-1))
  const table = path.slice(0, -1)
  const here = Shape.at(shape, table)
  const known = here?._tag === "Table" ? Array.from(here.keys.keys()) : []
  const renamed = elsewhere.get(dotted(withoutIndices(path)))
  if (renamed !== undefined && Shape.at(shape, renamed.split(".")) !== undefined) return `unknown key; use ${renamed}`
  const homes = Shape.tablesByKey(shape)
  const exact = homes.get(key) ?? []
  const close = nearest(key, known)
  if (exact.length > 0 && exact.length <= 3) {
    if (isTable) return `unknown table; use ${exact.map((home) => header([...home, key])).join(" or ")}`
    return `unknown key here; "${key}" belongs in ${exact.map(header).join(" or ")}`
  }
  if (close !== undefined) return `unknown key; did you mean "${close}"?`
  const far = nearest(key, homes.keys())
  if (far !== undefined && far !== key) {
    const tables = homes.get(far) ?? []
    if (tables.length <= 3) return `unknown key; did you mean "${far}" in ${tables.map(header).join(" or ")}?`
  }
  return `unknown key; ${header(withoutIndices(table))} has ${known.join(", ")}`
}

/** What belongs at a path; inside a value that is one of several kinds, what belongs at its place. */
const shapeAround = (root: Shape.Shape, path: KeyPath): Shape.Shape | undefined => {
  const here = Shape.at(root, path)
  return here !== undefined || path.length === 0 ? here : shapeAround(root, path.slice(0, -1))
}

const meant = (value: unknown, choices: ReadonlyArray<string>): string => {
  const close = typeof value === "string" ? nearest(value, choices) : undefined
  return close === undefined ? "" : `; did you mean "${close}"?`
}

const wrongValue = (shape: Shape.Shape | undefined, path: KeyPath, value: unknown): string => {
  const name = dotted(withoutIndices(path))
  if (shape?._tag === "List") return `found ${found(value)}, allowed is a list of tables, each written [[${name}]]`
  if (shape?._tag === "Table") {
    const words = shape.choices.map((choice) => `${JSON.stringify(choice)} or `).join("")
    return `found ${found(value)}, allowed is ${words}a table, written [${name}] or { … }${meant(value, shape.choices)}`
  }
  const hint = meant(value, shape?.choices ?? [])
  return `found ${found(value)}, allowed is ${shape?.allowed ?? "another value"}${hint}`
}

const missing = (shape: Shape.Shape, path: KeyPath): string => {
  const parent = Shape.at(shape, path.slice(0, -1))
  const doc = parent?._tag === "Table" ? parent.keys.get(String(path.at(-1)))?.doc : undefined
  return `missing. ${doc ?? ""}`.trimEnd()
}

/** What a check leaves: all problems, and the value if what is right of it makes one. @category model */
export interface Checked<A> {
  readonly problems: ReadonlyArray<Problem>
  /** the value without its wrong parts, where it can be completed from defaults */
  readonly value: A | undefined
  /** the wrong parts: what depends on them is not worth checking */
  readonly wrong: ReadonlyArray<KeyPath>
}

const isInside = (path: KeyPath, outer: KeyPath): boolean => outer.every((key, index) => path[index] === key)

/** @category checks */
export const check = <A, I>(schema: Schema.Schema<A, I>, tree: Located): Checked<A> => {
  const shape = Shape.make(schema)
  const decode = Schema.decodeUnknownEither(schema, { errors: "all", onExcessProperty: "error" })
  const first = decode(toPlain(tree))
  if (Either.isRight(first)) return { problems: [], value: first.right, wrong: [] }
  const problems = new Map<string, Problem>()
  const wrong: Array<KeyPath> = []
  const issues = ParseResult.ArrayFormatter.formatErrorSync(first.left).map((issue) => ({
    ...issue,
    path: issue.path.map((key) => (typeof key === "number" ? key : String(key)))
  }))
  for (const issue of issues) {
    const { path } = issue
    // Where a word or a table may stand, what is wrong inside the table says it all.
    const deeper = issues.some((other) => other.path.length > path.length && isInside(other.path, path))
    if (deeper || problems.has(dotted(path))) continue
    const value = at(tree, path)
    const what =
      issue._tag === "Unexpected"
        ? unknownKey(shape, path, value?._tag === "Table")
        : value === undefined
          ? missing(shape, path)
          : wrongValue(shapeAround(shape, path), path, toPlain(value))
    problems.set(dotted(path), atPath(tree, path, what))
    wrong.push(path)
  }
  // later items first, so that taking one out does not move those that are still to go
  const rest = [...wrong].reverse().reduce(without, tree)
  return { problems: Array.from(problems.values()), value: Either.getOrUndefined(decode(toPlain(rest))), wrong }
}
