/** One branch of a rollout with its credit, as flat streams of one length. The only module that knows token offsets. */
import * as Either from "effect/Either"
import type { Credit, Stream } from "./Credit.ts"
import { layOut, type Piece, write } from "./internal/claims.ts"
import { CreditConflict, InvalidSample } from "./internal/sampleErrors.ts"
import type { Rollout } from "./Rollout.ts"
import * as Trace from "./Trace.ts"

export { CreditConflict, InvalidSample }

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

/** Name of a per-token stream. @category streams */
export type StreamName = Exclude<keyof TrainingSample, "rollout" | "source" | "policyVersion">

/** What stands in padding, in every stream: the one list of all streams. @category streams */
export const padding: Readonly<Record<StreamName, number>> = {
  tokenIds: 1,
  mask: 0,
  logprobs: 0,
  temperatures: 1,
  advantages: 0,
  referenceLogprobs: 0,
  rlWeights: 0,
  ceWeights: 0,
  refKlWeights: 0
}

/** Names of all per-token streams. @category streams */
export const streamNames = Object.keys(padding) as ReadonlyArray<StreamName>

type Streams = Pick<TrainingSample, StreamName>

/** The same sample with every stream that it has put through `f`. */
const mapStreams = (
  sample: TrainingSample,
  f: <A extends Int32Array | Uint8Array | Float32Array>(stream: A, pad: number) => A
): TrainingSample => {
  const mapped: Record<string, unknown> = {}
  for (const name of streamNames) {
    const stream = sample[name]
    if (stream !== undefined) mapped[name] = f(stream, padding[name])
  }
  return { ...sample, ...(mapped as Partial<Streams>) }
}

/** The first `length` tokens; they share the sample's memory. @category streams */
export const truncate = (sample: TrainingSample, length: number): TrainingSample =>
  sample.tokenIds.length <= length
    ? sample
    : mapStreams(sample, (stream) => stream.subarray(0, length) as typeof stream)

/** As many tokens as `length`, with what is added a member of nothing. @category streams */
export const pad = (sample: TrainingSample, length: number): TrainingSample =>
  sample.tokenIds.length >= length
    ? sample
    : mapStreams(sample, (stream, value) => {
        const longer = new (stream.constructor as new (length: number) => typeof stream)(length).fill(value)
        longer.set(stream)
        return longer as typeof stream
      })

/** What decides membership, of a sample, a micro-batch or a test's numbers alike. @category members */
export interface Members {
  readonly mask: ArrayLike<number>
  readonly rlWeights: ArrayLike<number> | undefined
  readonly ceWeights: ArrayLike<number> | undefined
  readonly refKlWeights: ArrayLike<number> | undefined
}

/** Whether token `i` is trained by `rl`; the caller leaves out the first token of a sequence. @category members */
export const isRl = ({ mask, rlWeights }: Members, i: number): boolean =>
  mask[i] === 1 && (rlWeights === undefined || rlWeights[i] !== 0)

/** Whether token `i` is trained by `ce`, whatever the mask. @category members */
export const isCe = ({ ceWeights }: Members, i: number): boolean => ceWeights !== undefined && ceWeights[i] !== 0

/** Whether token `i` is trained by `refKl`, whatever the mask. @category members */
export const isRefKl = ({ refKlWeights }: Members, i: number): boolean =>
  refKlWeights !== undefined && refKlWeights[i] !== 0

/** Whether any token is a member of any component. @category members */
export const hasMembers = (sample: TrainingSample): boolean => {
  for (let i = 1; i < sample.mask.length; i++) {
    if (isRl(sample, i) || isCe(sample, i) || isRefKl(sample, i)) return true
  }
  return false
}

/** Whether training on it moves anything: an `rl` member with an advantage, or a member of another component. @category members */
export const hasSignal = (sample: TrainingSample): boolean => {
  for (let i = 1; i < sample.mask.length; i++) {
    if (isCe(sample, i) || isRefKl(sample, i)) return true
    if (isRl(sample, i) && (sample.advantages?.[i] ?? 0) !== 0) return true
  }
  return false
}

const hasZeroAdvantage = (sample: TrainingSample, advantages: Float32Array): boolean => {
  for (let i = 1; i < advantages.length; i++) if (advantages[i] === 0 && isRl(sample, i)) return true
  return false
}

/**
 * Takes `rl` members whose advantage is 0 out of the component, so that they do not count in its mean; undefined when no
 * member of any component is left. A sample without such members comes back as it is.
 *
 * @category members
 */
export const pruneZeroAdvantage = (sample: TrainingSample): TrainingSample | undefined => {
  const { advantages, mask } = sample
  if (advantages === undefined) return sample
  if (!hasZeroAdvantage(sample, advantages)) return sample
  const rlWeights = Float32Array.from(mask, (_, i) =>
    i > 0 && isRl(sample, i) && advantages[i] !== 0 ? (sample.rlWeights?.[i] ?? 1) : 0
  )
  const pruned = { ...sample, rlWeights }
  return hasMembers(pruned) ? pruned : undefined
}

/** What of a sample is trained: without what would move nothing; undefined when nothing is left. @category members */
export const moving = (sample: TrainingSample): TrainingSample | undefined =>
  hasSignal(sample) ? pruneZeroAdvantage(sample) : undefined

const invalid = (sample: Pick<TrainingSample, "rollout" | "source">, stream: StreamName, reason: string) =>
  Either.left(new InvalidSample({ rollout: sample.rollout, source: sample.source, stream, reason }))

const withoutAdvantage = (token: number) =>
  `token ${token} is trained by rl and has no advantage; the algorithm must set one on every sampled token`
const withoutReference = (token: number) =>
  `token ${token} is trained by refKl and has no reference log-probability; a teacher must score the whole branch`

/**
 * A sample made by hand, checked: every stream as long as `tokenIds`, advantages where `rl` has members and reference
 * log-probabilities where `refKl` has. Fails with `InvalidSample`, which names the stream.
 *
 * @category constructors
 */
export const check = (sample: TrainingSample): Either.Either<TrainingSample, InvalidSample> => {
  const length = sample.tokenIds.length
  for (const name of streamNames) {
    const stream = sample[name]
    if (stream !== undefined && stream.length !== length) {
      return invalid(sample, name, `${stream.length} entries for ${length} tokens`)
    }
  }
  const advantageless = sample.advantages === undefined
  const referenceless = sample.referenceLogprobs === undefined && sample.refKlWeights !== undefined
  for (let i = 1; i < length && (advantageless || referenceless); i++) {
    if (advantageless && isRl(sample, i)) return invalid(sample, "advantages", withoutAdvantage(i))
    if (referenceless && isRefKl(sample, i)) return invalid(sample, "referenceLogprobs", withoutReference(i))
  }
  return Either.right(sample)
}

const streamOf: Readonly<Record<Stream, StreamName>> = {
  advantages: "advantages",
  referenceLogprobs: "referenceLogprobs",
  rl: "rlWeights",
  ce: "ceWeights",
  refKl: "refKlWeights"
}

const isWeight = (stream: Stream) => stream === "rl" || stream === "ce" || stream === "refKl"

/** One branch as it is sampled, and its claims; where no claim says anything, advantages and references are NaN. */
const layBranch = (
  rollout: Rollout,
  pieces: ReadonlyArray<ReadonlyArray<Piece>>,
  branch: Trace.Branch
): TrainingSample => {
  const { nodes } = rollout.trace
  const tokenIds = Trace.tokenIds(rollout.trace, branch)
  const mask = new Uint8Array(tokenIds.length)
  const logprobs = new Float32Array(tokenIds.length)
  let at = 0
  for (let depth = 0; depth < branch.path.length; depth++) {
    const node = nodes[branch.path[depth]!]!
    // A node that several branches share is trained by the first of them.
    if (depth >= branch.shared) mask.set(node.mask, at)
    const length = node.tokenIds.length
    let sampled = 0
    if (node.logprobs.length === length) logprobs.set(node.logprobs, at)
    else for (let i = 0; i < length; i++) if (node.mask[i] === 1) logprobs[at + i] = node.logprobs[sampled++]!
    at += length
  }
  // The first token has no context.
  mask[0] = 0

  const laid: Partial<Record<StreamName, Float32Array>> = {}
  at = 0
  for (let depth = 0; depth < branch.path.length; depth++) {
    const index = branch.path[depth]!
    const length = nodes[index]!.tokenIds.length
    for (const piece of pieces[index]!) {
      if (depth < branch.shared && isWeight(piece.stream)) continue
      const name = streamOf[piece.stream]
      laid[name] ??=
        name === "rlWeights"
          ? Float32Array.from(mask)
          : new Float32Array(mask.length).fill(isWeight(piece.stream) ? 0 : Number.NaN)
      write(piece, laid[name], at, length)
    }
    at += length
  }
  const weights = (stream: Float32Array | undefined) => {
    if (stream === undefined) return undefined
    stream[0] = 0
    return stream.some((value) => value !== 0) ? stream : undefined
  }
  return {
    rollout: rollout.id,
    source: rollout.source,
    policyVersion: rollout.policyVersion,
    tokenIds,
    mask,
    logprobs,
    temperatures: new Float32Array(tokenIds.length).fill(rollout.temperature),
    advantages: laid.advantages,
    referenceLogprobs: laid.referenceLogprobs,
    rlWeights: laid.rlWeights?.every((weight, i) => mask[i] !== 1 || weight === 1) ? undefined : laid.rlWeights,
    ceWeights: weights(laid.ceWeights),
    refKlWeights: weights(laid.refKlWeights)
  }
}

/** A NaN means that no claim spoke of the token: an error on a member, and 0 on the others. */
const settle = (sample: TrainingSample): Either.Either<TrainingSample, InvalidSample> => {
  const { advantages, referenceLogprobs } = sample
  for (let i = 0; i < sample.mask.length; i++) {
    if (advantages !== undefined && Number.isNaN(advantages[i])) {
      if (isRl(sample, i)) return invalid(sample, "advantages", withoutAdvantage(i))
      advantages[i] = 0
    }
    if (referenceLogprobs !== undefined && Number.isNaN(referenceLogprobs[i])) {
      if (isRefKl(sample, i)) return invalid(sample, "referenceLogprobs", withoutReference(i))
      referenceLogprobs[i] = 0
    }
  }
  return check(sample)
}

/** A branch with what it trains; `sample` is undefined when none of its tokens is a member of a component. @category model */
export interface BranchSample {
  readonly branch: Trace.Branch
  readonly sample: TrainingSample | undefined
}

/**
 * Every branch of a rollout, laid out. Fails with `CreditConflict` when two claims disagree about a token, and with
 * `InvalidSample` when a claim does not fit the trace or is not finite, or when a member lacks the advantage or the
 * reference that its component needs.
 *
 * @category constructors
 */
export const ofBranches = (scored: {
  readonly rollout: Rollout
  readonly credit: Credit
}): Either.Either<ReadonlyArray<BranchSample>, CreditConflict | InvalidSample> =>
  Either.flatMap(layOut(scored.rollout, scored.credit), (pieces) => {
    const branches: Array<BranchSample> = []
    for (const branch of Trace.branches(scored.rollout.trace)) {
      const sample = layBranch(scored.rollout, pieces, branch)
      const settled = hasMembers(sample) ? settle(sample) : Either.right(undefined)
      if (Either.isLeft(settled)) return Either.left(settled.left)
      branches.push({ branch, sample: settled.right })
    }
    return Either.right(branches)
  })

/**
 * The samples of a rollout: one for every branch with a token to train in some component; a rollout without any gives
 * none. Fails as `ofBranches` does.
 *
 * @category constructors
 */
export const make = (scored: {
  readonly rollout: Rollout
  readonly credit: Credit
}): Either.Either<ReadonlyArray<TrainingSample>, CreditConflict | InvalidSample> =>
  Either.map(ofBranches(scored), (branches) => {
    const samples: Array<TrainingSample> = []
    for (const { sample } of branches) if (sample !== undefined) samples.push(sample)
    return samples
  })
