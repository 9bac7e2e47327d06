/**
 * Turns a packed batch into new weights. It is blind to algorithms: it sees streams, counts their members over the whole
 * step, runs forward and backward per micro-batch, clips and steps. Weights change only in the optimiser step, so a step
 * that is interrupted or fails leaves them as they were.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type { PublishedWeights } from "../Inference.ts"
import type { PackedBatch } from "../MicroBatch.ts"

/** What one step did. @category model */
export interface TrainReport {
  /** each component over its own global member count, and their sum */
  readonly loss: { readonly total: number; readonly rl: number; readonly ce: number; readonly refKl: number }
  /** mean of r − ln r − 1 over the members of `rl` and `refKl`, r = p(trainer)/p(sampler); 0 without such members */
  readonly mismatchKl: number
  /** mean of |ln r| over the same members; close to 0 when trainer and sampler have the same weights */
  readonly logRatio: number
  /** mean entropy, in nats, of the distributions that the trained tokens were drawn from */
  readonly entropy: number
  /** share of `rl` members whose policy term the loss masked, the probability having moved too far */
  readonly maskedShare: number
  /** what the loss measures beside, such as shares of clipped tokens: the mean over `rl` members */
  readonly lossMetrics: Readonly<Record<string, number>>
  /** global norm before clipping */
  readonly gradNorm: number
  /** the rate this step used */
  readonly learningRate: number
  /** false when the gradient was not finite and the step was left out */
  readonly applied: boolean
}

/** What the trainer could not do, and why. @category errors */
export class TrainerError extends Data.TaggedError("TrainerError")<{
  readonly operation: "step" | "publish" | "save" | "restore"
  readonly reason: string
}> {
  override get message() {
    return `trainer ${this.operation}: ${this.reason}`
  }
}

/** Steps, publishes, saves and restores. @category model */
export interface TrainerService {
  /** Trains on one batch; `step` counts from 1 and selects the learning rate. */
  readonly step: (batch: PackedBatch, step: number) => Effect.Effect<TrainReport, TrainerError>
  /** A copy of the weights as they are now, for inference to adopt. */
  readonly publish: (version: number) => Effect.Effect<PublishedWeights, TrainerError>
  /** Writes weights in Hugging Face layout, and the optimiser's state beside them. */
  readonly save: (directory: string) => Effect.Effect<void, TrainerError>
  /** Takes up what `save` wrote: the next step is bit for bit the one that would have followed. */
  readonly restore: (directory: string) => Effect.Effect<void, TrainerError>
}

/** The weights in training. @category tags */
export class Trainer extends Context.Tag("primerl/Trainer")<Trainer, TrainerService>() {}
