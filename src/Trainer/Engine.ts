/**
 * A model in native memory, for as long as a scope is open. Its jobs run on a thread of their own in the order in which
 * they were asked for; interrupting one stops it in native code, and returns once it has stopped.
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { ComponentCounts } from "../MicroBatch.ts"
import * as Addon from "./Addon.ts"
import * as Job from "./Job.ts"
import * as ModelConfig from "./ModelConfig.ts"
import { ModelError } from "./ModelError.ts"
import * as ModelFiles from "./ModelFiles.ts"
import type * as Native from "./Native.ts"
import { fromUnknown, NativeError } from "./NativeError.ts"

/** @category model */
export interface Options {
  readonly threads: number
  /** keeps gradients and optimiser moments; `forward`, `backward` and `optimizerStep` need it */
  readonly trainable: boolean
  /** the best that the processor has, unless named */
  readonly isa?: Native.Isa | undefined
  /** what matrix products round their operands to; "float32" unless named */
  readonly dtype?: Native.Precision | undefined
  /** the same for the output projection alone, where trainer and sampler must agree most; `dtype` unless named */
  readonly headDtype?: Native.Precision | undefined
  /** keeps only the inputs of layers for the backward pass and computes the rest again: less memory, more time */
  readonly activationCheckpointing?: boolean | undefined
  /** most bytes that weights, gradients, moments and a batch may take; a batch that needs more fails before it begins */
  readonly memoryLimit?: number | undefined
  /**
   * Most bytes of keys and values that generations hold, and that are kept for later ones with a common beginning; one
   * gibibyte unless given, or one sequence of all positions where that is more. What finds no room waits.
   */
  readonly kvBytes?: number | undefined
  /** where passes and steps run; generations run on the processor. "cpu" unless named */
  readonly device?: Native.Device | undefined
  /** starts from random weights instead of reading them: normal(0, std) for matrices */
  readonly randomInit?: { readonly seed: number; readonly std: number } | undefined
}

/** Log-probability and entropy (nats) of every token; 0 where it was not asked for. @category model */
export interface Scores {
  readonly logprobs: Float32Array
  readonly entropy: Float32Array
}

/** What a generation yields as it runs. @category model */
export type GenerationPart =
  | { readonly _tag: "Tokens"; readonly tokenIds: Int32Array; readonly logprobs: Float32Array }
  | ({ readonly _tag: "End" } & Pick<Native.GenerateResult, "finishReason" | "swaps" | "weightsVersion">)

/** @category model */
export interface Engine {
  /** where the model was read from */
  readonly directory: string
  readonly config: Native.ModelConfig
  readonly trainable: boolean
  /** every parameter, in the order of the network */
  readonly tensors: ReadonlyArray<Native.Tensor>
  /** Log-probabilities and entropies of every token but the first of each sequence. */
  readonly score: (
    tokenIds: Int32Array,
    sequenceLengths: Int32Array,
    temperatures: Float32Array
  ) => Effect.Effect<Scores, NativeError>
  /** `onTokens` hears of tokens as they are drawn; without it the result is the same. */
  readonly generate: (
    request: Native.GenerateRequest,
    options?: { readonly onTokens?: Native.OnTokens | undefined } | undefined
  ) => Effect.Effect<Native.GenerateResult, NativeError>
  /** The tokens of a generation as they are drawn, then one part that says how it ended. Interruption cancels it. */
  readonly stream: (request: Native.GenerateRequest) => Stream.Stream<GenerationPart, NativeError>
  /** Forward, loss and backward of one micro-batch (a `MicroBatch` is one); adds to the gradients. */
  readonly forwardBackward: (
    batch: Native.NativeBatch,
    counts: ComponentCounts,
    loss: Native.NativeLoss
  ) => Effect.Effect<Native.NativeLossReport, NativeError>
  /** Forward of a micro-batch whose loss is computed elsewhere, for one `backward`. */
  readonly forward: (batch: Native.NativeBatch) => Effect.Effect<Scores, NativeError>
  /** Adds the gradients for `gradient[t]` = d loss / d logprob of token t of the last `forward`. */
  readonly backward: (gradient: Float32Array) => Effect.Effect<void, NativeError>
  /** Needed before the next step when a backward pass was interrupted: its gradients are incomplete. */
  readonly zeroGradients: Effect.Effect<void, NativeError>
  /** Clips, steps and zeroes the gradients; a gradient or step size that is not finite changes no weight. */
  readonly optimizerStep: (step: Native.OptimizerStep) => Effect.Effect<Native.OptimizerReport, NativeError>
  readonly optimizerSteps: Effect.Effect<number, NativeError>
  readonly setOptimizerSteps: (steps: number) => Effect.Effect<void, NativeError>
  /** The weights as they are now. Costs nothing until the weights change. */
  readonly snapshot: Effect.Effect<Native.WeightSnapshot, NativeError>
  /**
   * Later jobs run on these weights; generations that were asked for before finish on those that they began with, unless
   * `running` is "swap". The result is the number by which generations name these weights (`weightsVersion`).
   */
  readonly adopt: (
    snapshot: Native.WeightSnapshot,
    running?: Native.Running | undefined
  ) => Effect.Effect<number, NativeError>
  /** What generations hold and have done. */
  readonly generationStats: Effect.Effect<Native.GenerationStats, NativeError>
  readonly readTensor: (name: string) => Effect.Effect<Float32Array, NativeError>
  readonly writeTensor: (name: string, values: Float32Array) => Effect.Effect<void, NativeError>
  readonly readGradient: (name: string) => Effect.Effect<Float32Array, NativeError>
  readonly readMoments: (name: string) => Effect.Effect<Moments, NativeError>
  readonly writeMoments: (name: string, moments: Moments) => Effect.Effect<void, NativeError>
  /** Takes the weights of another directory of the same architecture. */
  readonly load: (directory: string) => Effect.Effect<void, ModelError | NativeError, FileSystem.FileSystem>
  /** Fails on a weight that is not finite; else writes F32 weights under the names and files they were read from, with config.json and the tokenizer's files. */
  readonly save: (directory: string) => Effect.Effect<void, ModelError | NativeError, FileSystem.FileSystem>
  /** Fails when a tokenizer of this size (one more than its largest id) has ids that the model does not know. */
  readonly checkVocabulary: (tokenizerSize: number) => Effect.Effect<void, ModelError>
  /**
   * An adapter on this model until the scope closes: an engine with tensors, gradients, moments and steps of its own, whose
   * passes and generations are the model's with the adapter. `Lora` makes them.
   */
  readonly adapter: (
    options: Native.AdapterOptions,
    files: WeightFiles
  ) => Effect.Effect<Engine, NativeError, Scope.Scope>
  /** Where the time of passes and optimiser steps went since this was last asked. */
  readonly takePhases: Effect.Effect<Native.Phases, NativeError>
}

/** How parameters are read from a directory and written to one. @category model */
export interface WeightFiles {
  readonly load: (
    into: Engine,
    directory: string
  ) => Effect.Effect<void, ModelError | NativeError, FileSystem.FileSystem>
  readonly save: (
    from: Engine,
    directory: string
  ) => Effect.Effect<void, ModelError | NativeError, FileSystem.FileSystem>
}

/** First and second moment of AdamW. @category model */
export interface Moments {
  readonly first: Float32Array
  readonly second: Float32Array
}

const streamOf = (
  start: (onTokens: Native.OnTokens) => Native.Job<Native.GenerateResult>
): Stream.Stream<GenerationPart, NativeError> =>
  Stream.asyncPush<GenerationPart, NativeError>(
    (emit) =>
      Effect.gen(function* () {
        const job = yield* Effect.acquireRelease(
          Job.now("generate", () => start((tokenIds, logprobs) => emit.single({ _tag: "Tokens", tokenIds, logprobs }))),
          Job.stop
        )
        job.done.then(
          ({ finishReason, swaps, weightsVersion }) => {
            emit.single({ _tag: "End", finishReason, swaps, weightsVersion })
            emit.end()
          },
          (cause) => emit.fail(fromUnknown("generate", cause))
        )
      }),
    { bufferSize: "unbounded" }
  )

const elements = (shape: ReadonlyArray<number>) => shape.reduce((product, size) => product * size, 1)

const bytesOf = (values: Float32Array) => new Uint8Array(values.buffer, values.byteOffset, values.byteLength)

/**
 * Opens a Hugging Face directory (config.json, and weights unless `randomInit` is given). The memory is given back when
 * the scope closes.
 *
 * @category constructors
 */
export const open = (
  directory: string,
  options: Options
): Effect.Effect<Engine, ModelError | NativeError, FileSystem.FileSystem | Scope.Scope> =>
  Effect.gen(function* () {
    const { config, text } = yield* ModelConfig.read(directory)
    const addon = yield* Addon.load
    const { randomInit, trainable } = options
    const native = yield* Effect.acquireRelease(
      Job.now("createEngine", () => addon.createEngine(config, options)),
      (engine) => Effect.sync(() => engine.dispose())
    )
    const tensors = native.tensors()
    const files =
      randomInit === undefined
        ? yield* ModelFiles.load(native, config, directory)
        : yield* Effect.as(
            Job.run("initialise", () => native.initialise(randomInit.seed, randomInit.std)),
            [{ file: "model.safetensors", names: tensors.map(({ name }) => name) }]
          )
    return make(native, {
      ...{ directory, config, tensors, trainable },
      files: {
        load: (_, from) => Effect.asVoid(ModelFiles.load(native, config, from)),
        save: (from, to) => ModelFiles.save(from, to, { files, configText: text })
      }
    })
  })

/**
 * The bytes that an engine for the model in `directory` takes, for packed batches of up to `tokens` tokens, and with
 * `lora` an adapter that is trained on it.
 *
 * @category constructors
 */
export const memoryPlan = (
  directory: string,
  options: Omit<Options, "isa" | "randomInit" | "memoryLimit"> & {
    readonly tokens: number
    readonly lora?: Native.AdapterOptions | undefined
  }
): Effect.Effect<Native.MemoryPlan, ModelError | NativeError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const { config } = yield* ModelConfig.read(directory)
    const addon = yield* Addon.load
    const { activationCheckpointing = false, dtype = "float32", headDtype = dtype, ...rest } = options
    return yield* Job.now("memoryPlan", () =>
      addon.memoryPlan(config, { ...rest, activationCheckpointing, dtype, headDtype })
    )
  })

/** Fails with ERR_OUT_OF_MEMORY when a plan for micro-batches of `tokens` tokens is above the limit. @category checks */
export const requireMemory = (
  { total }: Native.MemoryPlan,
  { memoryLimit, tokens }: { readonly memoryLimit: number; readonly tokens: number }
): Effect.Effect<void, NativeError> => {
  const gib = (bytes: number) => `${(bytes / 2 ** 30).toFixed(2)} GiB`
  return total <= memoryLimit
    ? Effect.void
    : Effect.fail(
        new NativeError({
          operation: "memoryPlan",
          code: "ERR_OUT_OF_MEMORY",
          reason: `micro-batches of ${tokens} tokens take ${gib(total)}, the limit is ${gib(memoryLimit)}: train on shorter ones, turn on activation checkpointing, or raise the limit`
        })
      )
}

const make = (
  native: Native.NativeEngine,
  model: {
    readonly directory: string
    readonly config: Native.ModelConfig
    readonly tensors: ReadonlyArray<Native.Tensor>
    readonly trainable: boolean
    readonly files: WeightFiles
  }
): Engine => {
  const { config, directory, files, tensors } = model
  const sizes = new Map(tensors.map(({ name, shape }) => [name, elements(shape)]))
  const room = (name: string) => new Float32Array(sizes.get(name) ?? 0)
  const read = (
    operation: string,
    name: string,
    start: (into: Float32Array) => Native.Job<void>
  ): Effect.Effect<Float32Array, NativeError> =>
    Effect.suspend(() => {
      const into = room(name)
      return Effect.as(
        Job.run(operation, () => start(into)),
        into
      )
    })
  const readTensor = (name: string) => read("readTensor", name, (into) => native.readTensor(name, into))
  const self: Engine = {
    directory,
    config,
    trainable: model.trainable,
    tensors,
    score: (tokenIds, lengths, temperatures) => Job.run("score", () => native.score(tokenIds, lengths, temperatures)),
    generate: (request, options) => Job.run("generate", () => native.generate(request, options?.onTokens)),
    stream: (request) => streamOf((onTokens) => native.generate(request, onTokens)),
    forwardBackward: (batch, counts, loss) =>
      Job.run("forwardBackward", () => native.forwardBackward(batch, counts, loss)),
    forward: (batch) => Job.run("forward", () => native.forward(batch)),
    backward: (gradient) => Job.run("backward", () => native.backward(gradient)),
    zeroGradients: Job.run("zeroGradients", () => native.zeroGradients()),
    optimizerStep: (step) => Job.run("optimizerStep", () => native.optimizerStep(step)),
    optimizerSteps: Job.now("optimizerSteps", () => native.optimizerSteps()),
    setOptimizerSteps: (steps) => Job.now("setOptimizerSteps", () => native.setOptimizerSteps(steps)),
    snapshot: Job.run("snapshot", () => native.snapshot()),
    adopt: (snapshot, running) => Job.run("adopt", () => native.adopt(snapshot, running)),
    generationStats: Job.run("generationStats", () => native.generationStats()),
    readTensor,
    writeTensor: (name, values) => Job.run("writeTensor", () => native.writeTensor(name, "F32", bytesOf(values))),
    readGradient: (name) => read("readGradient", name, (into) => native.readGradient(name, into)),
    readMoments: (name) =>
      Effect.suspend(() => {
        const moments = { first: room(name), second: room(name) }
        return Effect.as(
          Job.run("readMoments", () => native.readMoments(name, moments.first, moments.second)),
          moments
        )
      }),
    writeMoments: (name, { first, second }) => Job.run("writeMoments", () => native.writeMoments(name, first, second)),
    load: (from) => files.load(self, from),
    save: (to) => files.save(self, to),
    adapter: (options, adapterFiles) =>
      Effect.map(
        Effect.acquireRelease(
          Job.now("createAdapter", () => native.createAdapter(options)),
          (adapter) => Effect.sync(() => adapter.dispose())
        ),
        (adapter) =>
          make(adapter, {
            directory,
            config,
            tensors: adapter.tensors(),
            trainable: options.trainable,
            files: adapterFiles
          })
      ),
    takePhases: Job.run("takePhases", () => native.takePhases()),
    checkVocabulary: (tokenizerSize) =>
      tokenizerSize <= config.vocabSize
        ? Effect.void
        : Effect.fail(
            new ModelError({
              path: directory,
              reason: `the tokenizer has ids up to ${tokenizerSize - 1}, config.json says vocab_size ${config.vocabSize}: tokenizer and weights do not belong together`
            })
          )
  }
  return self
}
