import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { describe, expect, it } from "vitest"
import Dppo from "../../src/Trainer/losses/Dppo.ts"
import Ipo from "../../src/Trainer/losses/Ipo.ts"
import * as RlLoss from "../../src/Trainer/RlLoss.ts"

const members = (
  trainer: ReadonlyArray<number>,
  inference: ReadonlyArray<number>,
  advantages: ReadonlyArray<number>
) => ({
  trainer: Float64Array.from(trainer),
  inference: Float64Array.from(inference),
  advantages: Float64Array.from(advantages),
  reference: undefined,
  weights: new Float64Array(trainer.length).fill(1)
})

describe("configuration", () => {
  it("defaults are those of the field, and each loss names its native kernel", () => {
    expect(RlLoss.make(Dppo, {}).native).toEqual({
      kernel: "dppo",
      maskLow: 0.2,
      maskHigh: 0.2,
      advantageTau: 1,
      klTau: 1e-3
    })
    const ipo = Either.getOrThrow(Ipo.decode({ ipo_threshold: 0.02 }))
    expect(ipo).toMatchObject({ type: "ipo", native: { kernel: "ipo", threshold: 0.02, advantageTau: 1, klTau: 1e-3 } })
  })

  it("a loss that declares no keys takes none", () => {
    const plain = RlLoss.define({
      type: "plain",
      loss:
        () =>
        ({ advantages, trainer }) =>
          trainer.times(advantages).negate()
    })
    expect(Either.getOrThrow(plain.decode({})).type).toBe("plain")
    expect(Either.getOrThrow(Either.flip(plain.decode({ cap: 4 }))).message).toContain(
      "is unexpected; it takes no keys"
    )
  })

  it("unknown keys and values out of range are refused by name", () => {
    const message = (config: unknown) => Either.getOrThrow(Either.flip(Dppo.decode(config))).message
    expect(message({ dppo_mask_hihg: 0.3 })).toContain("dppo_mask_hihg")
    expect(message({ kl_tau: -1 })).toContain("kl_tau")
    expect(message({ adv_tau: Number.NaN })).toContain("adv_tau")
  })
})

describe("a loss of the user's own", () => {
  const seen = members([-0.9, -0.2, -1.6], [-1, -0.25, -1.5], [1, -0.5, 2])

  const perSequence = RlLoss.define({
    type: "sequence_ratio",
    Config: Schema.Struct({ clip: Schema.optionalWith(Schema.Number, { default: () => 0.5 }) }),
    loss:
      ({ clip }) =>
      ({ advantages, inference, trainer }) => {
        const ratio = trainer.minus(inference).mean().exp()
        return ratio
          .times(advantages)
          .min(ratio.clamp(1 - clip, 1 + clip).times(advantages))
          .negate()
      }
  })

  it("may couple the members of a sequence", () => {
    const loss = RlLoss.make(perSequence, { clip: 0.4 })
    const value = (trainer: ReadonlyArray<number>) =>
      Either.getOrThrow(RlLoss.evaluate(loss, "r", { ...seen, trainer: Float64Array.from(trainer) }))
    const { gradient } = value([...seen.trainer])
    for (const i of [0, 1, 2]) {
      const at = (h: number) => value([...seen.trainer].map((x, j) => (j === i ? x + h : x))).total
      expect(gradient[i]).toBeCloseTo((at(1e-6) - at(-1e-6)) / 2e-6, 7)
    }
  })

  it("may return its gradient by hand, the same as the one it would have from Grad", () => {
    const byHand = RlLoss.define({
      type: "by_hand",
      Config: Schema.Struct({}),
      loss:
        () =>
        ({ advantages, inference, trainer, weights }) => {
          const loss = trainer.value.map((t, i) => -advantages[i]! * Math.exp(t - inference[i]!))
          return { loss, gradient: loss.map((value, i) => weights[i]! * value) }
        }
    })
    const weighted = { ...seen, weights: Float64Array.of(1, 0.5, 2) }
    const wide = RlLoss.make(Dppo, { dppo_mask_low: 1, dppo_mask_high: 1, kl_tau: 0 })
    const a = Either.getOrThrow(RlLoss.evaluate(RlLoss.make(byHand, {}), "r", weighted))
    const b = Either.getOrThrow(RlLoss.evaluate(wide, "r", weighted))
    expect(a.total).toBeCloseTo(b.total, 12)
    for (const i of [0, 1, 2]) expect(a.gradient[i]).toBeCloseTo(b.gradient[i]!, 12)
  })

  it("that throws becomes an error with its name and the rollout's", () => {
    const broken = RlLoss.define({
      type: "broken",
      Config: Schema.Struct({}),
      loss: () => () => {
        throw new Error("no table for this vocabulary")
      }
    })
    const error = Either.getOrThrow(Either.flip(RlLoss.evaluate(RlLoss.make(broken, {}), "r7", seen)))
    expect(error).toBeInstanceOf(RlLoss.LossError)
    expect(error.message).toBe("loss broken, rollout r7: no table for this vocabulary")
  })
})
