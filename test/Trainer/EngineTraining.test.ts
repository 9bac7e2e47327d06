import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Engine from "../../src/Trainer/Engine.ts"
import type { NativeBatch } from "../../src/Trainer/Native.ts"
import * as OptimizerState from "../../src/Trainer/OptimizerState.ts"
import { adamw, batch, counts, ids, loss, ones } from "./batches.ts"
import { configOnly, tinyConfig, tinyEngine } from "./models.ts"

/** All weights, one after the other. */
const weights = (engine: Engine.Engine) =>
  Effect.map(
    Effect.forEach(engine.tensors, ({ name }) => engine.readTensor(name)),
    (tensors) => tensors.map((values) => [...values])
  )

layer(NodeFileSystem.layer)("training", (it) => {
  it.scoped("moments, step count and weights continue bit for bit where they were taken up", () =>
    Effect.gen(function* () {
      const [first, second] = [yield* tinyEngine(), yield* tinyEngine({ randomInit: { seed: 2, std: 1 } })]
      const step = (engine: Engine.Engine) =>
        Effect.zipRight(engine.forwardBackward(batch(), counts, loss), engine.optimizerStep(adamw))
      yield* step(first)
      yield* step(first)
      for (const { name } of first.tensors) {
        yield* second.writeTensor(name, yield* first.readTensor(name))
        yield* second.writeMoments(name, yield* first.readMoments(name))
      }
      yield* second.setOptimizerSteps(yield* first.optimizerSteps)
      yield* step(first)
      yield* step(second)
      expect(yield* second.optimizerSteps).toBe(3)
      expect(yield* weights(second)).toEqual(yield* weights(first))
    })
  )

  it.scoped("NUM-02: a gradient that is not finite is skipped and leaves no trace", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      const before = yield* weights(engine)
      const advantages = ones(6)
      advantages[3] = Number.NaN
      yield* engine.forwardBackward(batch({ advantages }), counts, loss)
      const report = yield* engine.optimizerStep(adamw)
      expect(report).toMatchObject({ applied: false, gradNorm: Number.NaN })
      expect(yield* weights(engine)).toEqual(before)
      expect(yield* engine.optimizerSteps).toBe(0)
      yield* engine.forwardBackward(batch(), counts, loss)
      expect((yield* engine.optimizerStep(adamw)).applied).toBe(true)
    })
  )

  it.scoped("a learning rate that float32 cannot hold changes nothing, and is told apart from a bad gradient", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      const before = yield* weights(engine)
      yield* engine.forwardBackward(batch(), counts, loss)
      const report = yield* engine.optimizerStep({ ...adamw, learningRate: 1e300 })
      expect([report.applied, Number.isFinite(report.gradNorm)]).toEqual([false, true])
      expect(yield* weights(engine)).toEqual(before)
    })
  )

  it.scoped("weights and moments that are not finite are never saved, and never read", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const engine = yield* tinyEngine()
      const { name } = engine.tensors[1]!
      const good = yield* engine.readTensor(name)
      const moments = yield* engine.readMoments(name)
      const bad = (value: number, of: Float32Array) => Float32Array.from(of, (old, i) => (i === 1 ? value : old))
      yield* engine.writeTensor(name, bad(Number.NaN, good))
      expect(String(yield* Effect.flip(engine.save(directory)))).toContain(
        `tensor ${name} holds NaN: not saved; lower the learning rate`
      )
      expect(yield* fs.exists(`${directory}/model.safetensors`)).toBe(false)
      yield* engine.writeMoments(name, { ...moments, second: bad(Number.POSITIVE_INFINITY, moments.second) })
      expect(String(yield* Effect.flip(OptimizerState.save(engine, directory)))).toContain(
        `tensor second.${name} holds Infinity`
      )
      yield* engine.writeMoments(name, { ...moments, second: bad(-1, moments.second) })
      yield* OptimizerState.save(engine, directory)
      expect(String(yield* Effect.flip(OptimizerState.load(engine, directory)))).toContain(
        `tensor "second.${name}" holds -1`
      )
    })
  )

  it.scoped("NORM-05: a batch with nothing to train has loss 0 and no gradient", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      const report = yield* engine.forwardBackward(batch({ mask: new Uint8Array(6) }), { rl: 0, ce: 0, refKl: 0 }, loss)
      expect(report).toMatchObject({ rl: 0, ce: 0, refKl: 0 })
      expect((yield* engine.optimizerStep(adamw)).gradNorm).toBe(0)
    })
  )

  it.scoped("PACK-03: what is packed before a sample does not reach its log-probabilities", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      const b = [7, 8, 9, 10, 11]
      const score = (...sequences: ReadonlyArray<ReadonlyArray<number>>) =>
        Effect.map(
          engine.score(ids(...sequences.flat()), ids(...sequences.map((s) => s.length)), ones(sequences.flat().length)),
          ({ logprobs }) => [...logprobs.subarray(-b.length)]
        )
      const alone = yield* score(b)
      expect(yield* score([1, 2, 3], b)).toEqual(alone)
      expect(yield* score([4, 5, 6], b)).toEqual(alone)
      expect(alone[0]).toBe(0)
    })
  )

  it.scoped("PACK-01: the last token of a sample is not scored against the first of the next", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      const score = (b: ReadonlyArray<number>) => engine.score(ids(10, 11, 12, ...b), ids(3, 2), ones(5))
      const one = yield* score([20, 21])
      const other = yield* score([49, 48])
      expect([one.logprobs[0], one.logprobs[3]]).toEqual([0, 0])
      expect(other.logprobs.subarray(0, 3)).toEqual(one.logprobs.subarray(0, 3))
      expect(one.logprobs[4]).not.toBe(other.logprobs[4])
    })
  )

  it.scoped("NORM-01, NORM-02: gradients do not depend on how samples are packed", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      const two = batch({ sequenceLengths: ids(2, 4), mask: Uint8Array.of(0, 1, 0, 1, 1, 1) })
      const cut = (from: number, to: number): NativeBatch => ({
        ...two,
        tokenIds: two.tokenIds.subarray(from, to),
        sequenceLengths: ids(to - from),
        temperatures: two.temperatures.subarray(from, to),
        mask: two.mask.subarray(from, to),
        logprobs: two.logprobs.subarray(from, to),
        advantages: two.advantages.subarray(from, to)
      })
      const gradients = Effect.map(
        Effect.forEach(engine.tensors, ({ name }) => engine.readGradient(name)),
        (all) => all.flatMap((values) => [...values])
      )
      const together = yield* engine.forwardBackward(two, counts, loss)
      const packed = yield* gradients
      yield* engine.zeroGradients
      const [a, b] = [
        yield* engine.forwardBackward(cut(0, 2), counts, loss),
        yield* engine.forwardBackward(cut(2, 6), counts, loss)
      ]
      const split = yield* gradients
      expect(a.rl + b.rl).toBeCloseTo(together.rl, 6)
      const scale = Math.max(...packed.map(Math.abs))
      for (const [i, value] of packed.entries()) expect(Math.abs(split[i]! - value)).toBeLessThan(1e-6 * scale)
    })
  )

  it.scoped("an interrupted backward pass is not trained on", () =>
    Effect.gen(function* () {
      const engine = yield* Engine.open(
        yield* configOnly({
          ...tinyConfig,
          hidden_size: 256,
          intermediate_size: 1024,
          vocab_size: 4000,
          max_position_embeddings: 4096
        }),
        { threads: 1, trainable: true, randomInit: { seed: 1, std: 0.02 } }
      )
      const tokens = 2048
      const big = batch({
        tokenIds: Int32Array.from({ length: tokens }, (_, i) => i % 4000),
        sequenceLengths: ids(tokens),
        temperatures: ones(tokens),
        mask: new Uint8Array(tokens).fill(1),
        logprobs: new Float32Array(tokens).fill(-3),
        advantages: ones(tokens)
      })
      const fiber = yield* Effect.fork(engine.forwardBackward(big, counts, loss))
      yield* Effect.yieldNow()
      yield* Fiber.interrupt(fiber)
      const before = yield* weights(engine)
      const refused = yield* Effect.either(engine.optimizerStep(adamw))
      // Interrupted before it began, nothing is incomplete; midway, the step is refused. Never is half a gradient used.
      if (refused._tag === "Left") expect(refused.left).toMatchObject({ code: "ERR_STATE" })
      else expect(refused.right.gradNorm).toBe(0)
      yield* engine.zeroGradients
      if (refused._tag === "Left") expect(yield* weights(engine)).toEqual(before)
    })
  )
})
