/** A model directory opened for a run: its engines, its tokenizer and the renderer that fits them, checked against each other. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { TrainConfig } from "../Config.ts"
import * as InferenceNative from "../inference/Native.ts"
import * as Resolve from "../renderers/Resolve.ts"
import { Tokenizer } from "../Tokenizer.ts"
import * as Engine from "../Trainer/Engine.ts"
import * as OptimizerState from "../Trainer/OptimizerState.ts"
import * as PackedLossNative from "../Trainer/PackedLossNative.ts"
import * as TrainerNative from "../Trainer/TrainerNative.ts"
import type * as Training from "../Trainer/Training.ts"
import * as HuggingFace from "../tokenizer/HuggingFace.ts"

/** @category model */
export interface EngineOptions
  extends Pick<
    Engine.Options,
    "threads" | "device" | "dtype" | "headDtype" | "activationCheckpointing" | "memoryLimit"
  > {
  readonly randomInit?: { readonly seed: number; readonly std: number } | undefined
}

/** Text in and out for the model in `directory`. @category layers */
export const layerText = (directory: string) =>
  Layer.provideMerge(Resolve.layerFromDirectory(directory), HuggingFace.layerFromDirectory(directory))

/** Fails when the tokenizer has ids that the model does not know. */
const checked = (engine: Engine.Engine) =>
  Effect.flatMap(Tokenizer, ({ vocabularySize }) => engine.checkVocabulary(vocabularySize))

/** The policy as it is in `directory`, to sample from. @category layers */
export const layerInference = (
  directory: string,
  options: EngineOptions & { readonly version?: number | undefined; readonly maxSequenceLength?: number | undefined }
) =>
  Layer.unwrapScoped(
    Effect.gen(function* () {
      const { dtype, headDtype, threads } = options
      const engine = yield* Engine.open(directory, { threads, dtype, headDtype, trainable: false })
      yield* checked(engine)
      return InferenceNative.layer(engine, options)
    })
  )

/** The policy as it is in `directory`, to train; `optimizer` goes on with the moments that were saved there. @category layers */
export const layerTrainer = (
  directory: string,
  options: EngineOptions & {
    readonly training: Training.Options
    readonly optimizer: "fresh" | "saved"
    /** of the longest micro-batch; what it takes is held against `memoryLimit` before anything is allocated */
    readonly maxTokens?: number | undefined
  }
) =>
  Layer.unwrapScoped(
    Effect.gen(function* () {
      const { maxTokens, optimizer, training, ...engineOptions } = options
      const opening = { ...engineOptions, trainable: true }
      if (maxTokens !== undefined) yield* Engine.requireMemory(directory, { ...opening, tokens: maxTokens })
      const engine = yield* Engine.open(directory, opening)
      yield* checked(engine)
      if (optimizer === "saved") yield* OptimizerState.load(engine, directory)
      return Layer.provide(TrainerNative.layer(engine, training), PackedLossNative.layer(engine))
    })
  )

/** The engine as a config says it. @category conversions */
export const engine = (of: TrainConfig["trainer"]["engine"], cores: number): EngineOptions => ({
  threads: of.threads ?? cores,
  device: of.device,
  dtype: of.dtype,
  headDtype: of.headDtype,
  activationCheckpointing: of.activationCheckpointing,
  memoryLimit: of.maxMemoryGib === undefined ? undefined : Math.max(1, Math.floor(of.maxMemoryGib * 2 ** 30))
})

/** The optimiser as a config says it. @category conversions */
export const training = (of: {
  readonly optim: TrainConfig["trainer"]["optim"]
  readonly scheduler: TrainConfig["trainer"]["scheduler"]
  readonly loss: Training.Options["loss"]
  readonly steps: number
}): Training.Options => ({
  loss: of.loss,
  learningRate: of.optim.lr,
  schedule: of.scheduler,
  steps: of.steps,
  beta1: of.optim.betas1,
  beta2: of.optim.betas2,
  eps: of.optim.eps,
  weightDecay: of.optim.weightDecay,
  maxGradNorm: Number.isFinite(of.optim.maxNorm) ? of.optim.maxNorm : undefined
})
