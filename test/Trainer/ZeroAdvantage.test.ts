import { createRequire } from "node:module"
import { fileURLToPath } from "node:url"
import * as Either from "effect/Either"
import { describe, expect, it } from "vitest"
import Dppo from "../../src/Trainer/losses/Dppo.ts"
import Ipo from "../../src/Trainer/losses/Ipo.ts"
import type { NativeAddon } from "../../src/Trainer/Native.ts"
import * as PackedLoss from "../../src/Trainer/PackedLoss.ts"
import * as RlLoss from "../../src/Trainer/RlLoss.ts"

const addon = createRequire(import.meta.url)(
  fileURLToPath(new URL("../../native/build/primerl.node", import.meta.url))
) as NativeAddon

describe.each([
  ["dppo", RlLoss.make(Dppo, {}), 0],
  ["dppo without a policy term", RlLoss.make(Dppo, { adv_tau: 0 }), -1],
  // Below the threshold, so that the policy term is not masked.
  ["ipo", RlLoss.make(Ipo, { ipo_threshold: 1 }), 0]
] as const)("%s", (_, loss, advantage) => {
  const trainer = [0, -1, -1]
  const inference = [0, -800, -1.1]
  const counts = { rl: 2, ce: 0, refKl: 0 }

  it("NUM-01: no policy term, so none that overflows: formula and kernel", () => {
    const advantages = [0, advantage, 1]
    const formula = Either.getOrThrow(
      PackedLoss.ofSample(
        {
          rollout: "r",
          mask: [0, 1, 1],
          logprobs: inference,
          advantages,
          referenceLogprobs: undefined,
          rlWeights: undefined,
          ceWeights: undefined,
          refKlWeights: undefined
        },
        trainer,
        counts,
        loss
      )
    )
    expect(Number.isFinite(formula.components.rl)).toBe(true)
    const native = addon.packedLoss(
      Float32Array.from(trainer),
      {
        tokenIds: new Int32Array(3),
        sequenceLengths: Int32Array.of(3),
        temperatures: new Float32Array(3).fill(1),
        mask: Uint8Array.of(0, 1, 1),
        logprobs: Float32Array.from(inference),
        advantages: Float32Array.from(advantages),
        referenceLogprobs: undefined,
        rlWeights: undefined,
        ceWeights: undefined,
        refKlWeights: undefined
      },
      counts,
      loss.native!
    )
    expect(native.rl / formula.components.rl).toBeCloseTo(1, 5)
    for (const [i, slope] of formula.gradient.entries()) expect(native.gradient[i]).toBeCloseTo(slope, 4)
  })
})
