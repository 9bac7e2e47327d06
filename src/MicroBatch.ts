/** Samples packed end to end for one forward and backward pass of the trainer. */
import * as Either from "effect/Either"
import { identity } from "effect/Function"
import { balancedPartition } from "./internal/balancedPartition.ts"
import { firstFitDecreasing, splitToFill } from "./internal/firstFitDecreasing.ts"
import * as TrainingSample from "./TrainingSample.ts"

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
  readonly samples: ReadonlyArray<TrainingSample.TrainingSample>
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
  /** samples that the cut left with nothing to train, and that were left out */
  readonly dropped: number
}

type Stream = Int32Array | Uint8Array | Float32Array

/** Streams end to end; a sample that lacks one gets `absent` for each of its tokens. */
const join = <A extends Stream>(
  into: A,
  parts: ReadonlyArray<A | undefined>,
  lengths: ReadonlyArray<number>,
  absent: number
): A => {
  let at = 0
  for (const [index, part] of parts.entries()) {
    if (part === undefined) into.fill(absent, at, at + lengths[index]!)
    else into.set(part, at)
    at += lengths[index]!
  }
  return into
}

type Optional = "advantages" | "referenceLogprobs" | "rlWeights" | "ceWeights" | "refKlWeights"

/** Samples end to end, in the given order, padded to a multiple of `multiple` tokens. */
const materialise = (samples: ReadonlyArray<TrainingSample.TrainingSample>, multiple: number): MicroBatch => {
  const lengths = samples.map(({ tokenIds }) => tokenIds.length)
  const real = lengths.reduce((sum, length) => sum + length, 0)
  const floats = (name: "logprobs" | "temperatures" | Optional, absent: number) =>
    join<Float32Array>(
      new Float32Array(real),
      samples.map((sample) => sample[name]),
      lengths,
      absent
    )
  const optional = (name: Optional, absent: number) =>
    samples.some((sample) => sample[name] !== undefined) ? floats(name, absent) : undefined
  // A micro-batch is one long sample for padding, so that no stream can be forgotten.
  const flat = TrainingSample.pad(
    {
      rollout: "",
      source: "",
      policyVersion: 0,
      tokenIds: join(
        new Int32Array(real),
        samples.map(({ tokenIds }) => tokenIds),
        lengths,
        0
      ),
      mask: join(
        new Uint8Array(real),
        samples.map(({ mask }) => mask),
        lengths,
        0
      ),
      logprobs: floats("logprobs", 0),
      temperatures: floats("temperatures", 1),
      advantages: floats("advantages", 0),
      referenceLogprobs: optional("referenceLogprobs", 0),
      rlWeights: optional("rlWeights", 1),
      ceWeights: optional("ceWeights", 0),
      refKlWeights: optional("refKlWeights", 0)
    },
    Math.ceil(real / multiple) * multiple
  )
  const tokens = flat.tokenIds.length
  const positionIds = new Int32Array(tokens)
  let at = 0
  for (const length of [...lengths, tokens - real]) for (let i = 0; i < length; i++) positionIds[at++] = i
  const sequenceLengths = Int32Array.from(lengths)
  sequenceLengths[lengths.length - 1]! += tokens - real
  const { advantages, ceWeights, logprobs, mask, refKlWeights, referenceLogprobs, rlWeights, temperatures, tokenIds } =
    flat
  return {
    samples,
    dummy: false,
    tokens,
    tokenIds,
    positionIds,
    sequenceLengths,
    mask,
    logprobs,
    temperatures,
    advantages: advantages ?? new Float32Array(tokens),
    referenceLogprobs,
    rlWeights,
    ceWeights,
    refKlWeights
  }
}

const inert = <A extends TrainingSample.Members>(streams: A, tokens: number) => ({
  ...streams,
  mask: new Uint8Array(tokens),
  advantages: new Float32Array(tokens),
  referenceLogprobs: undefined,
  rlWeights: undefined,
  ceWeights: undefined,
  refKlWeights: undefined
})

/** The same shape and tokens, a member of nothing. */
const dummyOf = (batch: MicroBatch): MicroBatch => ({
  ...inert(batch, batch.tokens),
  dummy: true,
  samples: batch.samples.map((sample) => inert(sample, sample.tokenIds.length))
})

/** How samples are packed and dealt out. @category packing */
export interface PackOptions {
  /** most tokens in a micro-batch; longer samples are cut */
  readonly maxSequenceLength: number
  /** data-parallel workers; each gets the same number of micro-batches */
  readonly workers?: number | undefined
  readonly padToMultipleOf?: number | undefined
  /** work of a micro-batch by the lengths of its sequences; the number of tokens by default, see `flopsCost` */
  readonly cost?: ((sequenceLengths: ReadonlyArray<number>) => number) | undefined
}

const sum = (values: ReadonlyArray<number>) => values.reduce((total, value) => total + value, 0)

/**
 * Packs samples into as few micro-batches as first-fit decreasing finds, splits them until every worker has one, and
 * deals them out so that workers have equal numbers and nearly equal cost. Every token is in it exactly once, except for
 * what `maxSequenceLength` cuts off. The same samples in the same order pack the same way.
 *
 * Samples come from `TrainingSample.make` or `TrainingSample.check`; one that neither would let through is a bug of the
 * caller and throws its `InvalidSample`, since packing it would shift or invent values.
 *
 * @category packing
 */
export const pack = (
  samples: ReadonlyArray<TrainingSample.TrainingSample>,
  { cost = sum, maxSequenceLength, padToMultipleOf = 1, workers = 1 }: PackOptions
): PackedBatch => {
  let truncated = 0
  const kept: Array<TrainingSample.TrainingSample> = []
  for (const sample of samples) {
    const checked = Either.getOrThrowWith(TrainingSample.check(sample), identity)
    const cut = TrainingSample.truncate(checked, maxSequenceLength)
    if (cut !== sample) truncated++
    if (cut === sample || TrainingSample.hasMembers(cut)) kept.push(cut)
  }
  const lengths = kept.map(({ tokenIds }) => tokenIds.length)
  const bins = splitToFill(firstFitDecreasing(lengths, maxSequenceLength), workers, (members) =>
    cost(members.map((member) => lengths[member]!))
  )
  const batches = bins.map((bin) =>
    materialise(
      bin.map((member) => kept[member]!),
      padToMultipleOf
    )
  )
  while (batches.length % workers !== 0) batches.push(dummyOf(batches[0]!))
  const parts = balancedPartition(
    batches.map(({ sequenceLengths }) => cost([...sequenceLengths])),
    workers
  )
  return {
    microBatches: parts.map((part) => part.map((batch) => batches[batch]!)),
    counts: counts(batches),
    tokens: sum(lengths),
    truncated,
    dropped: samples.length - kept.length
  }
}

/**
 * Members of each component over all micro-batches: what each component's sum is divided by. The first token of a
 * sequence, which has no context, is none.
 *
 * @category packing
 */
export const counts = (batches: Iterable<MicroBatch>): ComponentCounts => {
  let [rl, ce, refKl] = [0, 0, 0]
  for (const batch of batches) {
    const { ceWeights, positionIds, refKlWeights } = batch
    for (let i = 0; i < batch.tokens; i++) if (positionIds[i] !== 0 && TrainingSample.isRl(batch, i)) rl++
    if (ceWeights === undefined && refKlWeights === undefined) continue
    for (let i = 0; i < batch.tokens; i++) {
      if (positionIds[i] === 0) continue
      if (TrainingSample.isCe(batch, i)) ce++
      if (TrainingSample.isRefKl(batch, i)) refKl++
    }
  }
  return { rl, ce, refKl }
}

/** Sizes of a dense decoder-only transformer; a `ModelConfig` is one. @category packing */
export interface ModelShape {
  readonly hiddenSize: number
  readonly intermediateSize: number
  readonly layers: number
  readonly heads: number
  readonly kvHeads: number
  readonly headDim: number
  readonly vocabSize: number
}

/**
 * Floating-point operations of a forward pass over sequences of the given lengths: the matrix products, linear in
 * tokens, and attention, quadratic within each sequence. An estimate for balancing, exact only up to a factor.
 *
 * @category packing
 */
export const flopsCost = (model: ModelShape): ((sequenceLengths: ReadonlyArray<number>) => number) => {
  const { headDim, heads, hiddenSize, intermediateSize, kvHeads, layers, vocabSize } = model
  const attention = 2 * hiddenSize * heads * headDim + 4 * hiddenSize * kvHeads * headDim + 2 * hiddenSize ** 2
  const linear = layers * (attention + 6 * hiddenSize * intermediateSize) + 2 * hiddenSize * vocabSize
  const quadratic = 2 * layers * heads * headDim
  return (lengths) => lengths.reduce((total, n) => total + linear * n + quadratic * n * n, 0)
}
