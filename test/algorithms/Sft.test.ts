import { assert, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import Sft from "../../src/algorithms/Sft.ts"
import * as Pipeline from "../../src/Pipeline.ts"
import * as Testing from "../../src/testing/index.ts"

it.effect("sft trains what was sampled with ce, alone and without an advantage, whatever the reward", () =>
  Effect.gen(function* () {
    const items = yield* Stream.fromIterable(Testing.group([1, 1], { trace: Testing.toolUse })).pipe(
      Pipeline.score,
      Pipeline.dependentSets,
      Pipeline.samples,
      Testing.collect,
      Effect.provide(Sft.layer())
    )
    for (const item of items) {
      assert(item._tag === "Compiled" && item.signal)
      const [sample] = item.samples
      assert.deepStrictEqual(Array.from(sample!.ceWeights!), [0, 0, 1, 1, 0, 0, 0, 1, 1])
      assert.deepStrictEqual(Array.from(sample!.rlWeights!), Array(9).fill(0))
      assert.strictEqual(sample!.advantages, undefined)
    }
  })
)

it("sft takes a frozen source, and groups of any size", () => {
  for (const frozen of [true, false]) {
    assert.deepStrictEqual(Sft.check({}, { name: "expert", groupSize: 1, seats: ["policy"], frozen }), [])
  }
})
