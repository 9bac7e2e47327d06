import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect, layer } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import type { GenerationPart } from "../../src/Trainer/Engine.ts"
import { tinyEngine } from "./models.ts"

const request = {
  promptIds: Int32Array.of(1, 2, 3),
  maxTokens: 40,
  temperature: 1,
  topP: 1,
  topK: 0,
  minP: 0,
  stopTokenIds: new Int32Array(0),
  seed: 3
}

const tokens = (parts: Iterable<GenerationPart>) =>
  [...parts].flatMap((part) => (part._tag === "Tokens" ? [...part.tokenIds] : []))

layer(NodeFileSystem.layer)("a generation as a stream", (it) => {
  it.scoped("is the result in parts, and ends by saying why", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine({ trainable: false })
      const result = yield* engine.generate(request)
      const parts = yield* Stream.runCollect(engine.stream(request))
      expect(tokens(parts)).toEqual([...result.tokenIds])
      const logprobs = [...parts].flatMap((part) => (part._tag === "Tokens" ? [...part.logprobs] : []))
      expect(logprobs).toEqual([...result.logprobs])
      expect(Chunk.unsafeLast(parts)).toEqual({
        _tag: "End",
        finishReason: "length",
        swaps: [],
        weightsVersion: result.weightsVersion
      })
      const stopped = { ...request, stopTokenIds: Int32Array.of(result.tokenIds[4]!) }
      expect(Chunk.unsafeLast(yield* Stream.runCollect(engine.stream(stopped)))).toMatchObject({ finishReason: "stop" })
    })
  )

  it.scoped("is cancelled when nobody reads on", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine({ trainable: false })
      const first = yield* Stream.runCollect(Stream.take(engine.stream(request), 1))
      const result = yield* engine.generate(request)
      expect([...result.tokenIds]).toEqual(expect.arrayContaining(tokens(first)))
      const started = yield* Deferred.make<void>()
      const fiber = yield* Effect.fork(
        Stream.runForEach(engine.stream(request), () =>
          Effect.zipRight(Deferred.succeed(started, undefined), Effect.never)
        )
      )
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      expect((yield* engine.generate(request)).tokenIds).toEqual(result.tokenIds)
    })
  )

  it.scoped("fails as the generation does", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine({ trainable: false })
      const failed = (one: typeof request) => Effect.flip(Stream.runDrain(engine.stream(one)))
      expect(yield* failed({ ...request, maxTokens: 0 })).toMatchObject({ code: "ERR_OUT_OF_RANGE" })
      expect(yield* failed({ ...request, promptIds: Int32Array.of(61) })).toMatchObject({ code: "ERR_BATCH" })
      const thrown = yield* Effect.flip(
        engine.generate(request, {
          onTokens: () => {
            throw new Error("no reader")
          }
        })
      )
      expect(thrown.message).toMatch(/native generate: no reader/)
    })
  )
})
