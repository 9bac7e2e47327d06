import { describe, expect, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as MicroBatch from "../../src/MicroBatch.ts"
import * as PackedLoss from "../../src/Trainer/PackedLoss.ts"
import * as RlLoss from "../../src/Trainer/RlLoss.ts"
import * as StepMetrics from "../../src/Trainer/StepMetrics.ts"
import type { TrainingSample } from "../../src/TrainingSample.ts"

const sample: TrainingSample = {
  rollout: "math/0/1",
  source: "math",
  policyVersion: 0,
  tokenIds: Int32Array.of(1, 2, 3),
  mask: Uint8Array.of(0, 1, 1),
  logprobs: new Float32Array(3).fill(-1),
  temperatures: new Float32Array(3).fill(1),
  advantages: new Float32Array(3).fill(1),
  referenceLogprobs: undefined,
  rlWeights: undefined,
  ceWeights: undefined,
  refKlWeights: undefined
}

const breaks = (words: string) => () => () => {
  throw new Error(words)
}
const lossWith = (parts: Partial<RlLoss.Definition<{}>>) =>
  RlLoss.make(
    RlLoss.define({
      type: "mine",
      Config: Schema.Struct({}),
      loss:
        () =>
        ({ trainer }) =>
          trainer,
      ...parts
    }),
    {}
  )

describe("a loss of the user's own that throws", () => {
  it.each([
    ["loss", "no clip"],
    ["masked", "no mask"],
    ["metrics", "no metric"]
  ] as const)("in its %s is an error that names the loss and the rollout", (part, words) => {
    const loss = lossWith({ [part]: breaks(words) })
    const result = PackedLoss.ofSample(sample, sample.logprobs, { rl: 2, ce: 0, refKl: 0 }, loss)
    expect(Either.getOrThrow(Either.flip(result)).message).toBe(`loss mine, rollout math/0/1: ${words}`)
  })

  it("in its mask, when a step is measured, is the same error", () => {
    const { microBatches } = MicroBatch.pack([sample], { maxSequenceLength: 8 })
    const report = { rl: 0, ce: 0, refKl: 0, logprobs: sample.logprobs, entropy: new Float32Array(3) }
    const loss = lossWith({ masked: breaks("no mask") })
    const result = StepMetrics.add(StepMetrics.empty(), microBatches[0]![0]!, loss, report)
    expect(Either.getOrThrow(Either.flip(result)).message).toBe("loss mine, rollout math/0/1: no mask")
  })
})
