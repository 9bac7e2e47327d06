import { readFileSync } from "node:fs"
import { it as effectIt } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { describe, expect, it } from "vitest"
import * as MicroBatch from "../../src/MicroBatch.ts"
import Dppo from "../../src/Trainer/losses/Dppo.ts"
import Ipo from "../../src/Trainer/losses/Ipo.ts"
import * as PackedLoss from "../../src/Trainer/PackedLoss.ts"
import * as RlLoss from "../../src/Trainer/RlLoss.ts"
import type { TrainingSample } from "../../src/TrainingSample.ts"

type Numbers = ReadonlyArray<number>
interface Case {
  readonly name: string
  readonly loss: { readonly type: "dppo" | "ipo" } & Readonly<Record<string, unknown>>
  readonly counts: MicroBatch.ComponentCounts
  readonly sequences: ReadonlyArray<{
    readonly trainerLogprobs: Numbers
    readonly inferenceLogprobs: Numbers
    readonly referenceLogprobs: Numbers | null
    readonly advantages: Numbers
    readonly lossMask: ReadonlyArray<boolean>
    readonly rlWeights: Numbers | null
    readonly ceWeights: Numbers | null
    readonly refKlWeights: Numbers | null
    readonly expectedGradient: Numbers
  }>
  readonly expected: {
    readonly loss: number
    readonly components: PackedLoss.Components
    readonly metrics: Readonly<Record<string, Numbers>>
  }
}
const { cases } = JSON.parse(readFileSync(new URL("../data/cases/loss.json", import.meta.url), "utf8")) as {
  readonly cases: ReadonlyArray<Case>
}

/** The recorded numbers have nine digits, so what is 0 there may be 1e-9 here. */
const close = (actual: number, expected: number, what: string) =>
  expect(Math.abs(actual - expected), `${what}: ${actual} against ${expected}`).toBeLessThanOrEqual(
    1e-6 * Math.abs(expected) + 1e-9
  )

const streams = (s: Case["sequences"][number]): PackedLoss.Streams => ({
  rollout: "r",
  mask: s.lossMask.map(Number),
  logprobs: s.inferenceLogprobs,
  advantages: s.advantages,
  referenceLogprobs: s.referenceLogprobs ?? undefined,
  rlWeights: s.rlWeights ?? undefined,
  ceWeights: s.ceWeights ?? undefined,
  refKlWeights: s.refKlWeights ?? undefined
})

const total = ({ ce, refKl, rl }: PackedLoss.Components) => rl + ce + refKl

describe("recorded losses", () => {
  it.each(cases)(
    "$name: components, gradients and metrics",
    ({ counts, expected, loss: { type, ...config }, sequences }) => {
      const loss = Either.getOrThrow((type === "dppo" ? Dppo : Ipo).decode(config))
      const components = { rl: 0, ce: 0, refKl: 0 }
      const metrics: Record<string, Array<number>> = {}
      for (const sequence of sequences) {
        const one = Either.getOrThrow(PackedLoss.ofSample(streams(sequence), sequence.trainerLogprobs, counts, loss))
        components.rl += one.components.rl
        components.ce += one.components.ce
        components.refKl += one.components.refKl
        for (const [i, gradient] of sequence.expectedGradient.entries())
          close(one.gradient[i]!, gradient, `gradient ${i}`)
        for (const [name, value] of Object.entries(one.metrics)) metrics[name] = [...(metrics[name] ?? []), value]
      }
      close(components.rl, expected.components.rl, "rl")
      close(components.ce, expected.components.ce, "ce")
      close(components.refKl, expected.components.refKl, "refKl")
      close(total(components), expected.loss, "loss")
      expect(Object.keys(metrics).sort()).toEqual(Object.keys(expected.metrics).sort())
      for (const [name, values] of Object.entries(expected.metrics)) {
        expect(metrics[name]!.length, name).toBe(values.length)
        for (const [i, value] of values.entries()) close(metrics[name]![i]!, value, `${name} of sequence ${i}`)
      }
    }
  )
})

/** One sequence of numbers after a first token that has no context. */
const sequence = (
  trainer: Numbers,
  more: {
    readonly inference?: Numbers
    readonly advantages?: Numbers
    readonly mask?: Numbers
    readonly reference?: Numbers
    readonly rl?: Numbers
    readonly ce?: Numbers
    readonly refKl?: Numbers
  } = {}
): TrainingSample => {
  const stream = (values: Numbers | undefined) => (values === undefined ? undefined : Float32Array.of(0, ...values))
  return {
    rollout: "r",
    source: "s",
    policyVersion: 0,
    tokenIds: Int32Array.from({ length: trainer.length + 1 }, (_, i) => i),
    mask: Uint8Array.of(0, ...(more.mask ?? trainer.map(() => 1))),
    logprobs: stream(more.inference ?? trainer)!,
    temperatures: new Float32Array(trainer.length + 1).fill(1),
    advantages: stream(more.advantages ?? trainer.map(() => 1)),
    referenceLogprobs: stream(more.reference),
    rlWeights: stream(more.rl),
    ceWeights: stream(more.ce),
    refKlWeights: stream(more.refKl)
  }
}
const repeat = (count: number, value: number) => Array.from({ length: count }, () => value)
const dppo = RlLoss.make(Dppo, {})
const of = (sample: TrainingSample, trainer: Numbers, counts: MicroBatch.ComponentCounts, loss: RlLoss.RlLoss = dppo) =>
  Either.getOrThrow(PackedLoss.ofSample(sample, [0, ...trainer], counts, loss))

/** A loss that gives each member its advantage: sums are then easy to see. */
const plain = RlLoss.make(
  RlLoss.define({
    type: "plain",
    Config: Schema.Struct({}),
    loss:
      () =>
      ({ advantages, trainer }) =>
        trainer.minus(trainer.detach()).plus(advantages)
  }),
  {}
)

describe("components", () => {
  it("masked members keep the penalty, and A = 0 is tested on the low side", () => {
    const trainer = [-0.2, -0.1, -1.5, -2, -0.5]
    const inference = [-0.7, -0.4, -0.5, -2, -0.5]
    const reference = [-0.3, -0.3, -0.3, -1, -0.5]
    const advantages = [1, 1, -1, -1, 0]
    const counts = { rl: 1, ce: 1, refKl: 1 }
    const sample = sequence(trainer, { inference, advantages })
    expect(of(sample, trainer, counts).components.rl).toBeCloseTo(1.00134, 6)
    expect(of(sample, trainer, counts, RlLoss.make(Ipo, {})).components.rl).toBeCloseTo(1.00134, 6)
    const weighted = sequence(trainer, { inference, advantages, rl: [0.5, 2, 1, 1, 1] })
    expect(of(weighted, trainer, counts).components.rl).toBeCloseTo(1.001305, 6)
    const distilled = sequence(trainer, { inference, reference, rl: repeat(5, 0), refKl: repeat(5, 1) })
    expect(of(distilled, trainer, counts).components.refKl).toBeCloseTo(-0.563816, 5)
    expect(of(sequence([-1, -1, -1]), [-1, -1, -1], counts).components.rl).toBeCloseTo(-3, 12)
    const zero = of(sequence([-1.5], { inference: [-0.5], advantages: [0] }), [-1.5], counts)
    expect(zero.components.rl).toBeCloseTo(0.001, 9)
    expect(zero.metrics.is_masked).toBe(1)
  })

  it("ce ignores the mask, refKl ignores it too, rl does not", () => {
    const trainer = [-1, -2]
    const sample = sequence(trainer, { mask: [0, 0], ce: [1, 0.5], refKl: [1, 1], reference: [-1, -1] })
    const { components } = of(sample, trainer, { rl: 0, ce: 2, refKl: 2 })
    expect(components.rl).toBe(0)
    expect(components.ce).toBeCloseTo(1, 12)
    expect(components.refKl).toBeCloseTo((0 - 1) / 2, 12)
  })

  it("refKl without reference log-probabilities is an error, not a zero", () => {
    const error = Either.flip(
      PackedLoss.ofSample(sequence([-1], { refKl: [1] }), [0, -1], { rl: 1, ce: 1, refKl: 1 }, dppo)
    )
    expect(Either.getOrThrow(error).message).toContain("no reference log-probabilities")
  })

  it("gradients agree with finite differences in every component at once", () => {
    const trainer = [-0.3, -1.2, -2.5, -0.9, -0.4, -1.7]
    const sample = sequence(trainer, {
      inference: [-0.35, -1.1, -2.2, -1, -0.4, -1.2],
      advantages: [0.5, -1, 2, 0, -0.7, 1],
      reference: [-0.5, -1, -2, -1.5, -0.2, -3],
      mask: [1, 1, 1, 1, 0, 1],
      rl: [1, 0.5, 0, 2, 1, -1],
      ce: [0, 0.1, 1, 0, 0.3, 0],
      refKl: [1, 0, 0.5, 1, 2, 0]
    })
    const counts = { rl: 4, ce: 3, refKl: 4 }
    for (const loss of [dppo, RlLoss.make(Ipo, { ipo_threshold: 0.05, kl_tau: 0.5 })]) {
      const { gradient } = of(sample, trainer, counts, loss)
      const h = 1e-6
      for (const i of trainer.keys()) {
        const at = (x: number) => {
          const moved = trainer.map((value, j) => (j === i ? value + x : value))
          // In refKl, reference − trainer is detached: only the ratio is differentiated.
          const fixed = of(sample, moved, counts, loss).components
          return fixed.rl + fixed.ce
        }
        const t = trainer[i]!
        const q = sample.logprobs[i + 1]!
        const k = sample.refKlWeights![i + 1]!
        const keep = Math.exp(t) - Math.exp(q) >= -0.2
        const detached = (x: number) =>
          k === 0
            ? 0
            : (k * ((keep ? -(sample.referenceLogprobs![i + 1]! - t) * Math.exp(x - q) : 0) + 1e-3 * (x - q) ** 2)) / 4
        const slope = (at(h) - at(-h) + detached(t + h) - detached(t - h)) / (2 * h)
        expect(gradient[i + 1]).toBeCloseTo(slope, 7)
      }
    }
  })

  it("KL-02: refKl's expected gradient is that of the reverse KL", () => {
    const p = [Math.log(0.7), Math.log(0.3)]
    const reference = [Math.log(0.5), Math.log(0.5)]
    let expected = 0
    for (const action of [0, 1]) {
      const trainer = [p[action]!]
      const sample = sequence(trainer, { rl: [0], refKl: [1], reference: [reference[action]!] })
      const { gradient } = Either.getOrThrow(
        PackedLoss.ofSample(
          { ...sample, logprobs: [0, ...trainer], referenceLogprobs: [0, reference[action]!] },
          [0, ...trainer],
          { rl: 1, ce: 1, refKl: 1 },
          dppo
        )
      )
      expected += Math.exp(p[action]!) * gradient[1]! * ((action === 0 ? 1 : 0) - 0.7)
    }
    expect(expected).toBeCloseTo(0.17793, 5)
  })

  it("NUM-01: what is left out is skipped, never multiplied by 0", () => {
    const counts = { rl: 1, ce: 0, refKl: 0 }
    const healthy = of(sequence([-0.9], { inference: [-1] }), [-0.9], counts)
    // Outside the component: the ratio would overflow.
    const trainer = [-1, -0.9]
    const outside = of(sequence(trainer, { inference: [-800, -1], mask: [0, 1] }), trainer, counts)
    expect(outside.components.rl).toBe(healthy.components.rl)
    expect([...outside.gradient]).toEqual([0, 0, healthy.gradient[1]])
    const noisy = of(
      sequence(trainer, { inference: [Number.NaN, -1], advantages: [Number.NaN, 1], mask: [0, 1] }),
      trainer,
      counts
    )
    expect(noisy.components.rl).toBe(healthy.components.rl)
    // Inside, and masked by the loss: the penalty is left, and the metric counts it.
    const masked = of(sequence(trainer, { inference: [-800, -1] }), trainer, counts)
    expect(masked.components.rl).toBeCloseTo(healthy.components.rl + 1e-3 * 799 ** 2, 6)
    expect(masked.gradient[1]).toBeCloseTo(2e-3 * 799, 9)
    expect(masked.metrics.is_masked).toBe(0.5)
    // No advantage: no policy term, so none that overflows.
    const flat = of(sequence([-1], { inference: [-800], advantages: [0] }), [-1], counts)
    expect(flat.components.rl).toBeCloseTo(1e-3 * 799 ** 2, 6)
  })

  it("NUM-03: metrics are means over members, whatever stands elsewhere", () => {
    for (const junk of [1, -99, Number.NaN]) {
      const sample = sequence([-1, -1, junk], { ce: [1, 1, 0], mask: [1, 1, 0], inference: [-1, -1, junk] })
      const { metrics } = of(sample, [-1, -1, junk], { rl: 2, ce: 2, refKl: 0 })
      expect(metrics.nll).toBe(1)
      expect(metrics.unmasked_mismatch_kl).toBe(0)
    }
  })

  it("a loss that overflows on a member names the member and the numbers", () => {
    const error = Either.flip(
      PackedLoss.ofSample(
        sequence([-1], { inference: [-800], advantages: [-1] }),
        [0, -1],
        { rl: 1, ce: 0, refKl: 0 },
        dppo
      )
    )
    expect(Either.getOrThrow(error).message).toContain(
      "loss dppo, rollout r: member 0 (log-probability -1 against -800)"
    )
  })
})

describe("normalisation", () => {
  const run = (samples: ReadonlyArray<TrainingSample>, options: MicroBatch.PackOptions, loss = plain) => {
    const packed = MicroBatch.pack(samples, options)
    const components = { rl: 0, ce: 0, refKl: 0 }
    const gradients = new Map<number, number>()
    for (const batch of packed.microBatches.flat()) {
      const trainer = Array.from(batch.tokenIds, (id) => -1 - 0.001 * id)
      const one = Either.getOrThrow(PackedLoss.ofBatch(batch, trainer, packed.counts, loss))
      components.rl += one.components.rl
      components.ce += one.components.ce
      components.refKl += one.components.refKl
      batch.tokenIds.forEach((id, i) => {
        if (!batch.dummy && i > 0) gradients.set(id, (gradients.get(id) ?? 0) + one.gradient[i]!)
      })
    }
    return { packed, components, gradients }
  }
  /** `count` members of one loss each, told apart by their token ids. */
  const losses = (values: Numbers, first: number) => ({
    ...sequence(values, { advantages: values }),
    tokenIds: Int32Array.from({ length: values.length + 1 }, (_, i) => first + i)
  })

  it("NORM-01: loss and gradient do not depend on workers or micro-batches", () => {
    const samples = [losses([1, 1], 0), losses(repeat(8, 0), 10), losses([0.5, -2, 3], 30), losses([4], 40)]
    const one = run(samples, { maxSequenceLength: 64 }, dppo)
    for (const options of [
      { maxSequenceLength: 10 },
      { maxSequenceLength: 64, workers: 2 },
      { maxSequenceLength: 10, workers: 4, padToMultipleOf: 4 },
      { maxSequenceLength: 12, workers: 3 }
    ]) {
      const other = run([...samples].reverse(), options, dppo)
      expect(other.components.rl).toBeCloseTo(one.components.rl, 9)
      for (const [id, gradient] of one.gradients) {
        if (id !== 0 && id !== 10 && id !== 30 && id !== 40) expect(other.gradients.get(id)).toBeCloseTo(gradient, 7)
      }
    }
    const ranks = [losses([1, 1], 0), losses(repeat(8, 0), 10)]
    expect(run(ranks, { maxSequenceLength: 16, workers: 2 }).components.rl).toBeCloseTo(0.2, 12)
  })

  it("NORM-02: accumulation does not shrink the loss, even over uneven micro-batches", () => {
    expect(run([losses(repeat(40, 1), 0)], { maxSequenceLength: 64 }).components.rl).toBeCloseTo(1, 12)
    const four = [0, 20, 40, 60].map((first) => losses(repeat(10, 1), first))
    expect(run(four, { maxSequenceLength: 11 }).components.rl).toBeCloseTo(1, 12)
    const uneven = [losses([1], 0), losses(repeat(9, 1), 10), losses(repeat(30, 1), 30)]
    const packed = run(uneven, { maxSequenceLength: 31, workers: 3 })
    expect(packed.packed.microBatches.length).toBe(3)
    expect(packed.components.rl).toBeCloseTo(1, 12)
  })

  it("NORM-04: each component has its own denominator", () => {
    const policy = losses(repeat(10, 0.5), 0)
    const trainer = repeat(90, -2)
    const observed = sequence(trainer, { mask: repeat(90, 0), ce: repeat(90, 0.1) })
    const counts = { rl: 10, ce: 90, refKl: 0 }
    const rl = of(policy, repeat(10, -1), counts, plain).components
    const ce = of(observed, trainer, counts, plain).components
    expect(total(rl) + total(ce)).toBeCloseTo(0.7, 7)
    expect(total(of(policy, repeat(10, -1), { rl: 10, ce: 0, refKl: 0 }, plain).components)).toBeCloseTo(0.5, 12)
  })

  it("NORM-05: a batch or a component without members is 0 and finite", () => {
    const masked = { ...losses([1, 2], 0), mask: new Uint8Array(3) }
    const weightless = { ...masked, ceWeights: new Float32Array(3) }
    for (const sample of [masked, weightless]) {
      const { components, gradients, packed } = run([sample], { maxSequenceLength: 8, workers: 2 })
      expect(packed.counts).toEqual({ rl: 0, ce: 0, refKl: 0 })
      expect(components).toEqual({ rl: 0, ce: 0, refKl: 0 })
      expect([...gradients.values()].every((gradient) => gradient === 0)).toBe(true)
    }
  })

  it("NORM-08: the mean is over tokens; one over sequences is a matter of weights, and differs", () => {
    const token = [losses([1], 0), losses(repeat(9, 0), 10)]
    expect(run(token, { maxSequenceLength: 64 }).components.rl).toBeCloseTo(0.1, 12)
    const weighted = token.map((sample) => {
      const members = sample.mask.length - 1
      return { ...sample, rlWeights: new Float32Array(sample.mask.length).fill(10 / (2 * members)) }
    })
    expect(run(weighted, { maxSequenceLength: 64 }).components.rl).toBeCloseTo(0.5, 6)
  })

  it("NORM-09: a loss returns one value per member, and a sum is refused", () => {
    const samples = [0, 20, 40].map((first) => losses(repeat(10, 1), first))
    expect(run(samples, { maxSequenceLength: 64 }).components.rl).toBeCloseTo(1, 12)
    const summed = RlLoss.make(
      RlLoss.define({
        type: "summed",
        Config: Schema.Struct({}),
        loss:
          () =>
          ({ trainer }) =>
            trainer.sum()
      }),
      {}
    )
    const error = Either.flip(PackedLoss.ofSample(samples[0]!, repeat(11, -1), { rl: 30, ce: 0, refKl: 0 }, summed))
    expect(Either.getOrThrow(error).message).toContain("1 losses for 10 members")
  })

  it("PACK-01: the loss on one sample does not change with its neighbour, nor with a first token", () => {
    const a = losses([1, 2], 0)
    const b = losses([3], 10)
    const other = { ...b, tokenIds: Int32Array.of(99, 98) }
    const gradientOfA = (samples: ReadonlyArray<TrainingSample>) => {
      const batch = MicroBatch.pack(samples, { maxSequenceLength: 8 }).microBatches[0]![0]!
      const trainer = Array.from(batch.tokenIds, (id, i) => (batch.positionIds[i] === 0 ? Number.NaN : -0.01 * id))
      const { gradient } = Either.getOrThrow(PackedLoss.ofBatch(batch, trainer, { rl: 3, ce: 0, refKl: 0 }, dppo))
      expect(gradient[3]).toBe(0)
      return [...gradient.subarray(0, 3)]
    }
    expect(gradientOfA([a, b])).toEqual(gradientOfA([a, other]))
  })

  effectIt.effect("the mock layer gives the loss of the same log-probabilities", () =>
    Effect.gen(function* () {
      const samples = [losses([1, -1], 0), losses([0.5], 10)]
      const packed = MicroBatch.pack(samples, { maxSequenceLength: 8 })
      const service = yield* PackedLoss.PackedLoss
      const report = yield* service.forwardBackward(packed.microBatches[0]![0]!, packed.counts, dppo)
      const expected = samples
        .map((s) => of(s, [...s.logprobs.subarray(1)], packed.counts).components.rl)
        .reduce((a, b) => a + b)
      expect(report.rl).toBeCloseTo(expected, 6)
      expect([...report.logprobs]).toEqual([0, 1, -1, 0, 0.5])
    }).pipe(Effect.provide(PackedLoss.layerMock({ logprobs: (sample) => sample.logprobs })))
  )
})
