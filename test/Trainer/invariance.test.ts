/** Loss and gradient of a step do not depend on how its samples are packed and dealt out, nor on what else is in it. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as MicroBatch from "../../src/MicroBatch.ts"
import type { Engine } from "../../src/Trainer/Engine.ts"
import Dppo from "../../src/Trainer/losses/Dppo.ts"
import Gspo from "../../src/Trainer/losses/Gspo.ts"
import Icepop from "../../src/Trainer/losses/Icepop.ts"
import * as PackedLoss from "../../src/Trainer/PackedLoss.ts"
import * as PackedLossNative from "../../src/Trainer/PackedLossNative.ts"
import * as RlLoss from "../../src/Trainer/RlLoss.ts"
import type { TrainingSample } from "../../src/TrainingSample.ts"
import { tinyEngine } from "./models.ts"

/** A loss without a kernel that couples a sequence's members: the squared distance of each from the sequence's mean. */
const ownLoss = RlLoss.make(
  RlLoss.define({
    type: "own",
    Config: Schema.Struct({}),
    loss:
      () =>
      ({ advantages, trainer }) =>
        trainer.minus(trainer.mean()).square().plus(trainer.times(advantages).negate())
  }),
  {}
)

const losses = [
  ["dppo", RlLoss.make(Dppo, { dppo_mask_low: 0.05, dppo_mask_high: 0.05, kl_tau: 0.1 })],
  ["icepop", RlLoss.make(Icepop, {})],
  ["gspo", RlLoss.make(Gspo, { clip_low: 0.3, clip_high: 0.4 })],
  ["a loss in TypeScript alone", ownLoss]
] as const

type Source = "grpo" | "echo" | "opd" | "sft"

/** Log-probabilities near the trainer's, so that no ratio dwarfs the rest; streams as the source's algorithm stamps them. */
const sampleOf = (source: Source, index: number, length: number, trainer: ArrayLike<number>): TrainingSample => {
  const stream = (of: (i: number) => number) => Float32Array.from({ length }, (_, i) => of(i))
  const isAction = (i: number) => i > 2 && (source !== "echo" || i % 4 !== 0)
  const near = (i: number, scale: number) => trainer[i]! + scale * Math.sin(3 * i + index)
  return {
    ...tokensOf(source, index, length),
    mask: Uint8Array.from({ length }, (_, i) => (isAction(i) ? 1 : 0)),
    logprobs: stream((i) => (i === 0 ? 0 : near(i, 0.5))),
    advantages: stream(() => (index % 2 === 0 ? 0.75 : -1.25)),
    referenceLogprobs: source === "opd" ? stream((i) => (i === 0 ? 0 : near(i, 1))) : undefined,
    rlWeights: source === "opd" || source === "sft" ? new Float32Array(length) : stream((i) => (i % 5 === 3 ? 0.5 : 1)),
    ceWeights:
      source === "echo"
        ? stream((i) => (i > 2 && !isAction(i) ? 0.1 : 0))
        : source === "sft"
          ? stream((i) => (isAction(i) ? 1 : 0))
          : undefined,
    refKlWeights: source === "opd" ? stream((i) => (isAction(i) ? 1 : 0)) : undefined
  }
}

const tokensOf = (source: Source, index: number, length: number) => ({
  rollout: `${source}/${index}`,
  source,
  policyVersion: 0,
  tokenIds: Int32Array.from({ length }, (_, i) => (i * i + 7 * i + 13 * index + length) % 61),
  temperatures: new Float32Array(length).fill(index % 2 === 0 ? 1 : 0.8)
})

const plan: ReadonlyArray<readonly [Source, number]> = [
  ["grpo", 14],
  ["echo", 17],
  ["opd", 9],
  ["grpo", 6],
  ["sft", 12],
  ["echo", 11],
  ["opd", 16],
  ["grpo", 18]
]

const samplesOn = (engine: Engine) =>
  Effect.forEach(plan, ([source, length], index) => {
    const { temperatures, tokenIds } = tokensOf(source, index, length)
    return Effect.map(engine.score(tokenIds, Int32Array.of(length), temperatures), ({ logprobs }) =>
      sampleOf(source, index, length, logprobs)
    )
  })

/** Components, and the gradient of all parameters as one vector. */
const pass = (
  engine: Engine,
  batches: ReadonlyArray<MicroBatch.MicroBatch>,
  counts: MicroBatch.ComponentCounts,
  loss: RlLoss.RlLoss
) =>
  Effect.gen(function* () {
    yield* engine.zeroGradients
    const packedLoss = PackedLossNative.make(engine)
    const components = [0, 0, 0]
    for (const batch of batches) {
      const { ce, refKl, rl } = yield* packedLoss.forwardBackward(batch, counts, loss)
      for (const [i, value] of [rl, ce, refKl].entries()) components[i]! += value
    }
    const parts = yield* Effect.forEach(engine.tensors, ({ name }) => engine.readGradient(name))
    return { components, gradient: parts.flatMap((part) => [...part]) }
  })

const norm = (vector: ReadonlyArray<number>) => Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0))
const minus = (a: ReadonlyArray<number>, b: ReadonlyArray<number>) => a.map((x, i) => x - b[i]!)
const apart = (a: ReadonlyArray<number>, b: ReadonlyArray<number>) => norm(minus(a, b)) / norm(b)
/** Relative to the norm of the whole gradient, in float32. */
const tolerance = 1e-6

layer(NodeFileSystem.layer)("a step's loss and gradient", (it) => {
  it.scoped.each([...losses])("NORM-01, NORM-02: %s: the same on 1, 2 and 4 workers, however packed", ([, loss]) =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      const samples = yield* samplesOn(engine)
      const { counts } = MicroBatch.pack(samples, { maxSequenceLength: 96 })
      expect(Math.min(counts.rl, counts.ce, counts.refKl)).toBeGreaterThan(0)
      const unpacked = samples.flatMap((sample) =>
        MicroBatch.pack([sample], { maxSequenceLength: 96 }).microBatches.flat()
      )
      const expected = yield* pass(engine, unpacked, counts, loss)
      const sizes = new Set<number>()
      for (const workers of [1, 2, 4]) {
        for (const maxSequenceLength of [96, 40, 20]) {
          const packed = MicroBatch.pack(samples, { maxSequenceLength, workers, padToMultipleOf: workers })
          expect(packed.counts).toEqual(counts)
          expect(packed.microBatches).toHaveLength(workers)
          const batches = packed.microBatches.flat()
          sizes.add(batches.length)
          const actual = yield* pass(engine, batches, counts, loss)
          expect(apart(actual.gradient, expected.gradient)).toBeLessThan(tolerance)
          for (const [i, component] of expected.components.entries()) {
            expect(component).not.toBe(0)
            expect(Math.abs(actual.components[i]! - component)).toBeLessThan(tolerance * Math.abs(component))
          }
        }
      }
      expect(sizes.size).toBeGreaterThan(3)
    })
  )

  it.scoped.each([...losses])(
    "NORM-04: %s: the part of one source is the same with other sources in its micro-batch",
    ([, loss]) =>
      Effect.gen(function* () {
        const engine = yield* tinyEngine()
        const samples = yield* samplesOn(engine)
        const all = MicroBatch.pack(samples, { maxSequenceLength: 128 })
        expect(all.microBatches.flat()).toHaveLength(1)
        const of = (...sources: ReadonlyArray<string>) => samples.filter(({ source }) => sources.includes(source))
        const one = (some: ReadonlyArray<TrainingSample>) =>
          MicroBatch.pack(some, { maxSequenceLength: 128 }).microBatches.flat()
        const together = yield* pass(engine, one(samples), all.counts, loss)
        const grpo = yield* pass(engine, one(of("grpo")), all.counts, loss)
        const others = yield* pass(engine, one(of("echo", "opd", "sft")), all.counts, loss)
        const part = minus(together.gradient, others.gradient)
        expect(norm(minus(part, grpo.gradient)) / norm(together.gradient)).toBeLessThan(tolerance)
      })
  )

  it.scoped.each([...losses])(
    "NORM-04: %s: sources without a member of rl leave the tokens of another source exactly what they were",
    ([, loss]) =>
      Effect.gen(function* () {
        const engine = yield* tinyEngine()
        const samples = yield* samplesOn(engine)
        const own = samples.filter(({ source }) => source === "grpo")
        const mixed = [...own, ...samples.filter(({ source }) => source === "opd" || source === "sft")]
        const tokenGradients = (some: ReadonlyArray<TrainingSample>) =>
          Effect.gen(function* () {
            const { counts, microBatches } = MicroBatch.pack(some, { maxSequenceLength: 128 })
            const [batch] = microBatches.flat()
            const { logprobs } = yield* engine.forward(batch!)
            const { components, gradient } = yield* PackedLoss.ofBatch(batch!, logprobs, counts, loss)
            const at = batch!.samples.map((_, i) => batch!.sequenceLengths.slice(0, i).reduce((a, b) => a + b, 0))
            const rows = batch!.samples.map(
              ({ rollout, tokenIds }, i) => [rollout, gradient.slice(at[i]!, at[i]! + tokenIds.length)] as const
            )
            return { counts, components, gradients: Object.fromEntries(rows) }
          })
        const alone = yield* tokenGradients(own)
        const among = yield* tokenGradients(mixed)
        expect(among.counts.rl).toBe(alone.counts.rl)
        expect(Math.min(among.counts.ce, among.counts.refKl)).toBeGreaterThan(0)
        expect(among.components.rl).toBe(alone.components.rl)
        for (const [rollout, gradient] of Object.entries(alone.gradients)) {
          expect(gradient.some((slope) => slope !== 0)).toBe(true)
          expect(among.gradients[rollout]).toEqual(gradient)
        }
        const batches = MicroBatch.pack(mixed, { maxSequenceLength: 128 })
        const native = yield* pass(engine, batches.microBatches.flat(), batches.counts, loss)
        expect(native.components[0]).toBe(
          (yield* pass(
            engine,
            MicroBatch.pack(own, { maxSequenceLength: 128 }).microBatches.flat(),
            batches.counts,
            loss
          )).components[0]
        )
      })
  )

  it.scoped("a kernel whose ratio overflows is named by its formula: loss, rollout and member", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      const [sample] = yield* samplesOn(engine)
      const logprobs = Float32Array.from(sample!.logprobs)
      logprobs[5] = -1000
      const [batch] = MicroBatch.pack([{ ...sample!, logprobs, advantages: new Float32Array(14).fill(-1) }], {
        maxSequenceLength: 32
      }).microBatches.flat()
      const loss = RlLoss.make(Dppo, { dppo_mask_low: 1 })
      const error = yield* Effect.flip(
        PackedLossNative.make(engine).forwardBackward(batch!, { rl: 9, ce: 0, refKl: 0 }, loss)
      )
      expect(error.message).toMatch(
        /^loss dppo, rollout grpo\/0: member 2 \(log-probability -\d+\.\d+ against -1000\) has loss Infinity/
      )
    })
  )
})
