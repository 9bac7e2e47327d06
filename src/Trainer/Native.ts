/**
 * What the native addon offers, as it is seen from TypeScript. Weights stay in native memory; jobs run on an engine's
 * own thread, in the order in which they were asked for, and never on the event loop.
 */
import type { ModelShape } from "../MicroBatch.ts"

/** Work in progress. `cancel` stops it at the next check; `done` then rejects with code "ERR_CANCELLED". @category model */
export interface Job<A> {
  readonly done: Promise<A>
  readonly cancel: () => void
}

/** @category model */
export interface RopeScaling {
  readonly factor: number
  readonly lowFreqFactor: number
  readonly highFreqFactor: number
  readonly originalMaxPositionEmbeddings: number
}

/** A decoder-only transformer of the Llama family. Sizes are counts, not bytes. @category model */
export interface ModelConfig extends ModelShape {
  readonly maxPositionEmbeddings: number
  readonly rmsNormEps: number
  readonly ropeTheta: number
  readonly ropeScaling: RopeScaling | undefined
  /** the head is the transposed embedding */
  readonly tieWordEmbeddings: boolean
  /** RMS norm on each head of queries and keys (Qwen3) */
  readonly qkNorm: boolean
  /** biases of the q, k and v projections (Qwen2) */
  readonly qkvBias: boolean
  /** bias of the o projection */
  readonly outputBias: boolean
  /** biases of the gate, up and down projections */
  readonly mlpBias: boolean
}

/** Samples end to end; every stream has one entry per token. @category model */
export interface NativeBatch {
  readonly tokenIds: Int32Array
  readonly sequenceLengths: Int32Array
  readonly temperatures: Float32Array
  readonly mask: Uint8Array
  readonly logprobs: Float32Array
  readonly advantages: Float32Array
  readonly referenceLogprobs: Float32Array | undefined
  readonly rlWeights: Float32Array | undefined
  readonly ceWeights: Float32Array | undefined
  readonly refKlWeights: Float32Array | undefined
}

/** A built-in loss with a native kernel. @category model */
export type NativeLoss =
  | {
      readonly kernel: "dppo"
      readonly maskLow: number
      readonly maskHigh: number
      readonly advantageTau: number
      readonly klTau: number
    }
  | { readonly kernel: "ipo"; readonly threshold: number; readonly advantageTau: number; readonly klTau: number }
  | { readonly kernel: "ppo_clip" | "cispo"; readonly clipLow: number; readonly clipHigh: number }
  | { readonly kernel: "icepop"; readonly ratioLow: number; readonly ratioHigh: number }
  | { readonly kernel: "importance_sampling" }

/** Sums over one micro-batch; the component losses are already divided by the global counts. @category model */
export interface NativeLossReport {
  readonly rl: number
  readonly ce: number
  readonly refKl: number
  /** `tokens` entries: log-probability of each token at its temperature; 0 where it was not needed */
  readonly logprobs: Float32Array
  /** `tokens` entries: entropy of the distribution each token was drawn from, in nats; 0 where it was not needed */
  readonly entropy: Float32Array
}

/** Adam with decoupled weight decay (arXiv 1711.05101, Algorithm 2). @category model */
export interface OptimizerStep {
  readonly learningRate: number
  readonly beta1: number
  readonly beta2: number
  readonly eps: number
  readonly weightDecay: number
  /** largest global norm of the gradient; undefined does not clip */
  readonly maxGradNorm: number | undefined
}

/** @category model */
export interface OptimizerReport {
  /** global norm of the gradient before clipping */
  readonly gradNorm: number
  /** false when the gradient was not finite: then weights, moments and the step count are as before */
  readonly applied: boolean
}

/** An immutable copy of all weights in native memory. @category model */
export interface WeightSnapshot {
  readonly bytes: number
}

/** @category model */
export interface GenerateRequest {
  readonly promptIds: Int32Array
  readonly maxTokens: number
  readonly temperature: number
  readonly topP: number
  readonly topK: number
  readonly minP: number
  readonly stopTokenIds: Int32Array
  readonly seed: number
}

/** @category model */
export interface GenerateResult {
  readonly tokenIds: Int32Array
  readonly logprobs: Float32Array
  readonly finishReason: "stop" | "length"
  /** which weights its first token was sampled with: the number that `adopt` gave, or that of an earlier or later change */
  readonly weightsVersion: number
  /** where weights changed within it, which they do only by `adopt` with "swap" */
  readonly swaps: ReadonlyArray<Swap>
}

/** From this index of `tokenIds` on the weights were those with this number. @category model */
export interface Swap {
  readonly from: number
  readonly weightsVersion: number
}

/**
 * What becomes of running generations when weights change: they finish on those that they began with, or go on with the
 * new ones from their next token. @category model
 */
export type Running = "finish" | "swap"

/** @category model */
export interface GenerationStats {
  readonly running: number
  /** for a place, for memory, or for a common beginning that another generation reads */
  readonly waiting: number
  /** of keys and values: those of running generations, and those that later ones may share */
  readonly kvBytes: number
  readonly kvLimitBytes: number
  readonly kvBytesPerToken: number
  /** tokens that went through the network, since the engine began */
  readonly computedTokens: number
  /** tokens that did not, because their keys and values were known */
  readonly sharedTokens: number
  /** generations that gave their memory up to older ones, and computed it again */
  readonly preemptions: number
}

/**
 * Hears of sampled tokens and their log-probabilities as they are drawn, a few at a time: each once, in order, before
 * the result, and none once the generation was cancelled or its engine disposed.
 *
 * @category model
 */
export type OnTokens = (tokenIds: Int32Array, logprobs: Float32Array) => void

/**
 * Instruction sets in rising order. The last two have instructions that multiply bfloat16, and are otherwise avx512.
 *
 * @category model
 */
export const isas = ["scalar", "avx2", "avx512", "avx512bf16", "amx"] as const

/** @category model */
export type Isa = (typeof isas)[number]

/**
 * What matrix products round their operands to; weights, gradients, moments, norms, softmax, losses and all sums stay
 * float32. "bfloat16x3" makes a product of three of bfloat16, with an error near that of float32.
 *
 * @category model
 */
export type Precision = "float32" | "bfloat16" | "bfloat16x3"

/** @category model */
export type DType = "F32" | "F16" | "BF16"

/** An adapter: y = W·x + scale · B·(A·dropout(x)) for each of `modules`. @category model */
export interface AdapterOptions {
  readonly rank: number
  readonly scale: number
  /** share of A's inputs that a training pass leaves out, in [0, 1) */
  readonly dropout: number
  /** an unsigned 32-bit integer: where A's first values and the masks of dropout come from */
  readonly seed: number
  /** matrices of layers, as `model.layers.0.self_attn.q_proj` */
  readonly modules: ReadonlyArray<string>
  /** keeps gradients and moments of its own */
  readonly trainable: boolean
}

/** A parameter, named and shaped as in a Hugging Face checkpoint. @category model */
export interface Tensor {
  readonly name: string
  readonly shape: ReadonlyArray<number>
}

/** @category model */
export interface NativeEngine {
  /** every parameter, named and shaped as in a Hugging Face checkpoint, in the order of the network */
  readonly tensors: () => ReadonlyArray<Tensor>
  readonly writeTensor: (name: string, dtype: DType, bytes: Uint8Array) => Job<void>
  readonly readTensor: (name: string, into: Float32Array) => Job<void>
  readonly readGradient: (name: string, into: Float32Array) => Job<void>
  /** first and second moment of AdamW */
  readonly readMoments: (name: string, first: Float32Array, second: Float32Array) => Job<void>
  readonly writeMoments: (name: string, first: Float32Array, second: Float32Array) => Job<void>
  readonly optimizerSteps: () => number
  readonly setOptimizerSteps: (steps: number) => void
  /** random weights: normal(0, std) for matrices, 1 for norms, 0 for biases; the same for the same seed */
  readonly initialise: (seed: number, std: number) => Job<void>
  readonly snapshot: () => Job<WeightSnapshot>
  /** Later jobs run on these weights; running generations finish on their own, unless said. Resolves to their number. */
  readonly adopt: (snapshot: WeightSnapshot, running?: Running | undefined) => Job<number>
  /** Log-probabilities and entropies of every token but the first of each sequence. */
  readonly score: (
    tokenIds: Int32Array,
    sequenceLengths: Int32Array,
    temperatures: Float32Array
  ) => Job<{ readonly logprobs: Float32Array; readonly entropy: Float32Array }>
  /** Forward, loss and backward of one micro-batch in one job; adds to the gradients. */
  readonly forwardBackward: (
    batch: NativeBatch,
    counts: { readonly rl: number; readonly ce: number; readonly refKl: number },
    loss: NativeLoss
  ) => Job<NativeLossReport>
  /** Forward of one micro-batch whose loss is computed elsewhere; its activations are kept for one `backward`. */
  readonly forward: (batch: NativeBatch) => Job<{ readonly logprobs: Float32Array; readonly entropy: Float32Array }>
  /** Adds the gradients for `gradient[t]` = d loss / d logprob of token t, for the batch of the last `forward`. */
  readonly backward: (gradient: Float32Array) => Job<void>
  readonly zeroGradients: () => Job<void>
  /** Clips, steps and zeroes the gradients. */
  readonly optimizerStep: (step: OptimizerStep) => Job<OptimizerReport>
  /**
   * Joins the batch of running generations at its next token; results do not depend on what else runs, nor on whether
   * anyone listens. What `onTokens` throws ends the generation, and `done` rejects with it.
   */
  readonly generate: (request: GenerateRequest, onTokens?: OnTokens | undefined) => Job<GenerateResult>
  /** Where the time went since this was last asked. */
  readonly takePhases: () => Job<Phases>
  readonly generationStats: () => Job<GenerationStats>
  /**
   * An adapter on this model, with the same methods for parameters of its own: passes, generations, steps and snapshots of
   * it are of the model with the adapter, and change nothing of the model. It begins as the model itself. Its jobs are
   * the engine's; disposing it leaves the engine as it is.
   */
  readonly createAdapter: (options: AdapterOptions) => NativeEngine
  /** Cancels what is queued and frees all memory once the running job has stopped. */
  readonly dispose: () => void
}

/** Bytes, as they are before anything is allocated. @category model */
export interface MemoryPlan {
  readonly weights: number
  readonly gradients: number
  /** both moments of AdamW */
  readonly optimizer: number
  /** of the adapter: its values, and the gradients and moments that the model then has none of */
  readonly adapters: number
  /** kept from a forward pass for its backward pass */
  readonly activations: number
  /** of the running layer and of the head */
  readonly workspace: number
  /** all of the above */
  readonly total: number
  /** the packed copy of the weights that decoding reads */
  readonly decoder: number
  /** keys and values of one token of a running generation */
  readonly cachePerToken: number
}

/** Seconds of wall time. @category model */
export interface PhaseSeconds {
  readonly forward: number
  readonly backward: number
}

/** Where the time of passes and optimiser steps went. @category model */
export interface Phases {
  /** norm, queries, keys, values and rotation */
  readonly projections: PhaseSeconds
  readonly attention: PhaseSeconds
  /** output projection, norm and the gated network */
  readonly feedForward: PhaseSeconds
  readonly head: PhaseSeconds
  readonly optimizer: PhaseSeconds
}

/** @category model */
export type Device = "cpu" | "cuda"

/** What there is of CUDA, and why models cannot run on it. @category model */
export interface CudaFound {
  /** in words; undefined when models can run */
  readonly reason: string | undefined
  /** path of the CUDA library, and whether it can be loaded */
  readonly library: string
  readonly built: boolean
  /** libcuda.so.1 can be loaded */
  readonly driver: boolean
  readonly devices: ReadonlyArray<{ readonly name: string; readonly capability: string; readonly bytes: number }>
  /** the library that was loaded, or why none was; matrix products then run on a kernel of our own */
  readonly cublas: string
  /** as cuBLAS tells it; 0 when there is none */
  readonly cublasVersion: number
}

/** @category model */
export interface NativeAddon {
  readonly cpu: () => {
    readonly isa: Isa
    readonly amx: boolean
    readonly cores: number
  }
  /** Looks for CUDA anew at each call. */
  readonly cuda: () => CudaFound
  readonly createEngine: (
    config: ModelConfig,
    options: {
      readonly threads: number
      /** keeps gradients and optimiser moments */
      readonly trainable: boolean
      readonly isa?: Isa | undefined
      /** of matrix products; default "float32" */
      readonly dtype?: Precision | undefined
      /** of the output projection's products; default `dtype` */
      readonly headDtype?: Precision | undefined
      /** keeps only the inputs of layers for the backward pass and computes the rest again: less memory, more time */
      readonly activationCheckpointing?: boolean | undefined
      /** most bytes that weights, gradients, moments and a batch may take; more is an error before it is taken */
      readonly memoryLimit?: number | undefined
      /** limit of keys and values of generations; default one gibibyte, or one sequence of all positions */
      readonly kvBytes?: number | undefined
      /** where passes and steps run; generations run on the processor. Default "cpu" */
      readonly device?: Device | undefined
    }
  ) => NativeEngine
  /** What an engine of these options takes for packed batches of up to `tokens` tokens. */
  readonly memoryPlan: (
    config: ModelConfig,
    options: {
      readonly threads: number
      readonly trainable: boolean
      readonly dtype: Precision
      readonly headDtype: Precision
      readonly activationCheckpointing: boolean
      readonly tokens: number
      /** the adapter that is trained on a model that is not */
      readonly lora?: AdapterOptions | undefined
    }
  ) => MemoryPlan
  /** The loss kernels alone, for tests and conformance: gradients by the trainer's log-probabilities. */
  readonly packedLoss: (
    trainerLogprobs: Float32Array,
    batch: NativeBatch,
    counts: { readonly rl: number; readonly ce: number; readonly refKl: number },
    loss: NativeLoss
  ) => { readonly rl: number; readonly ce: number; readonly refKl: number; readonly gradient: Float32Array }
}
