import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Engine from "../../src/Trainer/Engine.ts"
import type { NativeBatch } from "../../src/Trainer/Native.ts"
import { tinyEngine } from "./models.ts"

const tokens = 24
const batch: NativeBatch = {
  tokenIds: Int32Array.from({ length: tokens }, (_, i) => (i * 7) % 50),
  sequenceLengths: Int32Array.of(10, 14),
  temperatures: new Float32Array(tokens).fill(1),
  mask: Uint8Array.from({ length: tokens }, (_, i) => (i % 3 === 0 ? 1 : 0)),
  logprobs: new Float32Array(tokens).fill(-3),
  advantages: new Float32Array(tokens).fill(1),
  referenceLogprobs: undefined,
  rlWeights: undefined,
  ceWeights: undefined,
  refKlWeights: undefined
}
const loss = { kernel: "dppo", maskLow: 0.2, maskHigh: 0.2, advantageTau: 1, klTau: 1e-3 } as const

/** Log-probabilities and a gradient of one pass. */
const pass = (options: Parameters<typeof tinyEngine>[0]) =>
  Effect.scoped(
    Effect.gen(function* () {
      const engine = yield* tinyEngine(options)
      const { logprobs } = yield* engine.forwardBackward(batch, { rl: 7, ce: 0, refKl: 0 }, loss)
      return { logprobs, gradient: yield* engine.readGradient("model.layers.0.mlp.up_proj.weight") }
    })
  )

const largest = (a: Float32Array, b: Float32Array) => Math.max(...a.map((value, i) => Math.abs(value - b[i]!)))

const generate = {
  promptIds: Int32Array.of(5, 9, 11),
  maxTokens: 12,
  temperature: 1,
  topP: 1,
  topK: 0,
  minP: 0,
  stopTokenIds: new Int32Array(),
  seed: 3
}

layer(NodeFileSystem.layer)("precision and memory", (it) => {
  it.effect("bfloat16 is near float32 and is not float32, and gives the same bits each time", () =>
    Effect.gen(function* () {
      const [exact, rounded, again] = [
        yield* pass({}),
        yield* pass({ dtype: "bfloat16" }),
        yield* pass({ dtype: "bfloat16" })
      ]
      expect(rounded).toEqual(again)
      expect(largest(rounded.logprobs, exact.logprobs)).toBeGreaterThan(1e-5)
      expect(largest(rounded.logprobs, exact.logprobs)).toBeLessThan(0.2)
    })
  )

  it.effect("three products are nearer to float32 than one", () =>
    Effect.gen(function* () {
      const [exact, split, rounded] = [
        yield* pass({}),
        yield* pass({ dtype: "bfloat16x3" }),
        yield* pass({ dtype: "bfloat16" })
      ]
      expect(largest(split.logprobs, exact.logprobs)).toBeLessThan(largest(rounded.logprobs, exact.logprobs) / 20)
    })
  )

  it.effect("the head has a precision of its own", () =>
    Effect.gen(function* () {
      const [exact, head] = [yield* pass({}), yield* pass({ headDtype: "bfloat16" })]
      expect(head.logprobs).not.toEqual(exact.logprobs)
      expect(yield* pass({ dtype: "bfloat16", headDtype: "float32" })).not.toEqual(yield* pass({ dtype: "bfloat16" }))
    })
  )

  it.scoped("what is sampled in bfloat16 has the log-probabilities that bfloat16 training gives it", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine({ dtype: "bfloat16" })
      const { logprobs, tokenIds } = yield* engine.generate(generate)
      const all = Int32Array.of(...generate.promptIds, ...tokenIds)
      const scores = yield* engine.score(all, Int32Array.of(all.length), new Float32Array(all.length).fill(1))
      expect(largest(scores.logprobs.subarray(3), logprobs)).toBeLessThan(1e-5)
    })
  )

  it.effect("activation checkpointing changes no bit", () =>
    Effect.gen(function* () {
      expect(yield* pass({ activationCheckpointing: true })).toEqual(yield* pass({}))
    })
  )

  it.scoped(
    "a batch that would take more memory than the limit fails before it begins, and a smaller one does not",
    () =>
      Effect.gen(function* () {
        const { directory, trainable } = yield* tinyEngine({})
        const planned = (tokens: number) => Engine.memoryPlan(directory, { threads: 2, trainable, tokens })
        const plan = yield* planned(24)
        expect(plan.total).toBe(plan.weights + plan.gradients + plan.optimizer + plan.activations + plan.workspace)
        expect((yield* planned(48)).activations).toBe(2 * plan.activations)
        const engine = yield* tinyEngine({ memoryLimit: plan.total })
        yield* engine.forwardBackward(batch, { rl: 7, ce: 0, refKl: 0 }, loss)
        const tight = yield* tinyEngine({ memoryLimit: plan.total - 1 })
        const failure = yield* Effect.flip(tight.forwardBackward(batch, { rl: 7, ce: 0, refKl: 0 }, loss))
        expect(failure.code).toBe("ERR_OUT_OF_MEMORY")
        expect(failure.message).toMatch(/A batch of 24 tokens takes \d+ bytes, the limit is \d+/)
        const none = yield* Effect.flip(tinyEngine({ memoryLimit: 1000 }))
        expect(none.message).toMatch(/The model takes/)
        const before = yield* Effect.flip(
          Engine.requireMemory(yield* planned(4096), { tokens: 4096, memoryLimit: plan.total })
        )
        expect(before.message).toMatch(/micro-batches of 4096 tokens take .* GiB, the limit is/)
      })
  )

  it.scoped("phases say where the time went, once", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine({})
      yield* engine.forwardBackward(batch, { rl: 7, ce: 0, refKl: 0 }, loss)
      const { attention, head } = yield* engine.takePhases
      expect(Math.min(attention.forward, attention.backward, head.backward)).toBeGreaterThan(0)
      expect((yield* engine.takePhases).attention).toEqual({ forward: 0, backward: 0 })
    })
  )
})
