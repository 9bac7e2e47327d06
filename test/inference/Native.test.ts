import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { InferenceService, Sampling } from "../../src/Inference.ts"
import * as Native from "../../src/inference/Native.ts"
import { tinyEngine } from "../Trainer/models.ts"

const promptIds = Int32Array.of(3, 1, 4, 1, 5)
const sampling = (more: Partial<Sampling> = {}): Sampling => ({
  temperature: 1,
  maxTokens: 80,
  stopTokenIds: [],
  seed: 1,
  ...more
})

layer(NodeFileSystem.layer)("the embedded policy", (it) => {
  it.scoped("ASYNC-01: a generation is stamped with the weights that it was sampled with, and ends on them", () =>
    Effect.gen(function* () {
      const old = yield* tinyEngine({ trainable: false })
      const fresh = yield* tinyEngine({ trainable: false, randomInit: { seed: 8, std: 0.4 } })
      const inference = Native.make(old, { version: 4 })
      const before = yield* inference.generate(promptIds, sampling())
      const after = yield* Native.make(fresh).generate(promptIds, sampling())
      const snapshot = yield* fresh.snapshot

      const early = yield* Effect.fork(inference.generate(promptIds, sampling()))
      yield* Effect.yieldNow()
      const adopting = yield* Effect.fork(inference.adopt({ version: 5, snapshot }))
      yield* Effect.yieldNow()
      const late = yield* Effect.fork(inference.generate(promptIds, sampling()))
      yield* Fiber.join(adopting)
      expect(yield* Fiber.join(early)).toEqual(before)
      expect(yield* Fiber.join(late)).toEqual({ ...after, policyVersion: 5 })
      expect(before.policyVersion).toBe(4)
    })
  )

  it.scoped("ASYNC-04: nothing computed with old weights serves a request on new ones", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine({ trainable: false })
      const fresh = yield* tinyEngine({ trainable: false, randomInit: { seed: 8, std: 0.4 } })
      const inference = Native.make(engine)
      const long = Int32Array.from({ length: 60 }, (_, i) => (i * 7) % 61)
      const running = yield* Effect.fork(inference.generate(long, sampling({ maxTokens: 30 })))
      yield* Effect.yieldNow()
      yield* inference.adopt({ version: 1, snapshot: yield* fresh.snapshot })
      const request = sampling({ maxTokens: 30, seed: 2 })
      const served = yield* inference.generate(long, request)
      const clean = yield* Native.make(fresh).generate(long, request)
      expect(served.tokenIds).toEqual(clean.tokenIds)
      expect(served.logprobs).toEqual(clean.logprobs)
      yield* Fiber.join(running)
    })
  )

  it.scoped("running generations that swap go on with new weights, and every token has the version that drew it", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine({ trainable: false })
      const fresh = yield* tinyEngine({ trainable: false, randomInit: { seed: 8, std: 0.4 } })
      const inference = Native.make(engine, { version: 4, running: "swap" })
      const before = yield* inference.generate(promptIds, sampling())
      const snapshot = yield* fresh.snapshot
      const begun = yield* Deferred.make<void>()
      const running = yield* Effect.fork(
        inference.generate(promptIds, sampling(), {
          onTokens: () => Deferred.unsafeDone(begun, Effect.void)
        })
      )
      yield* Deferred.await(begun)
      yield* inference.adopt({ version: 5, snapshot })
      const swapped = yield* Fiber.join(running)
      expect(swapped.policyVersion).toBe(4)
      // An engine that was quicker than the weights has nothing to tell of.
      const stretches = swapped.stretches ?? [{ version: 4, tokens: 80 }]
      const old = stretches[0]!.tokens
      expect(stretches).toEqual([{ version: 4, tokens: old }, ...(old < 80 ? [{ version: 5, tokens: 80 - old }] : [])])
      expect(swapped.tokenIds.subarray(0, old)).toEqual(before.tokenIds.subarray(0, old))
      const late = yield* inference.generate(promptIds, sampling())
      expect(late).toEqual({ ...(yield* Native.make(fresh).generate(promptIds, sampling())), policyVersion: 5 })
    })
  )

  it.scoped("a conversation's next turn reads only what is new, and gets what it would without", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine({ trainable: false })
      const inference = Native.make(engine)
      const first = yield* inference.generate(promptIds, sampling({ maxTokens: 50 }))
      const before = yield* engine.generationStats
      const next = Int32Array.of(...promptIds, ...first.tokenIds, 7, 7)
      const second = yield* inference.generate(next, sampling({ maxTokens: 5 }))
      const after = yield* engine.generationStats
      expect(after.sharedTokens - before.sharedTokens).toBe(54)
      expect(after.kvBytes).toBeGreaterThan(0)
      expect(after.kvBytes).toBeLessThanOrEqual(after.kvLimitBytes)
      const alone = Native.make(yield* tinyEngine({ trainable: false }))
      expect(second).toEqual(yield* alone.generate(next, sampling({ maxTokens: 5 })))
    })
  )

  it.scoped(
    "with little memory generations wait for each other and come out the same; one that never fits is told",
    () =>
      Effect.gen(function* () {
        const small = Native.make(yield* tinyEngine({ trainable: false, kvBytes: 70_000 }))
        const large = Native.make(yield* tinyEngine({ trainable: false }))
        const all = (inference: InferenceService) =>
          Effect.forEach(Array.from({ length: 12 }), (_, seed) => inference.generate(promptIds, sampling({ seed })), {
            concurrency: "unbounded"
          })
        expect(yield* all(small)).toEqual(yield* all(large))
        const tiny = Native.make(yield* tinyEngine({ trainable: false, kvBytes: 20_000 }))
        const error = yield* Effect.flip(tiny.generate(promptIds, sampling()))
        expect(error.message).toMatch(
          /a sequence of 85 tokens needs \d+ bytes of keys and values, and the limit is \d+/
        )
      })
  )

  it.scoped("weights of another model are refused and change nothing", () =>
    Effect.gen(function* () {
      const inference = Native.make(yield* tinyEngine({ trainable: false }))
      const before = yield* inference.generate(promptIds, sampling())
      const error = yield* Effect.flip(inference.adopt({ version: 9, snapshot: { bytes: 4 } }))
      expect(error.message).toMatch(/snapshot must come from an engine/)
      expect(yield* inference.generate(promptIds, sampling())).toEqual(before)
    })
  )

  it.scoped("an interrupted generation frees its place, and the others go on", () =>
    Effect.gen(function* () {
      const inference = Native.make(yield* tinyEngine({ trainable: false }))
      const alone = yield* inference.generate(promptIds, sampling({ seed: 2 }))
      const doomed = yield* Effect.fork(inference.generate(promptIds, sampling({ seed: 1 })))
      const going = yield* Effect.fork(inference.generate(promptIds, sampling({ seed: 2 })))
      yield* Effect.yieldNow()
      yield* Fiber.interrupt(doomed)
      expect(yield* Fiber.join(going)).toEqual(alone)
    })
  )
})
