import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { lines } from "../cli/display/EvalText.ts"
import * as Environment from "../src/Environment.ts"
import * as Evaluation from "../src/Evaluation.ts"
import * as Permits from "../src/Permits.ts"
import { absent } from "../src/Rollout.ts"
import * as Taskset from "../src/Taskset.ts"
import { planned, rollout } from "../src/testing/index.ts"
import { layerPolicy, layerRenderer, textOf } from "./doubles/byteChat.ts"

const of = { name: "math", model: "policy", examples: 8, seconds: 1 }

describe("Evaluation", () => {
  it("EVAL-01: pass@k is the exact probability over subsets", () => {
    const cases = [
      [4, 1, 4, 1],
      [4, 1, 2, 0.5],
      [4, 2, 2, 5 / 6],
      [4, 0, 2, 0],
      [4, 4, 2, 1]
    ] as const
    for (const [n, c, k, expected] of cases) expect(Evaluation.passAtK(n, c, k)).toBeCloseTo(expected, 12)
  })

  it("EVAL-03: errored attempts are counted beside the score, and an id counts once", () => {
    const attempts = [
      ...[1, 1, 1, 0, 0, 0].map((reward, i) => rollout({ id: `r${i}`, reward, group: { id: `g${i}`, size: 1 } })),
      ...[6, 7].map((i) => absent(planned({ id: `r${i}` }), { _tag: "Failed", blame: "runtime", message: "gone" }))
    ]
    const report = Evaluation.summarize([...attempts, attempts[0]!], of)
    expect(report).toMatchObject({ rollouts: 6, reward: { mean: 0.5 }, absent: { Failed: 2 } })
    expect(report.reward.standardError).toBeCloseTo(Math.sqrt(0.3 / 6), 12)
  })

  it("attempts at one example count as one example in the standard error", () => {
    const attempts = [1, 1, 0, 0].map((reward, i) =>
      rollout({ id: `r${i}`, reward, group: { id: `g${Math.floor(i / 2)}`, size: 2 } })
    )
    // two examples that are 1 and 0 for sure: as uncertain as two attempts, not as four
    expect(Evaluation.summarize(attempts, of).reward.standardError).toBeCloseTo(Math.sqrt(0.5 / 2), 12)
  })

  it("a score of nothing is no score: not 0", () => {
    const gone = absent(planned(), { _tag: "Failed", blame: "provider", message: "gone" })
    expect(Evaluation.summarize([gone], of)).toMatchObject({
      rollouts: 0,
      reward: { mean: Number.NaN, standardError: Number.NaN },
      absent: { Failed: 1 }
    })
    expect(Evaluation.summarize([rollout({ reward: 1 })], of).reward).toEqual({ mean: 1, standardError: Number.NaN })
  })

  it("attempts that all failed have no reward, not a reward of 0", () => {
    const failed = absent(planned({ id: "r" }), { _tag: "Failed", blame: "provider", message: "gone" })
    const report = Evaluation.summarize([failed], of)
    expect(report).toMatchObject({ rollouts: 0, reward: { mean: Number.NaN, standardError: Number.NaN } })
    expect(lines(report)[0]).toBe(
      "math: no reward: none of its attempts counts; the last failure: provider failed: gone"
    )
  })

  it.effect("runs held-out examples only, the same ones for the same seed", () => {
    const seen: Array<string> = []
    const environment = Environment.make({
      name: "held-out",
      taskset: Taskset.make({
        name: "held-out",
        tasks: ["train 0", "train 1"],
        evalTasks: ["eval 0", "eval 1", "eval 2"]
      }),
      reward: (task) => {
        seen.push(task)
        return 1
      }
    })
    return Effect.gen(function* () {
      const report = yield* Evaluation.run({ environment, examples: 300, groupSize: 2, seed: 1, model: "policy" })
      expect(report).toMatchObject({ examples: 3, rollouts: 6, reward: { mean: 1, standardError: 0 } })
      expect(new Set(seen)).toEqual(new Set(["eval 0", "eval 1", "eval 2"]))
    }).pipe(
      Effect.provide(
        Layer.mergeAll(
          layerRenderer,
          layerPolicy(({ promptIds }) => textOf(promptIds)),
          Permits.layer(4)
        )
      )
    )
  })
})
