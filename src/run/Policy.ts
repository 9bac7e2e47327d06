/** A model directory opened for a run: its engines, its tokenizer and the renderer that fits them, checked against each other. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Record from "effect/Record"
import * as String from "effect/String"
import type { LoraConfig, RendererSpec, TrainConfig } from "../Config.ts"
import * as InferenceNative from "../inference/Native.ts"
import * as Resolve from "../renderers/Resolve.ts"
import { Tokenizer } from "../Tokenizer.ts"
import * as Engine from "../Trainer/Engine.ts"
import * as Lora from "../Trainer/Lora.ts"
import * as ModelConfig from "../Trainer/ModelConfig.ts"
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

/** The adapter that is the policy, on a model that stays as it is. @category model */
export interface Adapter {
  readonly lora: LoraConfig
  /** of its first values, and of the masks of dropout */
  readonly seed: number
  /** directory that it goes on from */
  readonly saved: string | undefined
}

const peftOf = (lora: LoraConfig) => ({ ...lora, rankStabilised: false })

/** The policy: the model itself, or an adapter on it. */
const policyOn = (engine: Engine.Engine, adapter: Adapter | undefined, trainable: boolean) =>
  Effect.gen(function* () {
    if (adapter === undefined) return engine
    const { lora, saved, seed } = adapter
    const policy = yield* Lora.attach(engine, { ...peftOf(lora), seed, trainable })
    if (saved !== undefined) yield* policy.load(saved)
    return policy
  })

/** What a trainer of the model in `directory` takes, for micro-batches of up to `tokens` tokens. @category getters */
export const memory = (
  directory: string,
  options: Omit<EngineOptions, "randomInit" | "memoryLimit"> & {
    readonly tokens: number
    readonly lora?: LoraConfig | undefined
  }
) =>
  Effect.gen(function* () {
    const { lora, ...planned } = options
    if (lora === undefined) return yield* Engine.memoryPlan(directory, { ...planned, trainable: true })
    const { config } = yield* ModelConfig.read(directory)
    return yield* Engine.memoryPlan(directory, {
      ...planned,
      trainable: false,
      lora: Lora.planned(config.layers, peftOf(lora))
    })
  })

/** Text in and out for the model in `directory`, by the renderer that is named or the one that fits. @category layers */
export const layerText = (directory: string, { name, ...options }: RendererSpec = { name: "auto" }) =>
  Layer.provideMerge(
    Resolve.layerFromDirectory(directory, name, Record.mapKeys(options, String.snakeToCamel)),
    HuggingFace.layerFromDirectory(directory)
  )

/** Fails when the tokenizer has ids that the model does not know. */
const checked = (engine: Engine.Engine) =>
  Effect.flatMap(Tokenizer, ({ vocabularySize }) => engine.checkVocabulary(vocabularySize))

/** The policy as it is in `directory`, to sample from. @category layers */
export const layerInference = (
  directory: string,
  options: EngineOptions & {
    readonly version?: number | undefined
    readonly maxSequenceLength?: number | undefined
    readonly adapter?: Adapter | undefined
    /** directory of a PEFT adapter on the model, in the place of `adapter` */
    readonly saved?: string | undefined
  }
) =>
  Layer.unwrapScoped(
    Effect.gen(function* () {
      const { dtype, headDtype, threads } = options
      const engine = yield* Engine.open(directory, { threads, dtype, headDtype, trainable: false })
      yield* checked(engine)
      const { adapter, saved } = options
      const policy =
        saved === undefined
          ? yield* policyOn(engine, adapter, false)
          : yield* Lora.open(engine, saved, { trainable: false })
      return InferenceNative.layer(policy, options)
    })
  )

/** The policy as it is in `directory`, to train; `optimizer` goes on with the moments that were saved there. @category layers */
export const layerTrainer = (
  directory: string,
  options: EngineOptions & {
    readonly training: Training.Options
    readonly optimizer: "fresh" | "saved"
    readonly adapter?: Adapter | undefined
    /** of the longest micro-batch; what it takes is held against `memoryLimit` before anything is allocated */
    readonly maxTokens?: number | undefined
  }
) =>
  Layer.unwrapScoped(
    Effect.gen(function* () {
      const { adapter, maxTokens, optimizer, training, ...engineOptions } = options
      const { memoryLimit, randomInit: _, ...planned } = engineOptions
      if (maxTokens !== undefined && memoryLimit !== undefined) {
        const plan = yield* memory(directory, { ...planned, tokens: maxTokens, lora: adapter?.lora })
        yield* Engine.requireMemory(plan, { memoryLimit, tokens: maxTokens })
      }
      const engine = yield* Engine.open(directory, { ...engineOptions, trainable: adapter === undefined })
      yield* checked(engine)
      const policy = yield* policyOn(engine, adapter, true)
      if (optimizer === "saved") yield* OptimizerState.load(policy, adapter?.saved ?? directory)
      return Layer.provide(TrainerNative.layer(policy, training), PackedLossNative.layer(policy))
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
