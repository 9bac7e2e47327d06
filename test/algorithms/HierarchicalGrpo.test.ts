import { assert, describe, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import * as FastCheck from "effect/FastCheck"
import HierarchicalGrpo from "../../src/algorithms/HierarchicalGrpo.ts"
import { absent, type Ended, type Rollout } from "../../src/Rollout.ts"
import * as Testing from "../../src/testing/index.ts"

const layer = HierarchicalGrpo.layer({ episode_agents: ["solver"] })

/** One group: for each problem its proposer, who earns `proposed`, and the solvers of it. */
const proposals = (
  problems: Readonly<Record<string, { readonly proposed: number; readonly solved: ReadonlyArray<number> }>>
): ReadonlyArray<Rollout> => {
  const size = Object.values(problems).reduce((sum, { solved }) => sum + solved.length + 1, 0)
  return Object.entries(problems).flatMap(([problem, { proposed, solved }]) => {
    const parts = { group: { id: "g0", size }, episode: { id: problem, size: solved.length + 1 } }
    return [
      Testing.rollout({ ...parts, id: `${problem}/proposer`, seat: "proposer", reward: proposed }),
      ...solved.map((reward, i) => Testing.rollout({ ...parts, id: `${problem}/${i}`, seat: "solver", reward }))
    ]
  })
}
const advantagesOf = (ended: Iterable<Ended>, algorithm = layer) =>
  Effect.map(Testing.score(algorithm, ended), (outcomes) =>
    Object.fromEntries(
      Object.entries(Testing.advantages(outcomes)).map(([id, value]) => [
        id,
        typeof value === "number" ? Number(value.toFixed(6)) : value
      ])
    )
  )
const twoProblems = proposals({
  A: { proposed: 2 / 3, solved: [1, 1, 0] },
  B: { proposed: 0, solved: [0, 0, 0] }
})
const expected = {
  ...{ "A/proposer": 0.333333, "A/0": 0.333333, "A/1": 0.333333, "A/2": -0.666667 },
  ...{ "B/proposer": -0.333333, "B/0": 0, "B/1": 0, "B/2": 0 }
}

describe("HierarchicalGrpo", () => {
  it.effect("ADV-17: solvers are compared within their problem, proposers with each other", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* advantagesOf(twoProblems), expected)
    })
  )

  it.effect("ADV-17: a single solver of a problem has nobody to be compared with", () =>
    Effect.gen(function* () {
      const single = proposals({ A: { proposed: 1, solved: [1] }, B: { proposed: 0, solved: [0] } })
      assert.deepStrictEqual(yield* advantagesOf(single), {
        ...{ "A/proposer": 0.5, "A/0": 0 },
        ...{ "B/proposer": -0.5, "B/0": 0 }
      })
    })
  )

  it.effect("two seats that are compared within their episode are not compared with each other", () =>
    Effect.gen(function* () {
      const seats = Testing.episodes([
        { solver: [1, 0], checker: [5, 3] },
        { solver: [1, 1], checker: [0, 4] }
      ])
      const both = HierarchicalGrpo.layer({ episode_agents: ["solver", "checker"] })
      assert.deepStrictEqual(Object.values(yield* advantagesOf(seats, both)), [0.5, -0.5, 1, -1, 0, 0, -2, 2])
    })
  )

  it.effect("the numbers of two proposals with two solvers each", () =>
    Effect.gen(function* () {
      const two = proposals({ A: { proposed: 0, solved: [1, 0] }, B: { proposed: 0, solved: [0, 0] } })
      const found = yield* advantagesOf(two)
      assert.deepStrictEqual([found["A/0"], found["A/1"], found["B/0"], found["B/1"]], [0.5, -0.5, 0, 0])
    })
  )

  it.effect("waits for the whole group, in any order of arrival", () =>
    Effect.promise(() =>
      FastCheck.assert(
        FastCheck.asyncProperty(FastCheck.shuffledSubarray([...twoProblems], { minLength: 8 }), async (order) =>
          assert.deepStrictEqual(await Effect.runPromise(advantagesOf(order)), expected)
        ),
        { numRuns: 20 }
      )
    )
  )

  it.effect("equal rewards give exactly 0, whatever their mean is in floating point", () =>
    Effect.gen(function* () {
      const flat = proposals({ A: { proposed: 0.1, solved: [0.7, 0.7, 0.7] }, B: { proposed: 0.1, solved: [0.1] } })
      const outcomes = yield* Testing.score(layer, flat)
      assert.deepStrictEqual(Object.values(Testing.advantages(outcomes)), Array(6).fill(0))
    })
  )

  it.effect("who failed or has no reward is in no baseline", () =>
    Effect.gen(function* () {
      const [proposer, a, b, c, ...rest] = twoProblems
      const gone = absent(a!, { _tag: "Failed", blame: "tools", message: "sandbox died" })
      const found = yield* advantagesOf([proposer!, gone, b!, c!, ...rest])
      assert.deepStrictEqual([found["A/0"], found["A/1"], found["A/2"]], ["Failed", 0.5, -0.5])
    })
  )

  it.effect("seats and episodes whose names run together stay apart", () =>
    Effect.gen(function* () {
      const of = (id: string, seat: string, episode: string, reward: number) =>
        Testing.rollout({ id, seat, reward, episode: { id: episode, size: 1 }, group: { id: "g0", size: 2 } })
      const odd = HierarchicalGrpo.layer({ episode_agents: ["a", "a,b"] })
      const found = yield* advantagesOf([of("x", "a", "b,c", 1), of("y", "a,b", "c", 0)], odd)
      assert.deepStrictEqual(found, { x: 0, y: 0 })
    })
  )

  it("O17: needs a seat that is compared within episodes, and one that the source trains", () => {
    const refusals = [
      [{}, "episode_agents: is missing"],
      [{ episode_agents: [] }, "episode_agents: it must name at least one seat"],
      [{ episode_agents: [""] }, "episode_agents.0: Expected a non empty string"]
    ] as const
    for (const [config, words] of refusals) {
      const left = Either.getLeft(HierarchicalGrpo.configure(config))
      assert(left._tag === "Some")
      assert.include(left.value.message, `algorithm hierarchical_grpo, ${words}`)
    }
    const source = { name: "puzzles", groupSize: 8, seats: ["proposer", "solver"], frozen: false }
    assert.deepStrictEqual(HierarchicalGrpo.check({ episode_agents: ["solver"] }, source), [])
    const [problem, ...more] = HierarchicalGrpo.check({ episode_agents: ["solver", "judge"] }, source)
    assert.deepStrictEqual(more, [])
    assert.strictEqual(problem?.path, "algo.episode_agents")
    assert.include(problem?.message, 'source "puzzles" trains no seat "judge"; its seats are proposer, solver')
    assert.deepStrictEqual(
      HierarchicalGrpo.check({ episode_agents: ["solver"] }, { ...source, groupSize: 1 }).map(({ path }) => path),
      ["group_size"]
    )
  })
})
