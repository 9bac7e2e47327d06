/** Every built-in loss: hand-computed numbers, finite differences, its kernel, and what overflows. */
import { createRequire } from "node:module"
import { fileURLToPath } from "node:url"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import Cispo from "../../src/Trainer/losses/Cispo.ts"
import Dppo from "../../src/Trainer/losses/Dppo.ts"
import Gspo from "../../src/Trainer/losses/Gspo.ts"
import Icepop from "../../src/Trainer/losses/Icepop.ts"
import ImportanceSampling from "../../src/Trainer/losses/ImportanceSampling.ts"
import Ipo from "../../src/Trainer/losses/Ipo.ts"
import PpoClip from "../../src/Trainer/losses/PpoClip.ts"
import type { NativeAddon, NativeBatch } from "../../src/Trainer/Native.ts"
import * as PackedLoss from "../../src/Trainer/PackedLoss.ts"
import * as RlLoss from "../../src/Trainer/RlLoss.ts"

const addon = createRequire(import.meta.url)(
  fileURLToPath(new URL("../../native/build/primerl.node", import.meta.url))
) as NativeAddon

type Numbers = ReadonlyArray<number>

/** Members whose ratios are given; the trainer's log-probability is −1. */
const ofRatios = (ratios: Numbers, advantages: Numbers, weights: Numbers = ratios.map(() => 1)) => ({
  trainer: new Float64Array(ratios.length).fill(-1),
  inference: Float64Array.from(ratios, (ratio) => -1 - Math.log(ratio)),
  advantages: Float64Array.from(advantages),
  reference: undefined,
  weights: Float64Array.from(weights)
})

const evaluate = (loss: RlLoss.RlLoss, members: RlLoss.WeightedMembers) =>
  Either.getOrThrow(RlLoss.evaluate(loss, "r", members))

/** Loss and gradient of each member when it is alone, as rows of a table. */
const alone = (loss: RlLoss.RlLoss, ratios: Numbers, advantages: Numbers) =>
  ratios.map((ratio, i) => {
    const { gradient, total } = evaluate(loss, ofRatios([ratio], [advantages[i]!]))
    return [total, gradient[0]!].map((x) => Number(x.toFixed(9)) + 0)
  })

const masks = (loss: RlLoss.RlLoss, members: RlLoss.Members) => {
  const isMasked = loss.masked!(members)
  return [...members.trainer.keys()].map((i) => isMasked(i))
}

describe("by hand", () => {
  const ratios = [2, 2, 0.5, 0.5, 1, 9]
  const advantages = [1, -1, 1, -1, 2, 0]

  it("ppo_clip: clipped where the advantage pushes outwards, whole where it pulls back", () => {
    const loss = RlLoss.make(PpoClip, { clip_low: 0.2, clip_high: 0.3 })
    expect(alone(loss, ratios, advantages)).toEqual([
      [-1.3, 0],
      [2, 2],
      [-0.5, -0.5],
      [0.8, 0],
      [-2, -2],
      [0, 0]
    ])
    const members = ofRatios(ratios, advantages)
    expect(masks(loss, members)).toEqual([true, false, false, true, false, false])
    expect(loss.metrics!(members)).toEqual({ is_clipped_low: 1 / 6, is_clipped_high: 1 / 6 })
    expect(masks(loss, ofRatios([0.1, 9], [0, 0]))).toEqual([false, false])
  })

  it("cispo: the weight is clipped, the gradient stays", () => {
    const loss = RlLoss.make(Cispo, { clip_low: 0.2, clip_high: 0.3 })
    expect(alone(loss, ratios, advantages)).toEqual([
      [1.3, -1.3],
      [-1.3, 1.3],
      [0.8, -0.8],
      [-0.8, 0.8],
      [2, -2],
      [0, 0]
    ])
    const members = ofRatios(ratios, advantages)
    expect(loss.masked).toBeUndefined()
    expect(loss.metrics!(members)).toEqual({ is_clipped_low: 2 / 6, is_clipped_high: 3 / 6 })
  })

  it("icepop: nothing outside the band, whatever the advantage", () => {
    const loss = RlLoss.make(Icepop, {})
    expect(alone(loss, [2, 4.9, 5.1, 0.51, 0.49, 9], [1, -1, 1, -2, 1, 0])).toEqual([
      [-2, -2],
      [4.9, 4.9],
      [0, 0],
      [1.02, 1.02],
      [0, 0],
      [0, 0]
    ])
    const members = ofRatios([2, 5.1, 0.49, 9], [1, 1, 1, 0])
    expect(masks(loss, members)).toEqual([false, true, true, true])
    expect(loss.metrics!(members)).toEqual({ is_masked_low: 1 / 4, is_masked_high: 2 / 4 })
  })

  it("importance_sampling: the ratio, unbounded", () => {
    const loss = RlLoss.make(ImportanceSampling, {})
    expect(alone(loss, ratios, advantages)).toEqual([
      [-2, -2],
      [2, 2],
      [-0.5, -0.5],
      [0.5, 0.5],
      [-2, -2],
      [0, 0]
    ])
  })

  it("gspo: one ratio for all members, and a gradient to all of them", () => {
    const loss = RlLoss.make(Gspo, { clip_low: 0.1, clip_high: 0.1 })
    const s = Math.sqrt(1.1 * 1.3)
    const rise = evaluate(loss, ofRatios([1.1, 1.3], [1, 1]))
    expect(rise.total).toBeCloseTo(-2.2, 12)
    expect([...Array.from(rise.gradient)]).toEqual([0, 0])
    const fall = evaluate(loss, ofRatios([1.1, 1.3], [-1, -1]))
    expect(fall.total).toBeCloseTo(2 * s, 12)
    for (const slope of Array.from(fall.gradient)) expect(slope).toBeCloseTo(s, 12)
    // The first is clipped, the second is not: its gradient reaches both.
    const mixed = evaluate(loss, ofRatios([1.1, 1.3], [1, -1], [1, 3]))
    expect(mixed.total).toBeCloseTo(-1.1 + 3 * s, 12)
    for (const slope of Array.from(mixed.gradient)) expect(slope).toBeCloseTo((3 * s) / 2, 12)
    const members = ofRatios([1.1, 1.3], [1, -1])
    expect(masks(loss, members)).toEqual([true, false])
    expect(loss.metrics!(members)).toEqual({
      sequence_ratio: expect.closeTo(s, 12),
      is_clipped_low: 0,
      is_clipped_high: 0.5
    })
  })

  it("defaults are those that each loss names", () => {
    expect(RlLoss.make(PpoClip, {}).native).toEqual({ kernel: "ppo_clip", clipLow: 0.2, clipHigh: 0.2 })
    expect(RlLoss.make(Cispo, {}).native).toEqual({ kernel: "cispo", clipLow: 1, clipHigh: 4 })
    expect(RlLoss.make(Icepop, {}).native).toEqual({ kernel: "icepop", ratioLow: 0.5, ratioHigh: 5 })
    expect(RlLoss.make(ImportanceSampling, {}).native).toEqual({ kernel: "importance_sampling" })
    const gspo = RlLoss.make(Gspo, {})
    expect(gspo.native).toBeUndefined()
    expect(masks(gspo, ofRatios([1.00039, 1.00041], [1, 1]))).toEqual([false, false])
    expect(masks(gspo, ofRatios([1.00041, 1.00041], [1, 1]))).toEqual([true, true])
    expect(masks(gspo, ofRatios([0.99969, 0.99969], [-1, 1]))).toEqual([true, false])
  })
})

const losses = {
  dppo: RlLoss.make(Dppo, { dppo_mask_low: 0.1, dppo_mask_high: 0.05, kl_tau: 0.2 }),
  ipo: RlLoss.make(Ipo, { kl_tau: 0.2 }),
  ppo_clip: RlLoss.make(PpoClip, { clip_low: 0.1, clip_high: 0.3 }),
  cispo: RlLoss.make(Cispo, { clip_low: 0.4, clip_high: 0.5 }),
  icepop: RlLoss.make(Icepop, { mask_low: 0.7, mask_high: 1.6 }),
  gspo: RlLoss.make(Gspo, { clip_low: 0.05, clip_high: 0.1 }),
  importance_sampling: RlLoss.make(ImportanceSampling, {})
}

/** Evenly spread, unlike FastCheck's doubles, most of which are nearly 0. */
const between = (min: number, max: number) =>
  FastCheck.integer({ min: 0, max: 1e6 }).map((x) => min + (x / 1e6) * (max - min))

/** Sequences of one to six members near and far from the sampler, with advantages of either sign and any weight. */
const sequences = FastCheck.array(
  FastCheck.record({
    trainer: between(-4, -0.05),
    delta: FastCheck.oneof(between(-0.15, 0.15), between(-1.5, 1.5)),
    advantage: FastCheck.oneof(
      { arbitrary: FastCheck.constant(0), weight: 1 },
      { arbitrary: between(-2, 2), weight: 5 }
    ),
    weight: between(0.1, 3)
  }),
  { minLength: 1, maxLength: 6 }
).map((members) => ({
  trainer: Float64Array.from(members, ({ trainer }) => trainer),
  inference: Float64Array.from(members, ({ delta, trainer }) => trainer - delta),
  advantages: Float64Array.from(members, ({ advantage }) => advantage),
  reference: undefined,
  weights: Float64Array.from(members, ({ weight }) => weight)
}))

/** CISPO's weight is detached: what is differentiated is the log-probability alone. */
const withFixedWeights = (at: RlLoss.WeightedMembers) => (members: RlLoss.WeightedMembers) =>
  members.trainer.reduce((total, logprob, i) => {
    const ratio = Math.exp(at.trainer[i]! - at.inference[i]!)
    return total - members.weights[i]! * Math.min(1.5, Math.max(0.6, ratio)) * members.advantages[i]! * logprob
  }, 0)

describe("gradients agree with finite differences", () => {
  it.each(Object.entries(losses))("%s", (name, loss) => {
    const h = 1e-6
    const seen = new Set<string>()
    FastCheck.assert(
      FastCheck.property(sequences, (members) => {
        const objective =
          name === "cispo" ? withFixedWeights(members) : (of: RlLoss.WeightedMembers) => evaluate(loss, of).total
        const { gradient } = evaluate(loss, members)
        const left = loss.masked === undefined ? () => false : loss.masked(members)
        for (const i of members.trainer.keys()) {
          const moved = (by: number) => ({
            ...members,
            trainer: members.trainer.map((value, j) => (j === i ? value + by : value))
          })
          const [up, down] = [moved(h), moved(-h)]
          // Where the loss has a kink or a jump between the two, it has no derivative to compare with.
          const at = loss.masked === undefined ? () => false : loss.masked(up)
          const below = loss.masked === undefined ? () => false : loss.masked(down)
          if ([...members.trainer.keys()].some((j) => at(j) !== below(j))) continue
          const slope = (objective(up) - objective(down)) / (2 * h)
          expect(Math.abs(gradient[i]! - slope)).toBeLessThan(1e-7 * (1 + Math.abs(slope)))
          seen.add(`${Math.sign(members.advantages[i]!)}${left(i) ? " left out" : ""}`)
        }
      }),
      { numRuns: 300, seed: 7 }
    )
    // Members of every kind have been compared.
    expect(seen.has("1") && seen.has("-1") && seen.has("0")).toBe(true)
    if (loss.masked !== undefined) expect(seen.has("1 left out") && seen.has("-1 left out")).toBe(true)
  })
})

const batchOf = (members: RlLoss.WeightedMembers): NativeBatch => {
  const stream = (values: Float64Array) => Float32Array.of(0, ...values)
  const tokens = members.trainer.length + 1
  return {
    tokenIds: new Int32Array(tokens),
    sequenceLengths: Int32Array.of(tokens),
    temperatures: new Float32Array(tokens).fill(1),
    mask: new Uint8Array(tokens).fill(1),
    logprobs: stream(members.inference),
    advantages: stream(members.advantages),
    referenceLogprobs: undefined,
    rlWeights: stream(members.weights),
    ceWeights: undefined,
    refKlWeights: undefined
  }
}

const counts = { rl: 3, ce: 0, refKl: 0 }

const kernelAndFormula = (loss: RlLoss.RlLoss, members: RlLoss.WeightedMembers) => {
  const batch = batchOf(members)
  const trainer = Float32Array.of(0, ...members.trainer)
  const kernel = addon.packedLoss(trainer, batch, counts, loss.native!)
  return { kernel, formula: PackedLoss.ofSample({ rollout: "r", ...batch }, trainer, counts, loss) }
}

describe("the native kernel computes the formula", () => {
  it.each(Object.entries(losses).filter(([, loss]) => loss.native !== undefined))(
    "%s, to float32's last digits",
    (_, loss) => {
      FastCheck.assert(
        FastCheck.property(sequences, (members) => {
          const { formula, kernel } = kernelAndFormula(loss, members)
          const { components, gradient } = Either.getOrThrow(formula)
          expect(Math.abs(kernel.rl - components.rl)).toBeLessThanOrEqual(1e-12 * (1 + Math.abs(components.rl)))
          for (const [i, slope] of gradient.entries()) expect(kernel.gradient[i]).toBe(Math.fround(slope))
        }),
        { numRuns: 300, seed: 11 }
      )
    }
  )
})

/** Tokens of which any component may have any, the first of a sequence too. */
const sequenceOfAll = FastCheck.array(
  FastCheck.record({
    trainer: between(-3, -0.05),
    delta: between(-1.2, 1.2),
    advantage: between(-2, 2),
    reference: between(-4, -0.05),
    mask: FastCheck.constantFrom(0, 1),
    rl: FastCheck.constantFrom(0, 0.5, 1),
    ce: FastCheck.constantFrom(0, 0, 0.1, 1),
    refKl: FastCheck.constantFrom(0, 0, 0.5, 1)
  }),
  { minLength: 1, maxLength: 5 }
)

it("the kernel computes all three components of every sequence of a micro-batch, and none of a first token", () => {
  const loss = losses.dppo
  FastCheck.assert(
    FastCheck.property(FastCheck.array(sequenceOfAll, { minLength: 1, maxLength: 3 }), (parts) => {
      const tokens = parts.flat()
      const stream = (of: (token: (typeof tokens)[number]) => number) => Float32Array.from(tokens, of)
      const trainer = stream((token) => token.trainer)
      const streams = {
        mask: Uint8Array.from(tokens, ({ mask }) => mask),
        logprobs: stream((token) => token.trainer - token.delta),
        advantages: stream(({ advantage }) => advantage),
        referenceLogprobs: stream(({ reference }) => reference),
        rlWeights: stream(({ rl }) => rl),
        ceWeights: stream(({ ce }) => ce),
        refKlWeights: stream(({ refKl }) => refKl)
      }
      const all = { rl: 3, ce: 5, refKl: 7 }
      const kernel = addon.packedLoss(
        trainer,
        {
          ...streams,
          tokenIds: new Int32Array(tokens.length),
          sequenceLengths: Int32Array.from(parts, ({ length }) => length),
          temperatures: new Float32Array(tokens.length).fill(1)
        },
        all,
        loss.native!
      )
      const sums = { rl: 0, ce: 0, refKl: 0 }
      let start = 0
      for (const { length } of parts) {
        const end = start + length
        const cut = Object.fromEntries(
          Object.entries(streams).map(([name, values]) => [name, values.subarray(start, end)])
        ) as typeof streams
        const one = Either.getOrThrow(
          PackedLoss.ofSample({ rollout: "r", ...cut }, trainer.subarray(start, end), all, loss)
        )
        for (const [i, slope] of one.gradient.entries()) expect(kernel.gradient[start + i]).toBeCloseTo(slope, 5)
        sums.rl += one.components.rl
        sums.ce += one.components.ce
        sums.refKl += one.components.refKl
        start = end
      }
      for (const name of ["rl", "ce", "refKl"] as const) expect(kernel[name]).toBeCloseTo(sums[name], 9)
    }),
    { numRuns: 300, seed: 13 }
  )
})

it("a component that was counted as empty is divided by 1, in formula and kernel", () => {
  const none = { rl: 0, ce: 0, refKl: 0 }
  const weights = Float32Array.of(0, 1)
  const batch = {
    ...batchOf(ofRatios([1], [3])),
    referenceLogprobs: Float32Array.of(0, -2),
    ceWeights: weights,
    refKlWeights: weights
  }
  const trainer = Float32Array.of(0, -1)
  const expected = { rl: -3, ce: 1, refKl: 1 }
  const loss = losses.importance_sampling
  const formula = Either.getOrThrow(PackedLoss.ofSample({ rollout: "r", ...batch }, trainer, none, loss))
  expect(formula.components).toEqual(expected)
  expect(addon.packedLoss(trainer, batch, none, loss.native!)).toMatchObject(expected)
})

describe("a trust region without width", () => {
  it.each([
    RlLoss.make(Dppo, { dppo_mask_low: 0, dppo_mask_high: 0, kl_tau: 0 }),
    RlLoss.make(Ipo, { ipo_threshold: 0, kl_tau: 0 }),
    RlLoss.make(PpoClip, { clip_low: 0, clip_high: 0 }),
    RlLoss.make(Cispo, { clip_low: 0, clip_high: 0 }),
    RlLoss.make(Icepop, { mask_low: 1, mask_high: 1 })
  ])("$type: still trains what the policy itself sampled, and its kernel does", (loss) => {
    const members = ofRatios([1, 1], [1, -2])
    const total = evaluate(loss, members).total
    expect(total).toBeCloseTo(loss.type === "cispo" ? -1 : 1, 12)
    expect(Array.from(evaluate(loss, members).gradient)).toEqual([-1, 2])
    const { kernel } = kernelAndFormula(loss, members)
    expect(kernel.rl * counts.rl).toBeCloseTo(total, 6)
    for (const [i, slope] of [-1, 2].entries()) expect(kernel.gradient[i + 1]! * counts.rl).toBeCloseTo(slope, 6)
  })
})

describe("NUM-01: a ratio that overflows", () => {
  const far = (advantage: number) => ofRatios([1.1, 1], [1, advantage])
  const overflowing = (advantage: number) => {
    const members = far(advantage)
    members.inference[1] = -1000
    return members
  }
  const healthy = (loss: RlLoss.RlLoss) => evaluate(loss, ofRatios([1.1], [1]))
  const bounded = [losses.ppo_clip, losses.cispo, losses.icepop] as const

  it.each(Object.values(losses).map((loss) => [loss.type, loss] as const))(
    "%s: is skipped where the advantage is 0",
    (_, loss) => {
      const { gradient, total } = evaluate(loss, overflowing(0))
      expect(Number.isFinite(total)).toBe(true)
      for (const slope of Array.from(gradient)) expect(Number.isFinite(slope)).toBe(true)
      if (loss.native === undefined) return
      const { kernel } = kernelAndFormula(loss, overflowing(0))
      expect((kernel.rl * counts.rl) / total).toBeCloseTo(1, 5)
      for (const slope of kernel.gradient) expect(Number.isFinite(slope)).toBe(true)
    }
  )

  it("gspo: is skipped where the advantage is 0, even where that of the whole sequence does", () => {
    const members = ofRatios([1], [0])
    members.inference[0] = -1000
    const { gradient, total } = evaluate(losses.gspo, members)
    expect([Math.abs(total), Math.abs(gradient[0]!)]).toEqual([0, 0])
  })

  it.each(bounded.map((loss) => [loss.type, loss] as const))(
    "%s: is bounded where it would be pushed on",
    (_, loss) => {
      const { gradient, total } = evaluate(loss, overflowing(1))
      const bound = { ppo_clip: -1.3, cispo: 1.5, icepop: 0 }[loss.type]!
      expect(total).toBeCloseTo(healthy(loss).total + bound, 9)
      expect(gradient[0]).toBeCloseTo(healthy(loss).gradient[0]!, 12)
      expect(gradient[1]).toBeCloseTo(loss.type === "cispo" ? -1.5 : 0, 12)
      const { kernel } = kernelAndFormula(loss, overflowing(1))
      expect(kernel.rl * 3).toBeCloseTo(total, 5)
    }
  )

  it("importance_sampling: is skipped where the weight is 0, in formula and kernel", () => {
    const { formula, kernel } = kernelAndFormula(losses.importance_sampling, {
      ...overflowing(1),
      weights: Float64Array.of(1, 0)
    })
    const { components, gradient } = Either.getOrThrow(formula)
    expect(components.rl).toBeCloseTo(-1.1 / counts.rl, 6)
    expect(kernel.rl).toBeCloseTo(components.rl, 9)
    expect([gradient[2], kernel.gradient[2]]).toEqual([0, 0])
  })

  it("importance_sampling: is an error that names loss, rollout and member", () => {
    const error = Either.getOrThrow(
      Either.flip(RlLoss.evaluate(losses.importance_sampling, "math/0/1", overflowing(1)))
    )
    expect(error.message).toBe(
      "loss importance_sampling, rollout math/0/1: member 1 (log-probability -1 against -1000) has loss -Infinity and gradient -Infinity"
    )
  })

  it("that float32 cannot hold is an error too, and names the token", () => {
    const members = overflowing(1)
    members.inference[1] = -121
    const { formula } = kernelAndFormula(losses.importance_sampling, members)
    expect(Either.getOrThrow(Either.flip(formula)).message).toMatch(
      /^loss importance_sampling, rollout r: token 2 \(log-probability -1 against -121\) has gradient -4\.3\d*e\+51, more than float32 holds$/
    )
  })
})

describe("kernel arguments", () => {
  const members = ofRatios([1], [1])
  const call = (loss: object) => () =>
    addon.packedLoss(Float32Array.of(0, -1), batchOf(members), counts, loss as NonNullable<RlLoss.RlLoss["native"]>)

  it("that are missing, no numbers or negative are named", () => {
    expect(call({ kernel: "ppo_clip", clipLow: 0.2 })).toThrow(/loss\.clipHigh must be a number/)
    expect(call({ kernel: "cispo", clipLow: -1, clipHigh: 0.2 })).toThrow(/loss\.clipLow must not be negative/)
    expect(call({ kernel: "icepop", ratioLow: 0, ratioHigh: Number.NaN })).toThrow(/loss\.ratioHigh must be finite/)
    expect(call({ kernel: "gspo" })).toThrow(/loss\.kernel "gspo" is unknown/)
    expect(call({ kernel: "importance_sampling" })).not.toThrow()
  })
})
