import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { Sampling } from "../../src/Inference.ts"
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
