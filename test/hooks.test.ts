import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Algorithm from "../src/Algorithm.ts"
import * as Credit from "../src/Credit.ts"
import * as Pipeline from "../src/Pipeline.ts"
import type { Ended } from "../src/Rollout.ts"
import { collect, group } from "../src/testing/index.ts"

/** Hooks as a module of plain JavaScript may have them. */
const outcomes = (hooks: object, ended: Iterable<Ended> = group([0, 1, 2])) =>
  collect(
    Stream.fromIterable(ended).pipe(Pipeline.score, (scored) => Pipeline.dependentSets(scored), Pipeline.samples)
  ).pipe(
    Effect.provide(Algorithm.define({ type: "mine", actionLoss: "rl", hooks: () => hooks as Algorithm.Hooks }).layer())
  )

/** Why each rollout does not count. */
const reasons = (hooks: object) =>
  Effect.map(outcomes(hooks), (items) =>
    items.map((item) => {
      if (item._tag !== "Absent" || item.reason._tag !== "Failed") return `${item._tag}`
      expect(item.reason.blame).toBe("algorithm")
      return item.reason.message
    })
  )

const perRollout = (credit: unknown) => ({
  scoreRollout: () => credit,
  scoreGroup: (g: ReadonlyArray<unknown>) => g.map(() => Credit.empty)
})
const claiming = (claim: object) =>
  perRollout({ claims: [{ stream: "advantages", over: "sampled", values: 1, ...claim }] })

describe("a hook that gives what is no credit costs its rollouts, and never the stream", () => {
  const given: ReadonlyArray<readonly [name: string, hooks: object, message: RegExp]> = [
    ["a claim over a name that every list has", claiming({ over: "map" }), /scoreRollout of .*is no credit/],
    ["a list of claims with holes", perRollout({ claims: new Array(2) }), /is no credit/],
    [
      "a list of credits with holes",
      { scoreGroup: (g: ReadonlyArray<unknown>) => new Array(g.length) },
      /number 0 of the credits.*is no credit/
    ],
    ["a count that is not a number", perRollout({ claims: [], counts: { x: Number.NaN } }), /its count "x" is NaN/],
    ["a count that is a text", perRollout({ claims: [], counts: { x: "1" } }), /its count "x" is 1/],
    ["counts that are no table", perRollout({ claims: [], counts: 5 }), /its counts are 5/],
    ["a number beyond float32", claiming({ values: 1e39 }), /stream advantages: .* a value is 1e\+39, beyond float32/]
  ]
  for (const [name, hooks, message] of given) {
    it.effect(name, () =>
      Effect.gen(function* () {
        const found = yield* reasons(hooks)
        expect(found).toHaveLength(3)
        for (const one of found) expect(one).toMatch(message)
      })
    )
  }
})

describe("a hook that writes into what it was given throws, and changes nothing", () => {
  const writing: ReadonlyArray<readonly [name: string, write: (group: Array<never>) => void]> = [
    ["takes a rollout out of its group", (group) => group.splice(0, 1)],
    ["sorts its group in place", (group) => group.sort()],
    ["renames a rollout", (group) => Object.assign(group[0]!, { id: "other" })],
    ["sets a reward", (group) => Object.assign(group[0]!, { reward: 9 })],
    ["empties a trace", (group: ReadonlyArray<{ trace: { nodes: Array<unknown> } }>) => group[0]!.trace.nodes.splice(0)]
  ]
  for (const [name, write] of writing) {
    it.effect(name, () =>
      Effect.gen(function* () {
        const found = yield* reasons({
          scoreGroup: (group: Array<never>) => {
            write(group)
            return [0, 1, 2].map(Credit.uniform)
          }
        })
        expect(found).toHaveLength(3)
        for (const one of found) expect(one).toMatch(/^mine\.scoreGroup of g0: Cannot /)
      })
    )
  }
})
