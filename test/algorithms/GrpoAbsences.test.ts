import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import Grpo from "../../src/algorithms/Grpo.ts"
import { absent } from "../../src/Rollout.ts"
import * as Testing from "../../src/testing/index.ts"

describe("Grpo", () => {
  it.effect("ASYNC-06: of four with one error the three others are compared with each other", () =>
    Effect.gen(function* () {
      const [a, b, c, d] = Testing.group([1, 0, 0, 1])
      const broken = absent(c!, { _tag: "Failed", blame: "provider", message: "connection refused" })
      const out = Testing.advantages(yield* Testing.score(Grpo.layer(), [a!, b!, broken, d!]))
      const rounded = Object.entries(out).map(([id, value]) => [
        id,
        typeof value === "number" ? Number(value.toFixed(6)) : value
      ])
      assert.deepStrictEqual(Object.fromEntries(rounded), {
        "g0/0": 0.333333,
        "g0/1": -0.666667,
        "g0/2": "Failed",
        "g0/3": 0.333333
      })
    })
  )
})
