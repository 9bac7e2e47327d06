import { assert, it } from "@effect/vitest"
import { Effect, Either, Stream } from "effect"
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

it("O14: sft takes a frozen source, and groups of any size; what the policy samples is nothing to imitate", () => {
  const source = { name: "expert", groupSize: 1, seats: ["policy"], frozen: true }
  assert.deepStrictEqual(Sft.check({}, source), [])
  const [problem, ...more] = Sft.check({}, { ...source, frozen: false })
  assert.deepStrictEqual([problem?.path, more], ["sampling.source", []])
  assert.include(problem?.message, 'source "expert"')
  assert.include(problem?.message, "needs a model to sample from: set sampling.source")
})

it("sft takes no keys", () => {
  const left = Either.getLeft(Sft.configure({ teacher: { name: "expert" } }))
  assert(left._tag === "Some")
  assert.strictEqual(left.value.message, "algorithm sft, teacher: is unexpected; it takes no keys")
})
