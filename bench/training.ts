/**
 * Tokens per second of a training step on the policy of reverse-text: forward, loss, backward and optimiser over one packed
 * batch, for the built-in loss in its kernel and for the same loss as a user's would be computed, outside of it.
 *
 *     npx vite-node bench/training.ts [rounds]
 */

import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as MicroBatch from "../src/MicroBatch.ts"
import type { Engine } from "../src/Trainer/Engine.ts"
import Dppo from "../src/Trainer/losses/Dppo.ts"
import * as PackedLossNative from "../src/Trainer/PackedLossNative.ts"
import * as RlLoss from "../src/Trainer/RlLoss.ts"
import { Trainer } from "../src/Trainer/Trainer.ts"
import * as TrainerNative from "../src/Trainer/TrainerNative.ts"
import type { TrainingSample } from "../src/TrainingSample.ts"
import { table } from "./numbers.ts"
import { ids, pace, row, titles, withEngine } from "./policy.ts"

/** A rollout of reverse-text: half of it prompt, half of it sampled. */
const sample = (length: number, seed: number, vocabulary: number): TrainingSample => ({
  rollout: `r${seed}`,
  source: "bench",
  policyVersion: 0,
  tokenIds: ids(length, seed, vocabulary),
  mask: Uint8Array.from({ length }, (_, i) => (i >= length / 2 ? 1 : 0)),
  logprobs: new Float32Array(length).fill(-3),
  temperatures: new Float32Array(length).fill(1),
  advantages: new Float32Array(length).fill(seed % 2 === 0 ? 1 : -1),
  referenceLogprobs: undefined,
  rlWeights: undefined,
  ceWeights: undefined,
  refKlWeights: undefined
})

const builtIn = RlLoss.make(Dppo, {})
const losses = { "step, native loss": builtIn, "step, loss in TypeScript": { ...builtIn, native: undefined } }

const step = (engine: Engine, loss: RlLoss.RlLoss, rounds: number) =>
  Effect.gen(function* () {
    const trainer = yield* Trainer
    const samples = Array.from({ length: 128 }, (_, i) => sample(48 + (i % 33), i, engine.config.vocabSize))
    const packed = MicroBatch.pack(samples, { maxSequenceLength: 2048 })
    return yield* pace(Effect.as(trainer.step(packed, 1), packed.tokens), rounds)
  }).pipe(
    Effect.provide(
      TrainerNative.layer(engine, {
        loss,
        learningRate: 0,
        schedule: { type: "constant" },
        steps: 1,
        ...{ beta1: 0.9, beta2: 0.999, eps: 1e-8, weightDecay: 0, maxGradNorm: 1 }
      }).pipe(Layer.provide(PackedLossNative.layer(engine)), Layer.provide(NodeFileSystem.layer))
    )
  )

const rounds = Number(process.argv[2] ?? 7)

const program = Effect.gen(function* () {
  const rows: Array<ReadonlyArray<string>> = []
  for (const [name, loss] of Object.entries(losses)) {
    for (const threads of [1, 2]) {
      const found = yield* withEngine({ threads, trainable: true }, (engine) => step(engine, loss, rounds))
      rows.push(row(name, threads, found))
    }
  }
  yield* Console.log(table(titles, rows))
})

await Effect.runPromise(program)
