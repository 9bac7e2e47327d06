import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Mailbox, Stream } from "effect"
import * as FastCheck from "effect/FastCheck"
import tournament from "../../examples/tournament.ts"
import * as Checkpoint from "../../src/Checkpoint.ts"
import * as DependentSet from "../../src/DependentSet.ts"
import * as Environment from "../../src/Environment.ts"
import * as Journal from "../../src/Journal.ts"
import * as Orchestrator from "../../src/Orchestrator.ts"
import * as Permits from "../../src/Permits.ts"
import * as Pipeline from "../../src/Pipeline.ts"
import { absent, type Ended, type Rollout } from "../../src/Rollout.ts"
import * as State from "../../src/State.ts"
import * as Trainer from "../../src/Trainer/Mock.ts"
import * as PackedLoss from "../../src/Trainer/PackedLoss.ts"
import * as Testing from "../../src/testing/index.ts"
import { layerPolicy, layerRenderer } from "../doubles/byteChat.ts"

/** Entrants in the order of dispatch: two of each example, as groups of two are planned. */
const entrants = (rewards: ReadonlyArray<number>): ReadonlyArray<Rollout> =>
  rewards.map((reward, sequence) => {
    const id = `e${sequence >> 1}`
    return Testing.rollout({ id: `${sequence}`, sequence, example: id, group: { id, size: 2 }, reward })
  })
const played = (ended: Iterable<Ended>) =>
  Effect.map(Testing.score(tournament.layer(), ended), (outcomes) => Testing.advantages(outcomes))
const byPlace = (values: ReadonlyArray<unknown>, from = 0) =>
  Object.fromEntries(values.map((value, i) => [String(from + i), value]))

const rewards = [3, 1, 2, 5, 4, 4, 0, 9]
/** wins: 1 (of 3 over 1), 0, 0, 2 (of 5), 0 (a draw), 0, 0, 3 (of 9) · mean 0.75 */
const credits = [0.25, -0.75, -0.75, 1.25, -0.75, -0.75, -0.75, 2.25]

describe("the tournament of the examples", () => {
  it.effect("advantage is the number of rounds won, less the bracket's mean", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* played(entrants(rewards)), byPlace(credits))
    })
  )

  it.effect("two brackets that end in any order, one through the other, are played as they were planned", () =>
    Effect.promise(() => {
      const all = [...entrants([...rewards, ...rewards.slice().reverse()])]
      const expected = { ...byPlace(credits), ...byPlace([2.25, -0.75, -0.75, -0.75, 1.25, -0.75, -0.75, 0.25], 8) }
      return FastCheck.assert(
        FastCheck.asyncProperty(FastCheck.shuffledSubarray(all, { minLength: 16 }), async (order) =>
          assert.deepStrictEqual(await Effect.runPromise(played(order)), expected)
        ),
        { numRuns: 10 }
      )
    })
  )

  it.effect("equals win nothing, and get exactly nothing", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* played(entrants(Array(8).fill(0.1))), byPlace(Array(8).fill(0)))
    })
  )

  it.effect("who never came leaves a walk-over, which is no win, and is in no mean", () =>
    Effect.gen(function* () {
      const gone = absent(entrants(rewards)[7]!, { _tag: "Failed", blame: "tools", message: "sandbox died" })
      const ended: ReadonlyArray<Ended> = [...entrants(rewards).slice(0, 7), gone]
      const won = [1, 0, 0, 3, 1, 0, 0]
      const found = yield* played(ended)
      assert.strictEqual(found["7"], "Failed")
      for (const [place, rounds] of won.entries()) {
        assert.closeTo(found[String(place)] as number, rounds - 5 / 7, 1e-12, `place ${place}`)
      }
    })
  )

  it.effect("who is out in the first round waits for the final all the same", () =>
    Effect.gen(function* () {
      const input = yield* Mailbox.make<Ended>()
      const watch = DependentSet.watch()
      const out: Array<string> = []
      const running = Mailbox.toStream(input).pipe(
        Pipeline.score,
        (scored) => Pipeline.dependentSets(scored, { watch }),
        Stream.runForEach((outcome) => Effect.sync(() => out.push(outcome._tag))),
        Effect.provide(tournament.layer())
      )
      const fiber = yield* Effect.fork(running)
      const all = entrants(rewards)
      yield* input.offerAll(all.slice(0, 7))
      yield* Effect.repeatN(Effect.yieldNow(), 200)
      assert.deepStrictEqual([out.length, watch.pending()], [0, 7])
      assert.deepStrictEqual(watch.sets(), [{ key: "bracket 0", size: 8, arrived: 7, absent: 0 }])
      yield* input.offer(all[7]!)
      yield* input.end
      yield* fiber
      assert.deepStrictEqual([out.length, watch.pending(), watch.fibers], [8, 0, 0])
    })
  )

  it.effect("runs in the loop: each step plays the brackets that it plans", () =>
    Effect.gen(function* () {
      const environment = Environment.make({
        name: "longest",
        tasks: ["a", "b", "c"],
        reward: (_, { reply }) => reply.length
      })
      const reports = yield* Testing.collect(
        Orchestrator.steps({
          sources: [{ environment, algorithm: tournament.layer(), groupSize: 2 }],
          steps: 3,
          batchSize: 16,
          maxSequenceLength: 256,
          maxRefills: 0
        })
      )
      assert.deepStrictEqual(
        reports.map(({ rollouts, absent }) => [rollouts, absent]),
        Array(3).fill([16, {}])
      )
      assert.isTrue(reports.some(({ loss }) => loss.rl !== 0))
    }).pipe(
      Effect.provide([
        Layer.provide(Trainer.layerMock(), PackedLoss.layerMock({ logprobs: ({ logprobs }) => logprobs })),
        Checkpoint.layerNone,
        Journal.layerMemory,
        Permits.layer(64),
        State.layer(),
        layerRenderer,
        layerPolicy(({ sampling }) => "a".repeat(1 + (sampling.seed % 5)))
      ])
    )
  )
})
