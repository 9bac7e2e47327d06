/** Numbers of the field for the components and for divergences as losses, one by one. */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { describe, expect, it } from "vitest"
import { Grad } from "../../src/Trainer/Grad.ts"
import Dppo from "../../src/Trainer/losses/Dppo.ts"
import Ipo from "../../src/Trainer/losses/Ipo.ts"
import * as PackedLoss from "../../src/Trainer/PackedLoss.ts"
import * as RlLoss from "../../src/Trainer/RlLoss.ts"

type Numbers = ReadonlyArray<number>

const dppo = RlLoss.make(Dppo, {})
const repeat = (count: number, value: number) => Array.from({ length: count }, () => value)

/** One sequence behind a first token that has no context. */
const of = (
  streams: {
    readonly trainer: Numbers
    readonly inference?: Numbers
    readonly advantages?: Numbers
    readonly reference?: Numbers
    readonly mask?: Numbers
    readonly rl?: Numbers
    readonly ce?: Numbers
    readonly refKl?: Numbers
  },
  counts: { readonly rl?: number; readonly ce?: number; readonly refKl?: number } = {},
  loss: RlLoss.RlLoss = dppo
) => {
  const { trainer } = streams
  const after = (values: Numbers | undefined) => (values === undefined ? undefined : [0, ...values])
  return Either.getOrThrow(
    PackedLoss.ofSample(
      {
        rollout: "r",
        mask: [0, ...(streams.mask ?? repeat(trainer.length, 1))],
        logprobs: [0, ...(streams.inference ?? trainer)],
        advantages: [0, ...(streams.advantages ?? repeat(trainer.length, 1))],
        referenceLogprobs: after(streams.reference),
        rlWeights: after(streams.rl),
        ceWeights: after(streams.ce),
        refKlWeights: after(streams.refKl)
      },
      [0, ...trainer],
      { rl: 1, ce: 1, refKl: 1, ...counts },
      loss
    )
  )
}

/** A component's loss of each token when the others are no members of it. */
const perToken = (
  streams: Parameters<typeof of>[0],
  component: "rl" | "refKl",
  loss: RlLoss.RlLoss = dppo
): ReadonlyArray<number> =>
  streams.trainer.map((_, i) => {
    const only = streams.trainer.map((_, j) => (i === j ? 1 : 0))
    const weights = component === "rl" ? { mask: only } : { rl: repeat(only.length, 0), refKl: only }
    return of({ ...streams, ...weights }, {}, loss).components[component]
  })

const close = (actual: Numbers, expected: Numbers) => {
  expect(actual).toHaveLength(expected.length)
  for (const [i, value] of expected.entries()) expect(actual[i]).toBeCloseTo(value, 6)
}

describe("recorded numbers", () => {
  const five = {
    trainer: [-0.2, -0.1, -1.5, -2, -0.5],
    inference: [-0.7, -0.4, -0.5, -2, -0.5],
    advantages: [1, 1, -1, -1, 0]
  }

  it("dppo and ipo, token by token: the first three are left out, and their mismatch is told", () => {
    for (const loss of [dppo, RlLoss.make(Ipo, {})]) {
      close(perToken(five, "rl", loss), [0.00025, 0.00009, 0.001, 1, 0])
      const { metrics } = of(five, {}, loss)
      expect(metrics.is_masked).toBeCloseTo(3 / 5, 12)
      expect(metrics.masked_mismatch_kl).toBeCloseTo((0.148721 + 0.049859 + 0.367879) / 3, 6)
      expect(metrics.unmasked_mismatch_kl).toBe(0)
    }
  })

  it("refKl, token by token: the third is left out but for its penalty", () => {
    const distilled = { ...five, reference: [-0.3, -0.3, -0.3, -1, -0.5] }
    close(perToken(distilled, "refKl"), [0.165122, 0.270062, 0.001, -1, 0])
  })

  it("dppo with a token outside the mask", () => {
    const three = { trainer: [-1, -2, -3], inference: [-1.1, -1.8, -3], advantages: [0.5, -0.5, 1], mask: [1, 1, 0] }
    expect(of(three).components.rl).toBeCloseTo(-0.14317, 6)
    const [first, second] = perToken({ ...three, mask: [1, 1, 1] }, "rl")
    close([first!, second!], [-0.552575, 0.409405])
  })

  it("ce over its own count, weighted, and whatever rl does on the same tokens", () => {
    const three = { trainer: [-0.1, -0.5, -0.2], mask: [1, 0, 1] }
    const none = repeat(3, 0)
    expect(of({ ...three, rl: none, ce: [1, 0, 1] }, { ce: 2 }).components.ce).toBeCloseTo(0.15, 12)
    expect(of({ ...three, rl: none, ce: [0.1, 0, 0.1] }).components.ce).toBeCloseTo(0.03, 12)
    const counts = { rl: 4, ce: 8 }
    const both = of({ ...three, ce: [1, 1, 0.1] }, counts)
    const rl = of(three, counts)
    const ce = of({ ...three, rl: none, ce: [1, 1, 0.1] }, counts)
    expect(both.components).toEqual({ rl: rl.components.rl, ce: ce.components.ce, refKl: 0 })
    for (const [i, slope] of both.gradient.entries()) expect(slope).toBe(rl.gradient[i]! + ce.gradient[i]!)
    expect(Object.keys(both.metrics)).toEqual(expect.arrayContaining(["nll", "is_masked"]))
  })

  it("rl weights of one are no weights, bit for bit; no member is exactly 0", () => {
    const plain = of(five)
    const weighted = of({ ...five, rl: repeat(5, 1) })
    expect(weighted.components).toEqual(plain.components)
    expect(weighted.gradient).toEqual(plain.gradient)
    const empty = of({ ...five, mask: repeat(5, 0), ce: repeat(5, 0) })
    expect(empty.components).toEqual({ rl: 0, ce: 0, refKl: 0 })
    expect([...empty.gradient]).toEqual(repeat(6, 0))
  })
})

/** Divergences from the reference as a user's losses. */
const divergences = {
  k1: (difference: Grad) => difference,
  k2: (difference: Grad) => difference.square().times(0.5),
  k3: (difference: Grad) => difference.negate().exp().plus(difference).minus(1)
}

const divergence = (kind: keyof typeof divergences, cap = Number.POSITIVE_INFINITY) =>
  RlLoss.make(
    RlLoss.define({
      type: kind,
      Config: Schema.Struct({}),
      loss:
        () =>
        ({ reference, trainer }) =>
          divergences[kind](trainer.minus(reference!)).clamp(Number.NEGATIVE_INFINITY, cap)
    }),
    {}
  )

describe("divergences", () => {
  it.each([-120, -800])(
    "KL-01: k3 under a cap has a finite value and no gradient where its exponential is past it (%d)",
    (gap) => {
      const capped = divergence("k3", 10)
      const { components, gradient } = of({ trainer: [gap - 1, -1.2], reference: [-1, -1] }, {}, capped)
      const usual = of({ trainer: [-1.2], reference: [-1] }, {}, divergence("k3"))
      expect(components.rl).toBeCloseTo(10 + usual.components.rl, 12)
      expect([...gradient]).toEqual([0, 0, usual.gradient[1]])
    }
  )

  it("KL-01: refKl is finite far from its reference", () => {
    const { components, gradient } = of({ trainer: [-121], inference: [-121], reference: [-1], rl: [0], refKl: [1] })
    expect(components.refKl).toBe(-120)
    expect(gradient[1]).toBe(-120)
  })

  it("KL-02: as losses, k2 follows the reverse divergence, k3 the forward one, k1 nothing, in expectation", () => {
    const p = [0.7, 0.3]
    const slope = (loss: RlLoss.RlLoss) =>
      p.reduce((sum, probability, action) => {
        const { gradient } = of({ trainer: [Math.log(probability)], reference: [Math.log(0.5)] }, {}, loss)
        return sum + probability * gradient[1]! * ((action === 0 ? 1 : 0) - 0.7)
      }, 0)
    expect(slope(divergence("k1"))).toBeCloseTo(0, 12)
    expect(slope(divergence("k2"))).toBeCloseTo(0.17793, 5)
    expect(slope(divergence("k3"))).toBeCloseTo(0.2, 12)
  })

  it("KL-01: what a cap keeps out does not come back through the exponential of Grad", () => {
    const x = Grad.leaf([-800])
    x.negate().exp().clamp(0, 10).backward([1])
    expect([...x.gradient]).toEqual([0])
  })
})
