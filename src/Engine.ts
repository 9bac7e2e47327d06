/** The embedded engine as one Layer: everything that a program needs to train a policy in its own process. */

import * as os from "node:os"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Layer from "effect/Layer"
import * as Checkpoint from "./Checkpoint.ts"
import * as Endpoints from "./Endpoints.ts"
import * as Journal from "./Journal.ts"
import * as Permits from "./Permits.ts"
import * as Policy from "./run/Policy.ts"
import * as State from "./State.ts"
import Dppo from "./Trainer/losses/Dppo.ts"
import * as RlLoss from "./Trainer/RlLoss.ts"
import type * as Training from "./Trainer/Training.ts"

/** Which model is trained, and how much of the machine it may use. @category model */
export interface Options {
  /** Hugging Face directory: config.json, safetensors, tokenizer */
  readonly model: string
  /** of each engine, the training and the sampling one (all cores) */
  readonly threads?: number | undefined
  /** rollouts that run at the same time (128) */
  readonly maxInflight?: number | undefined
  /** longest prompt plus completion, in tokens (as far as the model's positions go) */
  readonly maxSequenceLength?: number | undefined
  /** loss and optimiser; DPPO and AdamW at a constant 10⁻⁶ unless given */
  readonly training?: Partial<Training.Options> | undefined
}

const defaults: Training.Options = {
  loss: RlLoss.make(Dppo, {}),
  learningRate: 1e-6,
  schedule: { type: "constant" },
  steps: Number.MAX_SAFE_INTEGER,
  beta1: 0.9,
  beta2: 0.999,
  eps: 1e-8,
  weightDecay: 0.01,
  maxGradNorm: 1
}

/**
 * Trains and samples on this machine's processor. Keeps nothing on disk: a program that wants a journal and checkpoints
 * merges its own layers over these. Fails with `ModelError`, `TokenizerError`, `RendererError` or `NativeError`.
 *
 * @category layers
 */
export const layerCpu = (options: Options) => {
  const { maxInflight = 128, maxSequenceLength, model, threads = os.availableParallelism(), training } = options
  return Layer.mergeAll(
    Policy.layerInference(model, { threads, maxSequenceLength }),
    Policy.layerTrainer(model, { threads, training: { ...defaults, ...training }, optimizer: "fresh" }),
    Checkpoint.layerNone,
    Journal.layerNone,
    Permits.layer(maxInflight),
    State.layer(),
    Endpoints.layerNone
  ).pipe(Layer.provideMerge(Policy.layerText(model)), Layer.provide(NodeContext.layer))
}
