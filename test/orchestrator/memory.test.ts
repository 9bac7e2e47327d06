import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import Grpo from "../../src/algorithms/Grpo.ts"
import * as Checkpoint from "../../src/Checkpoint.ts"
import * as Environment from "../../src/Environment.ts"
import * as Journal from "../../src/Journal.ts"
import * as Orchestrator from "../../src/Orchestrator.ts"
import * as Permits from "../../src/Permits.ts"
import * as State from "../../src/State.ts"
import * as Mock from "../../src/Trainer/Mock.ts"
import * as PackedLoss from "../../src/Trainer/PackedLoss.ts"
import { layerPolicy, layerRenderer } from "../doubles/byteChat.ts"

setFlagsFromString("--expose-gc")
const collectGarbage = runInNewContext("gc") as () => void

/** A weak reference keeps its target until the event loop has turned. */
const turn = Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))

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
})
