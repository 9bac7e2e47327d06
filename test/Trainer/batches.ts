/** A batch of one sequence for a tiny engine, and how tests train on it. */
import type { NativeBatch } from "../../src/Trainer/Native.ts"

export const ids = (...values: ReadonlyArray<number>) => Int32Array.from(values)
export const ones = (length: number) => new Float32Array(length).fill(1)

export const batch = (more: Partial<NativeBatch> = {}): NativeBatch => ({
  tokenIds: ids(1, 2, 3, 4, 5, 6),
  sequenceLengths: ids(6),
  temperatures: ones(6),
  mask: Uint8Array.of(0, 0, 1, 1, 1, 1),
  logprobs: new Float32Array(6).fill(-3),
  advantages: ones(6),
  referenceLogprobs: undefined,
  rlWeights: undefined,
  ceWeights: undefined,
  refKlWeights: undefined,
  ...more
})
export const counts = { rl: 4, ce: 0, refKl: 0 }
export const loss = { kernel: "dppo", maskLow: 0.2, maskHigh: 0.2, advantageTau: 1, klTau: 1e-3 } as const
export const adamw = { learningRate: 1e-2, beta1: 0.9, beta2: 0.999, eps: 1e-8, weightDecay: 0, maxGradNorm: 1 }
