import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import * as FastCheck from "effect/FastCheck"
import * as Algorithm from "../src/Algorithm.ts"
import * as Credit from "../src/Credit.ts"
import * as DependentSet from "../src/DependentSet.ts"
import * as Pipeline from "../src/Pipeline.ts"
import { plannedOf } from "../src/pipeline/items.ts"
import { absent, type Ended } from "../src/Rollout.ts"
import * as Testing from "../src/testing/index.ts"

/** One source for each rule; a user's own puts a rollout into two sets that have nothing in common. */
const rules: ReadonlyArray<DependentSet.Rule> = [
  DependentSet.self,
  DependentSet.group,
  DependentSet.episode,
  DependentSet.count(4, ({ sequence }) => String(sequence >> 2)),
  DependentSet.quorum(DependentSet.group, 2),
  DependentSet.make({
    name: "group and episode",
    of: (member) =>
      [...DependentSet.group.of(member), ...DependentSet.episode.of(member)].map(({ key, size }, i) => ({
        key: `${i} ${key}`,
        size
      }))
  })
]

const ends = ["scored", "scored", "scored", "cancelled", "no reward", "hook fails", "slow"] as const
type End = (typeof ends)[number]

/** Hooks that wait, that fail, or that answer at once, as the rollouts in their hands ask for. */
const moody = (dependsOn: DependentSet.Rule) =>
  Algorithm.define({
    type: "moody",
    actionLoss: "rl",
    dependsOn,
    hooks: () => ({
      scoreRollout: ({ labels }) => {
        if (labels.end === "hook fails") return Effect.fail("no judge")
        return labels.end === "slow" ? Effect.as(Effect.yieldNow(), Credit.empty) : Credit.empty
      },
      scoreGroup: (members, { key }) => {
        const credits = members.map(() => Credit.uniform(1))
        if (key.endsWith("3")) return Effect.fail("no such bracket")
        return members.some(({ labels }) => labels.end === "slow") ? Effect.as(Effect.yieldNow(), credits) : credits
      }
    })
  }).layer()

const groups = 6
const groupSize = 4
const members = groups * groupSize

/** Groups run along the sequence, episodes of three across it. */
const planned = (source: string, sequence: number, end: End) => {
  const group = `${source}/g${Math.floor(sequence / groupSize)}`
  return Testing.rollout({
    ...{ id: `${source}/${sequence}`, source, sequence, example: group, labels: { end } },
    group: { id: group, size: groupSize },
    episode: { id: `${source}/e${sequence % (members / 3)}`, size: 3 },
    reward: end === "no reward" ? Number.NaN : sequence % 2
  })
}

interface Arrivals {
  readonly ended: ReadonlyArray<Ended>
  readonly chunk: number
  readonly cut: number
}

/** One source's rollouts in some order, some of which never come. */
const arrivals = (source: string): FastCheck.Arbitrary<Arrivals> =>
  FastCheck.record({
    ends: FastCheck.array(FastCheck.constantFrom(...ends), { minLength: members, maxLength: members }),
    order: FastCheck.shuffledSubarray(
      Array.from({ length: members }, (_, i) => i),
      { minLength: members }
    ),
    chunk: FastCheck.integer({ min: 1, max: members }),
    cut: FastCheck.integer({ min: 0, max: 3 })
  }).map(({ chunk, cut, ends, order }) => ({
    chunk,
    cut,
    ended: order.slice(0, members - cut).map((sequence) => {
      const one = planned(source, sequence, ends[sequence]!)
      return ends[sequence] === "cancelled" ? absent(one, { _tag: "Cancelled", why: "stale" }) : one
    })
  }))

const through = (sources: ReadonlyArray<Arrivals>) =>
  Effect.gen(function* () {
    const watches = rules.map(() => DependentSet.watch())
    const out = yield* Testing.collect(
      Pipeline.merge(
        ...sources.map(({ chunk, ended }, i) =>
          Pipeline.source({
            name: `s${i}`,
            rollouts: Stream.rechunk(Stream.fromIterable(ended), chunk),
            algorithm: moody(rules[i]!),
            watch: watches[i]
          })
        )
      )
    )
    return { out, watches }
  })

const check = async (sources: ReadonlyArray<Arrivals>) => {
  const { out, watches } = await Effect.runPromise(through(sources))
  const ids = (items: ReadonlyArray<Ended | (typeof out)[number]>) => items.map((item) => plannedOf(item).id).sort()
  assert.deepStrictEqual(ids(out), ids(sources.flatMap(({ ended }) => ended)))
  for (const watch of watches) assert.deepStrictEqual([watch.fibers, watch.sets(), watch.pending()], [0, [], 0])
  for (const item of out) {
    const { labels, source } = plannedOf(item)
    // what ended badly stays absent for its own reason, whatever its sets came to
    const reason = item._tag === "Absent" ? item.reason._tag : undefined
    if (labels.end === "cancelled") assert.strictEqual(reason, "Cancelled")
    else if (labels.end === "no reward") assert.strictEqual(reason, "NoReward")
    else if (labels.end === "hook fails") assert.strictEqual(reason, "Failed")
    else if (source === "s0" && !plannedOf(item).id.endsWith("3")) assert.strictEqual(item._tag, "Compiled")
    // only members that never came leave a set short, and only a quorum closes before the last has ended
    if (reason === "Incomplete") assert.isAbove(sources[Number(source.slice(1))]!.cut, 0)
    if (reason === "Late") assert.strictEqual(source, "s4")
  }
}

describe("sources with different rules, merged", () => {
  it.effect(
    "every planned rollout that ends comes out exactly once, whatever the order, the absences and the failures",
    () =>
      Effect.promise(() =>
        FastCheck.assert(FastCheck.asyncProperty(FastCheck.tuple(...rules.map((_, i) => arrivals(`s${i}`))), check), {
          seed: 11,
          numRuns: 25
        })
      ),
    300_000
  )
})
