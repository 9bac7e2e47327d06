/** What holds for every implementation of `Inference`. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Inference, type Sampling } from "../../src/Inference.ts"
import * as Mock from "../../src/inference/Mock.ts"
import * as Native from "../../src/inference/Native.ts"
import { tinyEngine } from "../Trainer/models.ts"

const layerNative = Layer.unwrapScoped(
  Effect.map(tinyEngine({ trainable: false }), (engine) => Native.layer(engine, { maxSequenceLength: 64, version: 3 }))
).pipe(Layer.provide(NodeFileSystem.layer))

const layers = [
  ["native", layerNative],
  ["mock", Mock.layerMock({ name: "policy", vocabularySize: 61, maxSequenceLength: 64, version: 3 })]
] as const

const promptIds = Int32Array.of(3, 1, 4, 1, 5)
const sampling = (more: Partial<Sampling> = {}): Sampling => ({
  temperature: 0.9,
  maxTokens: 12,
  stopTokenIds: [],
  seed: 1,
  ...more
})

describe.each(layers)("%s", (_, layer) => {
  const test = (name: string, effect: Effect.Effect<void, unknown, Inference>) =>
    it.effect(name, () => Effect.provide(effect, layer))

  test(
    "the same prompt and seed give the same tokens, another seed gives others",
    Effect.gen(function* () {
      const inference = yield* Inference
      const one = yield* inference.generate(promptIds, sampling())
      expect(yield* inference.generate(promptIds, sampling())).toEqual(one)
      expect((yield* inference.generate(promptIds, sampling({ seed: 2 }))).tokenIds).not.toEqual(one.tokenIds)
      expect((yield* inference.generate(Int32Array.of(3, 1, 4, 1, 6), sampling())).tokenIds).not.toEqual(one.tokenIds)
      expect(one).toMatchObject({ finishReason: "length", policyVersion: 3 })
      expect(one.tokenIds.length).toBe(12)
      expect(one.logprobs.length).toBe(12)
    })
  )

  test(
    "many at once give what each gives alone",
    Effect.gen(function* () {
      const inference = yield* Inference
      const requests = Array.from({ length: 12 }, (_, seed) => inference.generate(promptIds, sampling({ seed })))
      const together = yield* Effect.all(requests, { concurrency: "unbounded" })
      expect(together).toEqual(yield* Effect.all(requests))
    })
  )

  test(
    "TOK-01: log-probabilities are those of the logits over the temperature, as score gives them",
    Effect.gen(function* () {
      const inference = yield* Inference
      for (const temperature of [0, 0.7, 1]) {
        const { logprobs, tokenIds } = yield* inference.generate(promptIds, sampling({ temperature }))
        const all = Int32Array.from([...promptIds, ...tokenIds])
        const scored = yield* inference.score(all, temperature === 0 ? 1 : temperature)
        expect(scored[0]).toBe(0)
        expect(scored.length).toBe(all.length)
        for (const [i, logprob] of logprobs.entries()) {
          expect(Math.abs(scored[promptIds.length + i]! - logprob)).toBeLessThan(1e-4)
        }
      }
    })
  )

  test(
    "TOK-08, TOK-15: a stop token ends the turn and comes with its log-probability",
    Effect.gen(function* () {
      const inference = yield* Inference
      const free = yield* inference.generate(promptIds, sampling())
      const stop = free.tokenIds[5]!
      const at = free.tokenIds.indexOf(stop)
      const { finishReason, logprobs, tokenIds } = yield* inference.generate(
        promptIds,
        sampling({ stopTokenIds: [60, stop] })
      )
      const first = free.tokenIds.findIndex((id) => id === stop || id === 60)
      expect(first).toBeLessThanOrEqual(at)
      expect(finishReason).toBe("stop")
      expect(tokenIds).toEqual(free.tokenIds.subarray(0, first + 1))
      expect(logprobs).toEqual(free.logprobs.subarray(0, first + 1))
    })
  )

  test(
    "temperature 0 takes the most probable token, whatever the seed",
    Effect.gen(function* () {
      const inference = yield* Inference
      const one = yield* inference.generate(promptIds, sampling({ temperature: 0 }))
      const two = yield* inference.generate(promptIds, sampling({ temperature: 0, seed: 99 }))
      expect(two).toEqual(one)
    })
  )

  test(
    "a sequence never grows over the limit, and a prompt without room is the harness's to answer",
    Effect.gen(function* () {
      const inference = yield* Inference
      expect(inference.maxSequenceLength).toBe(64)
      const prompt = Int32Array.from({ length: 60 }, (_, i) => i)
      const { finishReason, tokenIds } = yield* inference.generate(prompt, sampling({ maxTokens: 50 }))
      expect([finishReason, tokenIds.length]).toEqual(["length", 4])
      const full = yield* Effect.flip(inference.generate(new Int32Array(64), sampling()))
      expect(full).toMatchObject({ _tag: "InferenceError", promptTooLong: true, endpoint: "policy" })
      expect(full.message).toMatch(/64/)
    })
  )

  test(
    "an id that the vocabulary lacks is named, never clamped",
    Effect.gen(function* () {
      const inference = yield* Inference
      const error = yield* Effect.flip(inference.generate(Int32Array.of(1, 2, 61), sampling()))
      expect(error.message).toMatch(/promptIds\[2\] is 61, outside the vocabulary of 61/)
      expect(error.promptTooLong).toBeUndefined()
      expect((yield* Effect.flip(inference.score(Int32Array.of(1, 2, 61)))).message).toMatch(/61/)
    })
  )

  test(
    "nothing to score is no error",
    Effect.gen(function* () {
      const inference = yield* Inference
      expect((yield* inference.score(new Int32Array(0))).length).toBe(0)
      expect([...(yield* inference.score(Int32Array.of(4)))]).toEqual([0])
    })
  )
})
