/** Samples packed end to end for one forward and backward pass of the trainer. */
import type { TrainingSample } from "./TrainingSample.ts"

/** Global member count of each loss component over a whole step. @category model */
export interface ComponentCounts {
  readonly rl: number
  readonly ce: number
  readonly refKl: number
}

/**
 * Flat streams of `tokens` entries. Position ids restart with each sample and attention never crosses one;
 * `sequenceLengths` sums to `tokens` (padding, if any, belongs to the last sequence and is a member of nothing).
 *
 * @category model
 */
export interface MicroBatch {
  readonly samples: ReadonlyArray<TrainingSample>
  /** copies that only keep workers in step: no member in any component */
  readonly dummy: boolean
  readonly tokens: number
  readonly tokenIds: Int32Array
  readonly positionIds: Int32Array
  readonly sequenceLengths: Int32Array
  readonly mask: Uint8Array
  readonly logprobs: Float32Array
  readonly temperatures: Float32Array
  readonly advantages: Float32Array
  readonly referenceLogprobs: Float32Array | undefined
  readonly rlWeights: Float32Array | undefined
  readonly ceWeights: Float32Array | undefined
  readonly refKlWeights: Float32Array | undefined
}

/** One optimiser step's micro-batches, by worker: every worker has the same number. @category model */
export interface PackedBatch {
  readonly microBatches: ReadonlyArray<ReadonlyArray<MicroBatch>>
  readonly counts: ComponentCounts
  /** tokens of real samples, padding and dummies left out */
  readonly tokens: number
  /** samples cut to `maxSequenceLength` */
  readonly truncated: number
  /** samples that had nothing left to train and were left out */
  readonly dropped: number
}
