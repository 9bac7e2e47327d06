/** Relative paths become absolute before files are merged: afterwards nobody knows which file a path stood in. */
import type * as Path from "@effect/platform/Path"
import type { Located } from "./Located.ts"
import type { Shape } from "./Shape.ts"

/**
 * Makes the paths that a schema declares absolute. What is written in a file is relative to that file, `--set` and
 * working paths are relative to `workingDirectory`.
 *
 * @category conversions
 */
export const absolute = (tree: Located, shape: Shape, path: Path.Path, workingDirectory: string): Located => {
  const visit = (located: Located, shape: Shape | undefined): Located => {
    if (located._tag === "Table") {
      // a table of indices over a list, as --set makes it
      const inner = (key: string) => (shape?._tag === "Table" ? shape.keys.get(key)?.shape : itemOf(shape))
      const entries = Array.from(located.entries, ([key, value]) => [key, visit(value, inner(key))] as const)
      return { ...located, entries: new Map(entries) }
    }
    if (located._tag === "List") return { ...located, items: located.items.map((item) => visit(item, itemOf(shape))) }
    if (shape?._tag !== "Value" || shape.resolves === undefined) return located
    if (typeof located.value !== "string" || located.value === "") return located
    if (shape.resolves === "module" && !/^\.\.?\//.test(located.value)) return located
    const base = shape.resolves === "working" ? workingDirectory : located.place.directory
    return { ...located, value: path.resolve(base, located.value) }
  }
  return visit(tree, shape)
}

const itemOf = (shape: Shape | undefined): Shape | undefined => (shape?._tag === "List" ? shape.item : undefined)
