import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { describe, expect, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as MicroBatch from "../../src/MicroBatch.ts"
import Dppo from "../../src/Trainer/losses/Dppo.ts"
import * as Mock from "../../src/Trainer/Mock.ts"
import type { OptimizerStep } from "../../src/Trainer/Native.ts"
import * as PackedLoss from "../../src/Trainer/PackedLoss.ts"
import * as PackedLossNative from "../../src/Trainer/PackedLossNative.ts"
import * as RlLoss from "../../src/Trainer/RlLoss.ts"
import * as StepMetrics from "../../src/Trainer/StepMetrics.ts"
import { Trainer } from "../../src/Trainer/Trainer.ts"
import * as TrainerNative from "../../src/Trainer/TrainerNative.ts"
import type { TrainingSample } from "../../src/TrainingSample.ts"
import { tinyEngine } from "./models.ts"

const sample = (more: Partial<TrainingSample> = {}): TrainingSample => ({
  rollout: "r",
  source: "s",
  policyVersion: 0,
  tokenIds: Int32Array.of(1, 2, 3, 4),
  mask: Uint8Array.of(0, 0, 1, 1),
  logprobs: new Float32Array(4).fill(-1),
  temperatures: new Float32Array(4).fill(1),
  advantages: new Float32Array(4).fill(1),
  referenceLogprobs: undefined,
  rlWeights: undefined,
  ceWeights: undefined,
  refKlWeights: undefined,
  ...more
})
const pack = (...samples: ReadonlyArray<TrainingSample>) => MicroBatch.pack(samples, { maxSequenceLength: 64 })
const same = PackedLoss.layerMock({ logprobs: ({ logprobs }) => logprobs })

describe("a step", () => {
  it.effect("NUM-02: so many steps in a row without a finite gradient end the run, one between starts anew", () => {
    const applied = [false, false, true, false, false, false]
    let at = 0
    const trainer = Mock.layerMock({
      maxSkippedSteps: 3,
      optimizerStep: () => Effect.sync(() => ({ gradNorm: Number.NaN, applied: applied[at++]! }))
    })
    return Effect.gen(function* () {
      const { step } = yield* Trainer
      for (const expected of applied.slice(0, 5)) expect((yield* step(pack(sample()), 1)).applied).toBe(expected)
      expect((yield* Effect.flip(step(pack(sample()), 1))).message).toMatch(/3 steps in a row/)
    }).pipe(Effect.provide(trainer), Effect.provide(same))
  })

  it.effect("hands the optimiser its numbers, and the learning rate of this step", () => {
    const steps: Array<OptimizerStep> = []
    const trainer = Mock.layerMock({
      learningRate: 1,
      schedule: { type: "cosine", warmupSteps: 0, minLr: 0 },
      steps: 4,
      beta1: 0.8,
      beta2: 0.99,
      eps: 1e-7,
      weightDecay: 0.3,
      maxGradNorm: 0.7,
      optimizerStep: (step) => Effect.sync(() => ({ gradNorm: steps.push(step), applied: true }))
    })
    return Effect.gen(function* () {
      const { step } = yield* Trainer
      yield* step(pack(sample()), 1)
      yield* step(pack(sample()), 3)
      expect(steps[0]).toEqual({
        learningRate: 1,
        beta1: 0.8,
        beta2: 0.99,
        eps: 1e-7,
        weightDecay: 0.3,
        maxGradNorm: 0.7
      })
      expect(steps[1]!.learningRate).toBeCloseTo(0.5, 12)
    }).pipe(Effect.provide(trainer), Effect.provide(same))
  })
})

describe("metrics", () => {
  it("each has its own denominator: mismatch over rl and refKl that were sampled, entropy over all members, masked share over rl", () => {
    const loss = RlLoss.make(Dppo, {})
    const one = sample({
      tokenIds: Int32Array.from({ length: 8 }, (_, i) => i),
      // rl: 2, 3 · refKl: 3, 4 · ce alone: 5, 6
      mask: Uint8Array.of(0, 0, 1, 1, 0, 0, 0, 0),
      logprobs: Float32Array.of(0, 0, -1, -1, -1, -9, -9, 0),
      temperatures: new Float32Array(8).fill(1),
      advantages: new Float32Array(8).fill(1),
      referenceLogprobs: new Float32Array(8).fill(-1),
      refKlWeights: Float32Array.of(0, 0, 0, 1, 1, 0, 0, 0),
      ceWeights: Float32Array.of(0, 0, 0, 0, 0, 1, 1, 0)
    })
    const [batch] = pack(one).microBatches.flat()
    const metrics = StepMetrics.empty()
    const trainer = Float32Array.of(0, 0, -1, -0.5, -1, -1, -1, 0)
    StepMetrics.add(metrics, batch!, loss, {
      rl: 0,
      ce: 0,
      refKl: 0,
      logprobs: trainer,
      entropy: Float32Array.of(99, 99, 1, 2, 3, 4, 5, 99)
    })
    const means = StepMetrics.means(metrics)
    expect(means.mismatchKl).toBeCloseTo((Math.exp(0.5) - 0.5 - 1) / 2, 9)
    expect(means.logRatio).toBeCloseTo(0.5 / 2, 9)
    expect(means.entropy).toBeCloseTo(3, 9)
    // Of two rl members the second has risen by more than 0.2.
    expect(means.maskedShare).toBe(0.5)
    expect(means.lossMetrics).toMatchObject({ is_masked_high: 0.5, is_masked_low: 0 })
    expect(StepMetrics.means(StepMetrics.empty())).toEqual({
      mismatchKl: 0,
      logRatio: 0,
      entropy: 0,
      maskedShare: 0,
      lossMetrics: {}
    })
  })
})

layer(NodeFileSystem.layer)("on an engine", (it) => {
  it.scoped("NORM-05: a batch with nothing to train changes no weight, no moment and no step count", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      const options = {
        loss: RlLoss.make(Dppo, {}),
        learningRate: 0.1,
        schedule: { type: "constant" },
        steps: 4,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weightDecay: 0.5,
        maxGradNorm: 1
      } as const
      const trainer = TrainerNative.layer(engine, options).pipe(
        Layer.provide(Layer.succeed(PackedLoss.PackedLoss, PackedLossNative.make(engine)))
      )
      const state = Effect.forEach(engine.tensors, ({ name }) =>
        Effect.all([engine.readTensor(name), engine.readMoments(name)])
      )
      yield* Effect.gen(function* () {
        const { step } = yield* Trainer
        yield* step(pack(sample()), 1)
        const before = yield* state
        const report = yield* step(pack(sample({ mask: new Uint8Array(4) })), 2)
        expect(report.loss.total).toBe(0)
        const after = yield* state
        const bits = (all: typeof after) =>
          all.flatMap(([values, { first, second }]) => [...values, ...first, ...second]).join()
        expect(bits(after) === bits(before)).toBe(true)
        expect(yield* engine.optimizerSteps).toBe(1)
      }).pipe(Effect.provide(trainer))
    })
  )

  it.scoped("what is restored goes on bit for bit: weights, moments and the step count", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const options = {
        loss: RlLoss.make(Dppo, {}),
        learningRate: 0.01,
        schedule: { type: "constant" },
        steps: 4,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weightDecay: 0,
        maxGradNorm: 1
      } as const
      const [whole, resumed] = [yield* tinyEngine(), yield* tinyEngine({ randomInit: { seed: 3, std: 1 } })]
      const on = (engine: typeof whole) =>
        Effect.provide(
          Trainer,
          TrainerNative.layer(engine, options).pipe(
            Layer.provide(Layer.succeed(PackedLoss.PackedLoss, PackedLossNative.make(engine)))
          )
        )
      const [first, second] = [yield* on(whole), yield* on(resumed)]
      for (const step of [1, 2]) yield* first.step(pack(sample()), step)
      yield* first.save(directory)
      yield* second.restore(directory)
      for (const trainer of [first, second]) yield* trainer.step(pack(sample()), 3)
      expect(yield* resumed.optimizerSteps).toBe(3)
      for (const { name } of whole.tensors) {
        const [a, b] = [yield* whole.readTensor(name), yield* resumed.readTensor(name)]
        expect(a.join() === b.join(), name).toBe(true)
      }
    })
  )

  it.scoped("PACK-07: a sample that is padded gives the loss and the gradient of the one that is not", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      const packedLoss = PackedLossNative.make(engine)
      const five = sample({
        tokenIds: Int32Array.of(7, 8, 9, 10, 11),
        mask: Uint8Array.of(0, 0, 1, 1, 1),
        logprobs: new Float32Array(5).fill(-3),
        temperatures: new Float32Array(5).fill(0.7),
        advantages: Float32Array.of(0, 0, 1, -1, 2)
      })
      const of = (padToMultipleOf: number) =>
        Effect.gen(function* () {
          yield* engine.zeroGradients
          const { counts, microBatches } = MicroBatch.pack([five], { maxSequenceLength: 16, padToMultipleOf })
          const { logprobs, rl } = yield* packedLoss.forwardBackward(
            microBatches[0]![0]!,
            counts,
            RlLoss.make(Dppo, {})
          )
          const gradients = yield* Effect.forEach(engine.tensors, ({ name }) => engine.readGradient(name))
          return { counts, rl, logprobs: logprobs.subarray(0, 5), gradients }
        })
      const [plain, padded] = [yield* of(1), yield* of(8)]
      expect(padded.counts).toEqual(plain.counts)
      expect(padded.rl).toBeCloseTo(plain.rl, 6)
      expect([...padded.logprobs]).toEqual([...plain.logprobs])
      for (const [i, gradient] of plain.gradients.entries()) {
        for (const [j, slope] of gradient.entries()) expect(padded.gradients[i]![j]).toBeCloseTo(slope, 5)
      }
    })
  )
})
