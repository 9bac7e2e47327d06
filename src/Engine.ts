/**
 * The embedded engine at two altitudes: as one Layer, everything that a program needs to train a policy in its own process;
 * and as a bare handle on a model's weights, for a program that writes the loop itself.
 */

import type * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Checkpoint from "./Checkpoint.ts"
import * as OpenAi from "./inference/OpenAi.ts"
import { cores } from "./internal/cores.ts"
import * as Journal from "./Journal.ts"
import * as Permits from "./Permits.ts"
import * as Policy from "./run/Policy.ts"
import * as State from "./State.ts"
import * as Native from "./Trainer/Engine.ts"
import * as Lora from "./Trainer/Lora.ts"
import Dppo from "./Trainer/losses/Dppo.ts"
import type { ModelError } from "./Trainer/ModelError.ts"
import type { NativeError } from "./Trainer/NativeError.ts"
import { projections } from "./Trainer/Projections.ts"
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
  const { maxInflight = 128, maxSequenceLength, model, threads = cores(), training } = options
  return Layer.mergeAll(
    Policy.layerInference(model, { threads, maxSequenceLength }),
    Policy.layerTrainer(model, { threads, training: { ...defaults, ...training }, optimizer: "fresh" }),
    Checkpoint.layerNone,
    Journal.layerNone,
    Permits.layer(maxInflight),
    State.layer(),
    OpenAi.layer()
  ).pipe(Layer.provideMerge(Policy.layerText(model)), Layer.provide(NodeContext.layer))
}

/**
 * A model in native memory: generates, scores, and, when it is trainable, goes forward and backward and steps its optimiser.
 * Its jobs run one after the other on a thread of its own. Two handles exchange weights by `snapshot` and `adopt`.
 *
 * @category model
 */
export interface Handle extends Omit<Native.Engine, "load" | "save" | "adapter"> {
  /** Takes the weights of another directory of the same architecture; for an adapter, the values of another PEFT directory. */
  readonly load: (directory: string) => Effect.Effect<void, ModelError | NativeError>
  /** Writes a Hugging Face directory; for an adapter, PEFT's files. Fails on a weight that is not finite. */
  readonly save: (directory: string) => Effect.Effect<void, ModelError | NativeError>
  /**
   * A new low-rank adapter on this model until the scope closes, which computes as the model does until it is trained. What
   * it is asked is asked of the model with it; its `tensors`, gradients, moments and steps are its own. Any number of them,
   * of any ranks, live on one model, whose weights none of them changes.
   */
  readonly addAdapter: (options?: AdapterOptions) => Effect.Effect<Handle, ModelError | NativeError, Scope.Scope>
  /** The adapter in a PEFT directory; `seed` is that of dropout's masks (0). Fails on whatever does not fit the model. */
  readonly openAdapter: (
    directory: string,
    options?: { readonly trainable?: boolean | undefined; readonly seed?: number | undefined }
  ) => Effect.Effect<Handle, ModelError | NativeError, Scope.Scope>
  /** Makes the adapter in a PEFT directory part of the weights: W + s·B·A. */
  readonly mergeAdapter: (directory: string) => Effect.Effect<void, ModelError | NativeError>
}

/** What a new adapter is; the defaults are those of `[trainer.model.lora]`. @category model */
export interface AdapterOptions {
  /** columns of B, rows of A (16) */
  readonly rank?: number | undefined
  /** what it adds is multiplied by alpha / rank (32) */
  readonly alpha?: number | undefined
  /** multiplies by alpha / √rank instead (false) */
  readonly rankStabilised?: boolean | undefined
  /** share of its inputs that a training pass leaves out (0) */
  readonly dropout?: number | undefined
  /** last parts of the names of matrices (all seven of each layer) */
  readonly targetModules?: ReadonlyArray<string> | undefined
  /** of its first values and of the masks of dropout (0) */
  readonly seed?: number | undefined
  /** keeps gradients and moments (true) */
  readonly trainable?: boolean | undefined
}

/**
 * Opens a Hugging Face directory without any service around it; the memory is given back when the scope closes.
 *
 * @category constructors
 */
export const open = (
  directory: string,
  options: {
    /** all cores unless given */
    readonly threads?: number | undefined
    /** keeps gradients and the optimiser's moments (false) */
    readonly trainable?: boolean | undefined
  } = {}
): Effect.Effect<Handle, ModelError | NativeError, Scope.Scope> => {
  const { threads = cores(), trainable = false } = options
  return onDisk(Effect.map(Native.open(directory, { threads, trainable }), handleOf))
}

const onDisk = <A, E, R>(self: Effect.Effect<A, E, R | FileSystem.FileSystem>) =>
  Effect.provide(self, NodeContext.layer)

const handleOf = (engine: Native.Engine): Handle => ({
  ...engine,
  load: (from) => onDisk(engine.load(from)),
  save: (to) => onDisk(engine.save(to)),
  addAdapter: (options = {}) => {
    const { alpha = 32, dropout = 0, rank = 16, rankStabilised = false, seed = 0, trainable = true } = options
    const { targetModules = projections } = options
    const adapter = { rank, alpha, dropout, rankStabilised, targetModules, seed, trainable }
    return Effect.map(Lora.attach(engine, adapter), handleOf)
  },
  openAdapter: (from, { seed, trainable = false } = {}) =>
    onDisk(Effect.map(Lora.open(engine, from, { seed, trainable }), handleOf)),
  mergeAdapter: (from) => onDisk(Lora.merge(engine, from))
})
