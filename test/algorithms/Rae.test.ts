import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Layer } from "effect"
import Rae from "../../src/algorithms/Rae.ts"
import { absent, type Ended } from "../../src/Rollout.ts"
import * as State from "../../src/State.ts"
import * as Testing from "../../src/testing/index.ts"

const { advantages, rollout } = Testing

const played = (rewards: ReadonlyArray<number>, seat: string, from = 0) =>
  rewards.map((reward, i) => rollout({ id: `${seat}${from + i}`, sequence: from + i, seat, reward }))

/** Credits in order, and the state that is left. */
const run = (ended: ReadonlyArray<Ended>, restored: State.Snapshot = {}, config: { decay?: number } = {}) =>
  Effect.gen(function* () {
    const all = advantages(yield* Testing.through(ended))
    const values = ended.map((one) => all[one._tag === "Absent" ? one.planned.id : one.id])
    const state = yield* Effect.flatMap(State.State, ({ snapshot }) => snapshot)
    return { values, baselines: state.baselines as Readonly<Record<string, number>>, state }
  }).pipe(Effect.provide(Layer.provideMerge(Rae.layer(config), State.layer(restored))))

const near = (values: ReadonlyArray<unknown>, expected: ReadonlyArray<number>) => {
  assert.strictEqual(values.length, expected.length)
  for (const [i, value] of values.entries()) assert.closeTo(value as number, expected[i]!, 1e-12)
}

describe("Rae", () => {
  it.effect("the advantage is the reward less the seat's running mean, before the reward moves it", () =>
    Effect.gen(function* () {
      const { baselines, values } = yield* run(played([1, 1, 0, -1], "player0"))
      near(values, [1, 0.95, -0.0975, -1.092625])
      assert.closeTo(baselines.player0!, 0.03799375, 1e-12)
    })
  )

  it.effect("ADV-15: each seat has a baseline of its own", () =>
    Effect.gen(function* () {
      const first = played([1, 1, -1], "player0")
      const second = played([-1, -1, 1], "player1")
      const { baselines, values } = yield* run(first.flatMap((one, i) => [one, second[i]!]))
      near(values, [1, -1, 0.95, -0.95, -1.0975, 1.0975])
      assert.closeTo(baselines.player0!, 0.042625, 1e-12)
      assert.closeTo(baselines.player1!, -0.042625, 1e-12)
    })
  )

  it.effect("ADV-16: after a restart the credit is that of the run that was never stopped", () =>
    Effect.gen(function* () {
      const whole = yield* run(played(Array(21).fill(1), "player0"))
      assert.closeTo(whole.values[20] as number, 0.95 ** 20, 1e-12)
      const before = yield* run(played(Array(20).fill(1), "player0"))
      const checkpoint = JSON.parse(JSON.stringify(before.state)) as State.Snapshot
      const after = yield* run(played([1], "player0", 20), checkpoint)
      assert.deepStrictEqual(after.values, [whole.values[20]])
      assert.deepStrictEqual(after.state, whole.state)
    })
  )

  it.effect("a seat may have the name of what every object has", () =>
    Effect.gen(function* () {
      for (const seat of ["constructor", "toString"]) near((yield* run(played([1, 1], seat))).values, [1, 0.95])
    })
  )

  it.effect("a restored mean that is no finite number is told, and not trained on", () =>
    Effect.gen(function* () {
      for (const text of ['{"player0":1e999}', '{"player0":null}', '{"player0":"0"}', "[]"]) {
        const started = yield* Effect.either(run([], { baselines: JSON.parse(text) }))
        assert.match(Either.isLeft(started) ? started.left.message : "", /^state cell "baselines": the restored value/)
      }
    })
  )

  it.effect("a decay of 0 compares with the reward before", () =>
    Effect.gen(function* () {
      near((yield* run(played([1, 3, 2], "a"), {}, { decay: 0 })).values, [1, 2, -1])
    })
  )

  it.effect("what failed or has no reward moves no baseline", () =>
    Effect.gen(function* () {
      const [a, b, c, d] = played([1, 5, Number.NaN, 1], "a")
      const gone = absent(b!, { _tag: "Failed", blame: "provider", message: "connection refused" })
      const { values } = yield* run([a!, gone, c!, d!])
      assert.deepStrictEqual(values.slice(0, 3), [1, "Failed", "NoReward"])
      assert.closeTo(values[3] as number, 0.95, 1e-12)
    })
  )

  it("keeps its decay in [0, 1)", () => {
    for (const decay of [-0.1, 1, Number.NaN]) {
      const left = Either.getLeft(Rae.configure({ decay }))
      assert(left._tag === "Some")
      assert.include(left.value.message, "algorithm rae, decay")
    }
    const config = Either.map(Rae.configure({}), ({ config }) => config)
    assert.deepStrictEqual(config, Either.right({ decay: 0.95 }))
  })

  it("takes several seats and groups of one", () => {
    const seats = ["player0", "player1"]
    assert.deepStrictEqual(Rae.check({ decay: 0.95 }, { name: "chess", groupSize: 1, seats, frozen: false }), [])
  })
})
