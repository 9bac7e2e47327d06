/** Serves a policy: token ids in, token ids and log-probabilities out. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type { Stretch } from "./Trace.ts"
import type { WeightSnapshot } from "./Trainer/Native.ts"

/** How one call samples; absent filters leave the distribution whole. @category model */
export interface Sampling {
  /** log-probabilities are those of the distribution at this temperature */
  readonly temperature: number
  readonly topP?: number | undefined
  readonly topK?: number | undefined
  readonly minP?: number | undefined
  /** most tokens to sample in this call */
  readonly maxTokens: number
  readonly stopTokenIds: ReadonlyArray<number>
  /** the only source of randomness of this call; an unsigned 32-bit integer */
  readonly seed: number
}

/** What one call sampled, with the weights' version. @category model */
export interface Generation {
  /** sampled ids, with the stop token when one was sampled */
  readonly tokenIds: Int32Array
  /** one per sampled id, at the sampling temperature */
  readonly logprobs: Float32Array
  readonly finishReason: "stop" | "length"
  /** version of the weights that the first token was sampled with */
  readonly policyVersion: number
  /** versions of all its tokens in order, where weights changed while they were sampled */
  readonly stretches?: ReadonlyArray<Stretch> | undefined
}

/** Who hears of a generation while it runs. @category model */
export interface GenerateOptions {
  /**
   * Tokens and their log-probabilities as they are drawn, in order. Where an endpoint gives whole turns only it hears of
   * none; the generation has all of them in any case. It must not throw.
   */
  readonly onTokens?: ((tokenIds: Int32Array, logprobs: Float32Array) => void) | undefined
}

/** Weights on their way from the trainer to inference. @category model */
export interface PublishedWeights {
  readonly version: number
  readonly snapshot: WeightSnapshot
}

/** A call that inference could not answer, with the endpoint's name. @category errors */
export class InferenceError extends Data.TaggedError("InferenceError")<{
  readonly endpoint: string
  readonly reason: string
  /** the prompt leaves no room for a token: an answer to the harness, never retried */
  readonly promptTooLong?: boolean | undefined
}> {
  override get message() {
    return `inference ${this.endpoint}: ${this.reason}`
  }
}

/** Generates, scores, and takes over new weights. @category model */
export interface InferenceService {
  readonly name: string
  /** longest prompt plus completion, in tokens */
  readonly maxSequenceLength: number
  readonly generate: (
    promptIds: Int32Array,
    sampling: Sampling,
    options?: GenerateOptions
  ) => Effect.Effect<Generation, InferenceError>
  /** Log-probability of each given token after those before it; the first has no context and is 0. */
  readonly score: (tokenIds: Int32Array, temperature?: number) => Effect.Effect<Float32Array, InferenceError>
  /** Takes over new weights; returns once every later request is served by them. */
  readonly adopt: (weights: PublishedWeights) => Effect.Effect<void, InferenceError>
}

/** The policy that rollouts are sampled from. @category tags */
export class Inference extends Context.Tag("primerl/Inference")<Inference, InferenceService>() {}
