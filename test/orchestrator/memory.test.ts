import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import Grpo from "../../src/algorithms/Grpo.ts"
import * as Checkpoint from "../../src/Checkpoint.ts"
import * as DependentSet from "../../src/DependentSet.ts"
import * as Environment from "../../src/Environment.ts"
import * as Journal from "../../src/Journal.ts"
import * as MicroBatch from "../../src/MicroBatch.ts"
import * as Orchestrator from "../../src/Orchestrator.ts"
import * as Dispatcher from "../../src/orchestrator/Dispatcher.ts"
import * as StepSummary from "../../src/orchestrator/StepSummary.ts"
import * as Permits from "../../src/Permits.ts"
import * as Pipeline from "../../src/Pipeline.ts"
import type { Planned } from "../../src/Rollout.ts"
import * as Sampler from "../../src/Sampler.ts"
import * as State from "../../src/State.ts"
import * as Mock from "../../src/Trainer/Mock.ts"
import * as PackedLoss from "../../src/Trainer/PackedLoss.ts"
import { many, rollout } from "../../src/testing/index.ts"
import { layerPolicy, layerRenderer } from "../doubles/byteChat.ts"

setFlagsFromString("--expose-gc")
const collectGarbage = runInNewContext("gc") as () => void

/** A weak reference keeps its target until the event loop has turned. */
const turn = Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))

/** Megabytes that are held once everything is collected that can be. */
const held = Effect.gen(function* () {
  collectGarbage()
  yield* turn
  collectGarbage()
  const { arrayBuffers, heapUsed } = process.memoryUsage()
  return (heapUsed + arrayBuffers) / 2 ** 20
})

const services = Layer.mergeAll(
  Mock.layerMock(),
  Checkpoint.layerNone,
  Journal.layerNone,
  Permits.layer(64),
  State.layer()
).pipe(
  Layer.provide(PackedLoss.layerMock({ logprobs: (sample) => sample.logprobs })),
  Layer.merge(layerRenderer),
  Layer.merge(layerPolicy(({ sampling }) => "ab"[sampling.seed % 2]!))
)

describe("what a run holds on to", () => {
  it.effect("LEAK-08: no rollout can be reached any more once its step is over", () => {
    const steps = 12
    const traces: Array<WeakRef<object>> = []
    const environment = Environment.make({
      name: "letters",
      tasks: Array.from({ length: 10 }, (_, i) => `task ${i}`),
      reward: (_, { reply, trace }) => {
        traces.push(new WeakRef(trace))
        return reply === "a" ? 1 : 0
      }
    })
    const batchSize = 16
    return Effect.gen(function* () {
      let reachable: number | undefined
      yield* Orchestrator.steps({
        sources: [{ environment, algorithm: Grpo.layer(), groupSize: 4 }],
        ...{ batchSize, steps, seed: 7, maxSequenceLength: 256 }
      }).pipe(
        Stream.runForEach(({ step }) =>
          Effect.gen(function* () {
            if (step < steps) return
            yield* turn
            collectGarbage()
            // the rollouts of the last step, whose report this is, may still be there
            reachable = traces.slice(0, -batchSize).filter((trace) => trace.deref() !== undefined).length
          })
        )
      )
      expect(traces.length).toBe(steps * batchSize)
      expect(reachable).toBe(0)
    }).pipe(Effect.provide(services))
  })

  // A hundred bytes a rollout would show: what is held is compared at a quarter of the way and late on it.
  const mostGrowth = 2

  it.effect(
    "LEAK-05: through the whole pipeline memory is flat, and no set, fiber or rollout is left",
    () =>
      Effect.gen(function* () {
        const rollouts = 40_000
        const readings: Array<number> = []
        const watches = [DependentSet.watch(), DependentSet.watch()]
        const [math, search] = ["math", "search"].map((name, i) =>
          Pipeline.source({
            name,
            algorithm: Grpo.layer(),
            watch: watches[i],
            rollouts: Stream.fromIteratorSucceed(many(rollouts / 2, { source: name }), 64).pipe(
              Pipeline.inDispatchOrder()
            )
          })
        )
        let consumed = 0
        let trained = 0
        yield* Pipeline.merge(math!, search!).pipe(
          Pipeline.batches({ rollouts: 125 }),
          Stream.tap((batch) =>
            Effect.gen(function* () {
              consumed += batch.rollouts.length
              // while it runs: a stage gives back what it holds when its input ends
              if (consumed === rollouts / 4 || consumed === (3 * rollouts) / 4) readings.push(yield* held)
            })
          ),
          Pipeline.pack({ maxSequenceLength: 2048 }),
          Stream.runForEach(({ counts }) =>
            Effect.sync(() => {
              trained += counts.rl
            })
          )
        )
        expect(consumed).toBe(rollouts)
        expect(trained).toBeGreaterThan(rollouts)
        expect(readings).toHaveLength(2)
        expect(readings[1]! - readings[0]!).toBeLessThan(mostGrowth)
        for (const watch of watches) expect([watch.fibers, watch.sets(), watch.pending()]).toEqual([0, [], 0])
      }).pipe(Effect.withTracerEnabled(false)),
    300_000
  )

  it.effect(
    "LEAK-01: planned, dispatched, scored and packed step by step, memory is flat",
    () =>
      Effect.gen(function* () {
        const steps = 60
        const { trace } = rollout()
        const source = (name: string) => ({
          ...{ name, algorithm: Grpo.layer(), firstSequence: 0, groupSize: 8, ratio: 1 },
          example: (index: number) => `${name} ${index % 50}`,
          run: (planned: Planned) => Effect.succeed(rollout({ ...planned, trace, reward: planned.sequence % 2 }))
        })
        const sources = [source("math"), source("search")]
        const dispatcher = yield* Dispatcher.make(sources, Effect.succeed(0))
        const readings: Array<number> = []
        let cursor = Sampler.start
        let trained = 0
        for (let step = 1; step <= steps; step++) {
          const next = Sampler.plan(sources, { seed: 0, rollouts: 128, policyVersion: 0, cursor })
          cursor = next.cursor
          const items = yield* dispatcher.run(step, next.planned)
          trained += MicroBatch.pack(StepSummary.samples(items), { maxSequenceLength: 2048 }).counts.rl
          if (step === steps / 4 || step === steps) readings.push(yield* held)
        }
        expect(trained).toBe(steps * 128 * 2)
        expect(readings[1]! - readings[0]!).toBeLessThan(mostGrowth)
      }).pipe(
        Effect.scoped,
        Effect.provide(Layer.merge(Journal.layerNone, Permits.layer(64))),
        Effect.withTracerEnabled(false)
      ),
    300_000
  )
})
