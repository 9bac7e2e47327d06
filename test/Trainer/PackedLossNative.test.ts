import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as MicroBatch from "../../src/MicroBatch.ts"
import type { Engine } from "../../src/Trainer/Engine.ts"
import Dppo from "../../src/Trainer/losses/Dppo.ts"
import Ipo from "../../src/Trainer/losses/Ipo.ts"
import * as PackedLossNative from "../../src/Trainer/PackedLossNative.ts"
import * as RlLoss from "../../src/Trainer/RlLoss.ts"
import type { TrainingSample } from "../../src/TrainingSample.ts"
import { tinyEngine } from "./models.ts"

/** Samples that take part in all three components, some of them in none. */
const samples: ReadonlyArray<TrainingSample> = [9, 1, 14, 6].map((length, sample) => {
  const stream = (of: (i: number) => number) => Float32Array.from({ length }, (_, i) => of(i + 5 * sample))
  return {
    rollout: `r${sample}`,
    source: "s",
    policyVersion: 0,
    tokenIds: Int32Array.from({ length }, (_, i) => (i * 11 + sample * 7) % 61),
    mask: Uint8Array.from({ length }, (_, i) => (i > 1 ? 1 : 0)),
    logprobs: stream((i) => -2 - (i % 5)),
    temperatures: new Float32Array(length).fill(0.8),
    advantages: stream((i) => (i % 3) - 1),
    referenceLogprobs: stream((i) => -3 - (i % 4)),
    rlWeights: sample === 0 ? stream((i) => i % 2) : undefined,
    ceWeights: sample === 2 ? stream((i) => (i % 4 === 0 ? 0.1 : 0)) : undefined,
    refKlWeights: sample === 3 ? stream((i) => (i % 2 === 0 ? 0.5 : 0)) : undefined
  }
})

const gradients = (engine: Engine) =>
  Effect.map(
    Effect.forEach(engine.tensors, ({ name }) => engine.readGradient(name)),
    (all) => all.flatMap((values) => [...values])
  )

const pass = (engine: Engine, batches: ReadonlyArray<MicroBatch.MicroBatch>, loss: RlLoss.RlLoss) =>
  Effect.gen(function* () {
    const counts = MicroBatch.counts(batches)
    yield* engine.zeroGradients
    const packedLoss = PackedLossNative.make(engine)
    const reports = yield* Effect.forEach(batches, (batch) => packedLoss.forwardBackward(batch, counts, loss))
    const total = (of: "rl" | "ce" | "refKl") => reports.reduce((sum, report) => sum + report[of], 0)
    return {
      reports,
      components: [total("rl"), total("ce"), total("refKl")],
      gradients: yield* gradients(engine)
    }
  })

const close = (actual: ReadonlyArray<number>, expected: ReadonlyArray<number>, tolerance: number) => {
  const scale = Math.max(...expected.map(Math.abs))
  expect(scale).toBeGreaterThan(0)
  for (const [i, value] of expected.entries()) expect(Math.abs(actual[i]! - value)).toBeLessThan(tolerance * scale)
}

const pack = (maxSequenceLength: number) => MicroBatch.pack(samples, { maxSequenceLength }).microBatches.flat()

layer(NodeFileSystem.layer)("the loss on an engine", (it) => {
  it.scoped.each([
    ["dppo", RlLoss.make(Dppo, {})],
    [
      "dppo with other numbers",
      RlLoss.make(Dppo, { dppo_mask_low: 0.01, dppo_mask_high: 0.02, adv_tau: 0.5, kl_tau: 0.1 })
    ],
    ["ipo", RlLoss.make(Ipo, { ipo_threshold: 0.05, kl_tau: 0.1 })]
  ] as const)("%s: the native kernel and the formula in TypeScript give the same", ([, loss]) =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      const batches = pack(64)
      const native = yield* pass(engine, batches, loss)
      const formula = yield* pass(engine, batches, { ...loss, native: undefined })
      close(formula.components, native.components, 1e-5)
      close(formula.gradients, native.gradients, 1e-5)
      expect(formula.reports[0]!.logprobs).toEqual(native.reports[0]!.logprobs)
      expect(formula.reports[0]!.entropy).toEqual(native.reports[0]!.entropy)
    })
  )

  it.scoped("NORM-01, NORM-02, NORM-04: loss and gradient do not depend on how samples are packed", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      const loss = RlLoss.make(Dppo, {})
      const whole = yield* pass(engine, pack(64), loss)
      const split = yield* pass(engine, pack(14), loss)
      expect(split.reports.length).toBeGreaterThan(whole.reports.length)
      close(split.components, whole.components, 1e-5)
      close(split.gradients, whole.gradients, 1e-5)
    })
  )

  it.scoped("a loss that is not finite fails with the rollout's name and leaves no gradient", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      const broken = RlLoss.make(
        RlLoss.define({
          ...Dppo,
          native: undefined,
          loss: () => (s) => ({ loss: s.advantages.map(() => Number.NaN), gradient: s.advantages })
        }),
        {}
      )
      const error = yield* Effect.flip(pass(engine, pack(64), broken))
      expect(error.message).toMatch(/rollout r\d/)
      expect((yield* gradients(engine)).every((value) => value === 0)).toBe(true)
    })
  )
})
