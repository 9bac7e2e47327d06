/** One branch of a rollout with its credit, as flat streams of one length. The only module that knows token offsets. */

/**
 * Every stream has one entry per token. An absent `rlWeights` means 1 on the mask; absent `ceWeights` and
 * `refKlWeights` mean that the sample has no such component.
 *
 * @category model
 */
export interface TrainingSample {
  readonly rollout: string
  readonly source: string
  /** version of the weights that the rollout was dispatched on */
  readonly policyVersion: number
  readonly tokenIds: Int32Array
  /** 1 on sampled tokens that this sample trains */
  readonly mask: Uint8Array
  /** log-probability of each sampled token under the policy that sampled it, at the sampling temperature; 0 elsewhere */
  readonly logprobs: Float32Array
  readonly temperatures: Float32Array
  readonly advantages: Float32Array | undefined
  readonly referenceLogprobs: Float32Array | undefined
  readonly rlWeights: Float32Array | undefined
  readonly ceWeights: Float32Array | undefined
  readonly refKlWeights: Float32Array | undefined
}
