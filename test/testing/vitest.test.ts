import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import Grpo from "../../src/algorithms/Grpo.ts"
import Sft from "../../src/algorithms/Sft.ts"
import * as Testing from "../../src/testing/index.ts"
import { matchers } from "../../src/testing/vitest.ts"

expect.extend(matchers)

describe("matchers", () => {
  it.effect("read advantages, in order and by id, and absences among them", () =>
    Effect.gen(function* () {
      const outcomes = yield* Testing.score(
        Grpo.layer(),
        Testing.without(Testing.group([1, 0, 5]), { 2: { _tag: "Cancelled", why: "overload" } })
      )
      const byId = { "g0/0": 0.5, "g0/1": -0.5, "g0/2": "Cancelled" }
      expect(outcomes).toHaveAdvantages(byId)
      expect(outcomes).not.toHaveAdvantages({ ...byId, "g0/1": 0.5 })
      expect(outcomes).not.toHaveAdvantages({ "g0/0": 0.5, "g0/1": -0.5 })
      expect(outcomes.find(({ _tag }) => _tag === "Absent")).toBeAbsent("Cancelled")
      expect(outcomes.find(({ _tag }) => _tag === "Scored")).not.toBeAbsent()
      expect(() => expect(outcomes).toHaveAdvantages({ ...byId, "g0/0": -0.5 })).toThrow(
        'expected advantages to be {"g0/0":-0.5,"g0/1":-0.5,"g0/2":"Cancelled"}, and found {'
      )
      const thirds = yield* Testing.score(Grpo.layer(), Testing.group([1, 0, 0]))
      expect(thirds).toHaveAdvantages([0.67, -0.33, -0.33], 2)
      expect(thirds).not.toHaveAdvantages([0.67, -0.33, -0.33])
    })
  )

  it.effect("read weights of an explained rollout, and why it is absent", () =>
    Effect.gen(function* () {
      const trace = Testing.toolUse
      const { rollouts } = yield* Testing.explain(Sft.layer(), [
        Testing.rollout({ id: "a", trace }),
        Testing.rollout({ id: "b", reward: Number.NaN })
      ])
      expect(rollouts[0]).toHaveWeights("ce", [0, 0, 1, 1, 0, 0, 0, 1, 1])
      expect(rollouts[0]).toHaveWeights("rl", Array(9).fill(0))
      expect(rollouts[0]).not.toHaveWeights("ce", [0, 0, 1, 1])
      expect(rollouts[0]).not.toBeAbsent()
      expect(rollouts[1]).toBeAbsent(/its reward is NaN/)
      expect(() => expect(rollouts[1]).toBeAbsent(/cancelled/)).toThrow("it does not count: its reward is NaN")
    })
  )

  it("hold an algorithm to its properties", async () => {
    const options = { runs: 3 }
    await expect(Sft.layer()).toPassProperties(options)
    await expect(
      expect(Grpo.layer({ length_penalty: { type: "linear" } })).toPassProperties({ runs: 5 })
    ).rejects.toThrow(/FAILS {2}a constant added to all rewards changes nothing/)
  })
})
