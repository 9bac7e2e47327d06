/** The training step that benchmarks time: a Llama, on packed sequences, by cross-entropy. */
import * as Effect from "effect/Effect"
import type * as Engine from "../src/Trainer/Engine.ts"
import type { NativeBatch } from "../src/Trainer/Native.ts"
import { ids } from "./policy.ts"

export interface Shape {
  readonly hidden: number
  readonly layers: number
  readonly heads: number
  readonly intermediate: number
  readonly vocabulary: number
  readonly sequences: number
  readonly length: number
}

/** As a config.json has it. */
export const configOf = ({ heads, hidden, intermediate, layers, length, vocabulary }: Shape) => ({
  ...{ model_type: "llama", hidden_size: hidden, intermediate_size: intermediate, hidden_act: "silu" },
  ...{ num_hidden_layers: layers, num_attention_heads: heads, num_key_value_heads: heads },
  ...{ vocab_size: vocabulary, max_position_embeddings: length, tie_word_embeddings: false },
  ...{ rms_norm_eps: 1e-6, rope_theta: 10_000 }
})

const optimizer = { learningRate: 1e-5, beta1: 0.9, beta2: 0.999, eps: 1e-8, weightDecay: 0.01, maxGradNorm: 1 }

/** Forward, loss, backward and AdamW. Every token but the first of each sequence is trained on. */
export const stepOf = (engine: Engine.Engine, { length, sequences, vocabulary }: Shape) => {
  const tokens = sequences * length
  const batch: NativeBatch = {
    tokenIds: ids(tokens, 1, vocabulary),
    sequenceLengths: new Int32Array(sequences).fill(length),
    temperatures: new Float32Array(tokens).fill(1),
    mask: new Uint8Array(tokens),
    logprobs: new Float32Array(tokens),
    advantages: new Float32Array(tokens),
    referenceLogprobs: undefined,
    rlWeights: undefined,
    ceWeights: new Float32Array(tokens).fill(1),
    refKlWeights: undefined
  }
  const counts = { rl: 0, ce: tokens - sequences, refKl: 0 }
  return Effect.zipRight(
    engine.forwardBackward(batch, counts, { kernel: "importance_sampling" }),
    engine.optimizerStep(optimizer)
  )
}

/** Operations of the matrix products of each part, forward; the backward pass has twice as many. */
export const operationsOf = ({ hidden, intermediate, layers, length, sequences, vocabulary }: Shape) => {
  const tokens = sequences * length
  const pairs = (sequences * length * (length + 1)) / 2
  return {
    projections: layers * 2 * tokens * 3 * hidden * hidden,
    attention: layers * 4 * pairs * hidden,
    feedForward: layers * 2 * tokens * hidden * (hidden + 3 * intermediate),
    head: 2 * (tokens - sequences) * hidden * vocabulary
  }
}
