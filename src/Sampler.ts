/**
 * Which source and which example come next. Every choice follows from the seed and from how many groups were planned
 * before, never from arrival order; the cursor that says so is plain data and lives in the checkpoint.
 */
import * as Schema from "effect/Schema"
import type { Planned } from "./Rollout.ts"
import * as Seed from "./Seed.ts"

/** How far planning has come. @category model */
export const Cursor = Schema.Struct({
  /** groups planned, over all sources */
  groups: Schema.Number,
  /** groups planned by each source */
  sources: Schema.Record({ key: Schema.String, value: Schema.Number })
})
/** @category model */
export type Cursor = typeof Cursor.Type

/** @category model */
export const start: Cursor = { groups: 0, sources: {} }

/** What planning needs of a source. @category model */
export interface Source {
  readonly name: string
  readonly groupSize: number
  /** share of the groups, relative to the other sources */
  readonly ratio: number
  /** what every rollout of it is planned with */
  readonly labels?: Planned["labels"] | undefined
  /** key of the source's `index`-th example; a finite taskset begins again after its last */
  readonly example: (index: number) => string
}

const choose = <S extends Source>(sources: ReadonlyArray<S>, seed: number, group: number): S => {
  const total = sources.reduce((sum, source) => sum + source.ratio, 0)
  let left = Seed.unit(seed, "source", group) * total
  for (const source of sources) {
    left -= source.ratio
    if (left < 0) return source
  }
  return sources[sources.length - 1]!
}

/**
 * Plans whole groups on weights `policyVersion` until there are at least `rollouts`: a group is one example of one
 * source, dispatched `groupSize` times.
 *
 * @category planning
 */
export const plan = <S extends Source>(
  sources: ReadonlyArray<S>,
  options: {
    readonly seed: number
    readonly rollouts: number
    readonly policyVersion: number
    readonly cursor: Cursor
  }
): { readonly planned: ReadonlyArray<Planned>; readonly cursor: Cursor } => {
  const planned: Array<Planned> = []
  const counts: Record<string, number> = { ...options.cursor.sources }
  let groups = options.cursor.groups
  while (planned.length < options.rollouts) {
    const source = choose(sources, options.seed, groups++)
    const index = counts[source.name] ?? 0
    counts[source.name] = index + 1
    const id = `${source.name}/${index}`
    const example = source.example(index)
    for (let member = 0; member < source.groupSize; member++) {
      planned.push({
        id: `${id}/${member}`,
        sequence: index * source.groupSize + member,
        source: source.name,
        example,
        group: { id, size: source.groupSize },
        episode: { id: `${id}/${member}`, size: 1 },
        seat: "policy",
        policyVersion: options.policyVersion,
        labels: source.labels ?? {}
      })
    }
  }
  return { planned, cursor: { groups, sources: counts } }
}
