/**
 * Forward and backward of one micro-batch. Three components, each over its own member count of the whole step, so that
 * loss and gradient do not depend on how samples are packed. Membership is decided before arithmetic: a token outside a
 * component is skipped, never multiplied by 0. `ofSample` is the formula in float64, the oracle of the native kernels.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import type { ComponentCounts, MicroBatch } from "../MicroBatch.ts"
import * as TrainingSample from "../TrainingSample.ts"
import type { NativeLossReport } from "./Native.ts"
import type { NativeError } from "./NativeError.ts"
import * as RlLoss from "./RlLoss.ts"

/** Computes the loss of a micro-batch and its gradient. @category model */
export interface PackedLossService {
  /** Adds to the gradients; the report's components are this micro-batch's part of the step's loss. */
  readonly forwardBackward: (
    batch: MicroBatch,
    counts: ComponentCounts,
    loss: RlLoss.RlLoss
  ) => Effect.Effect<NativeLossReport, NativeError | RlLoss.LossError>
}

/** The loss of micro-batches, on whatever holds the weights. @category tags */
export class PackedLoss extends Context.Tag("primerl/PackedLoss")<PackedLoss, PackedLossService>() {}

/** What one component or all of them add to the step's loss. @category model */
export interface Components {
  readonly rl: number
  readonly ce: number
  readonly refKl: number
}

/** Per-token streams of one sequence, as a sample has them or in float64. @category model */
export interface Streams extends TrainingSample.Members {
  readonly rollout: string
  readonly logprobs: ArrayLike<number>
  readonly advantages: ArrayLike<number> | undefined
  readonly referenceLogprobs: ArrayLike<number> | undefined
}

/** One sequence's part of the step's loss, with its gradient. @category model */
export interface SequenceLoss {
  readonly components: Components
  /** d loss / d trainer log-probability, per token */
  readonly gradient: Float64Array
  /** per component with members; absent where there are none */
  readonly metrics: Readonly<Record<string, number>>
}

/** Furthest that a probability may fall in `refKl`, and the scale of its squared log-ratio. */
const refKlMaskLow = 0.2
const refKlTau = 1e-3

const mean = (values: ReadonlyArray<number>) =>
  values.length === 0 ? 0 : values.reduce((total, value) => total + value, 0) / values.length

/** r − Δ − 1 with r = exp Δ: the k3 estimate of KL(inference ‖ trainer) (Schulman 2020). */
const mismatchKl = (delta: number) => Math.exp(delta) - delta - 1

/** Mismatch over the members that a policy term leaves out and over the others, and the share of the former. */
const maskMetrics = (deltas: ReadonlyArray<number>, isMasked: (member: number) => boolean) => {
  const masked = deltas.filter((_, member) => isMasked(member))
  const unmasked = deltas.filter((_, member) => !isMasked(member))
  return {
    masked_mismatch_kl: mean(masked.map(mismatchKl)),
    unmasked_mismatch_kl: mean(unmasked.map(mismatchKl)),
    is_masked: masked.length / deltas.length
  }
}

const membersOf = (is: (streams: TrainingSample.Members, i: number) => boolean, streams: Streams) => {
  const members: Array<number> = []
  for (let i = 1; i < streams.mask.length; i++) if (is(streams, i)) members.push(i)
  return members
}

const rlOf = (streams: Streams, trainer: ArrayLike<number>, loss: RlLoss.RlLoss) =>
  Either.gen(function* () {
    const indices = membersOf(TrainingSample.isRl, streams)
    if (indices.length === 0) return undefined
    const { advantages, logprobs, referenceLogprobs, rlWeights, rollout } = streams
    if (advantages === undefined) {
      const reason = `${indices.length} tokens to train and no advantages`
      return yield* Either.left(new RlLoss.LossError({ loss: loss.type, rollout, reason }))
    }
    const gather = (from: ArrayLike<number>) => Float64Array.from(indices, (i) => from[i]!)
    const members: RlLoss.WeightedMembers = {
      trainer: gather(trainer),
      inference: gather(logprobs),
      advantages: gather(advantages),
      reference: referenceLogprobs === undefined ? undefined : gather(referenceLogprobs),
      weights: rlWeights === undefined ? new Float64Array(indices.length).fill(1) : gather(rlWeights)
    }
    const { gradient, total } = yield* RlLoss.evaluate(loss, rollout, members)
    const deltas = indices.map((i) => trainer[i]! - logprobs[i]!)
    const metrics = yield* RlLoss.guarded(loss, rollout, () => ({
      ...maskMetrics(deltas, loss.masked?.(members) ?? (() => false)),
      ...loss.metrics?.(members)
    }))
    return { indices, total, gradient, metrics }
  })

const ceOf = (streams: Streams, trainer: ArrayLike<number>) => {
  const indices = membersOf(TrainingSample.isCe, streams)
  if (indices.length === 0) return undefined
  const weights = indices.map((i) => streams.ceWeights![i]!)
  return {
    indices,
    total: indices.reduce((total, i, member) => total - weights[member]! * trainer[i]!, 0),
    gradient: weights.map((weight) => -weight),
    metrics: { nll: mean(indices.map((i) => -trainer[i]!)) }
  }
}

/**
 * −(reference − trainer, detached)·r, whose expected gradient on-policy is that of KL(trainer ‖ reference), where the
 * probability has not fallen by more than 0.2; and 10⁻³·Δ² on every member.
 */
const refKlOf = (streams: Streams, trainer: ArrayLike<number>) =>
  Either.gen(function* () {
    const indices = membersOf(TrainingSample.isRefKl, streams)
    if (indices.length === 0) return undefined
    const { logprobs, referenceLogprobs, refKlWeights, rollout } = streams
    if (referenceLogprobs === undefined) {
      const reason = `${indices.length} tokens to train and no reference log-probabilities`
      return yield* Either.left(new RlLoss.LossError({ loss: "refKl", rollout, reason }))
    }
    let total = 0
    const gradient: Array<number> = []
    const isMasked = (member: number) => {
      const i = indices[member]!
      return Math.exp(trainer[i]!) - Math.exp(logprobs[i]!) < -refKlMaskLow
    }
    for (const [member, i] of indices.entries()) {
      const delta = trainer[i]! - logprobs[i]!
      const policy = isMasked(member) ? 0 : -(referenceLogprobs[i]! - trainer[i]!) * Math.exp(delta)
      total += refKlWeights![i]! * (policy + refKlTau * delta * delta)
      gradient.push(refKlWeights![i]! * (policy + 2 * refKlTau * delta))
    }
    const deltas = indices.map((i) => trainer[i]! - logprobs[i]!)
    const { is_masked, masked_mismatch_kl, unmasked_mismatch_kl } = maskMetrics(deltas, isMasked)
    const metrics = {
      ref_kl: mean(indices.map((i) => referenceLogprobs[i]! - trainer[i]!)),
      "ref_kl/masked_mismatch_kl": masked_mismatch_kl,
      "ref_kl/unmasked_mismatch_kl": unmasked_mismatch_kl,
      "ref_kl/is_masked": is_masked
    }
    return { indices, total, gradient, metrics }
  })

/**
 * One sequence's part of the step's loss, its gradient, and its metrics, from the trainer's log-probabilities (one per
 * token; the first is never read). Fails with `LossError` when a component lacks what it needs or is not finite.
 *
 * @category evaluation
 */
export const ofSample = (
  streams: Streams,
  trainer: ArrayLike<number>,
  counts: ComponentCounts,
  loss: RlLoss.RlLoss
): Either.Either<SequenceLoss, RlLoss.LossError> =>
  Either.gen(function* () {
    const parts = {
      rl: yield* rlOf(streams, trainer, loss),
      ce: ceOf(streams, trainer),
      refKl: yield* refKlOf(streams, trainer)
    }
    const components = { rl: 0, ce: 0, refKl: 0 }
    const gradient = new Float64Array(streams.mask.length)
    const metrics: Record<string, number> = {}
    for (const name of ["rl", "ce", "refKl"] as const) {
      const part = parts[name]
      if (part === undefined) continue
      const count = Math.max(1, counts[name])
      components[name] = part.total / count
      for (const [member, i] of part.indices.entries()) gradient[i]! += part.gradient[member]! / count
      Object.assign(metrics, part.metrics)
      if (!Number.isFinite(part.total)) {
        const reason = `the ${name} component is ${part.total}`
        return yield* Either.left(new RlLoss.LossError({ loss: loss.type, rollout: streams.rollout, reason }))
      }
    }
    const overflow = gradient.findIndex((slope) => !Number.isFinite(Math.fround(slope)))
    if (overflow !== -1) {
      const at = `log-probability ${trainer[overflow]} against ${streams.logprobs[overflow]}`
      const reason = `token ${overflow} (${at}) has gradient ${gradient[overflow]}, more than float32 holds`
      return yield* Either.left(new RlLoss.LossError({ loss: loss.type, rollout: streams.rollout, reason }))
    }
    return { components, gradient, metrics }
  })

/** One micro-batch's part of the step's loss, with its gradient. @category model */
export interface BatchLoss {
  readonly components: Components
  /** `tokens` entries, as `NativeEngine.backward` takes them */
  readonly gradient: Float32Array
  /** per sequence */
  readonly metrics: ReadonlyArray<Readonly<Record<string, number>>>
}

/**
 * A whole micro-batch's part of the step's loss from the trainer's log-probabilities of all its tokens: what stands
 * between a native forward pass and its backward pass for a loss without a kernel.
 *
 * @category evaluation
 */
export const ofBatch = (
  batch: MicroBatch,
  trainer: ArrayLike<number>,
  counts: ComponentCounts,
  loss: RlLoss.RlLoss
): Either.Either<BatchLoss, RlLoss.LossError> =>
  Either.gen(function* () {
    const components = { rl: 0, ce: 0, refKl: 0 }
    const gradient = new Float32Array(batch.tokens)
    const metrics: Array<Readonly<Record<string, number>>> = []
    const logprobs = Float64Array.from(trainer)
    let start = 0
    for (const [index, length] of batch.sequenceLengths.entries()) {
      const end = start + length
      const cut = (stream: Float32Array | undefined) => stream?.subarray(start, end)
      const streams: Streams = {
        rollout: batch.samples[index]?.rollout ?? `at sequence ${index}`,
        mask: batch.mask.subarray(start, end),
        logprobs: batch.logprobs.subarray(start, end),
        advantages: cut(batch.advantages),
        referenceLogprobs: cut(batch.referenceLogprobs),
        rlWeights: cut(batch.rlWeights),
        ceWeights: cut(batch.ceWeights),
        refKlWeights: cut(batch.refKlWeights)
      }
      const one = yield* ofSample(streams, logprobs.subarray(start, end), counts, loss)
      components.rl += one.components.rl
      components.ce += one.components.ce
      components.refKl += one.components.refKl
      gradient.set(one.gradient, start)
      metrics.push(one.metrics)
      start = end
    }
    return { components, gradient, metrics }
  })

/**
 * Deterministic and pure: the trainer's log-probabilities are a function of the sample, one per token. `onGradient` sees
 * what a backward pass would.
 *
 * @category layers
 */
export const layerMock = (options: {
  readonly logprobs: (sample: TrainingSample.TrainingSample) => ArrayLike<number>
  readonly onGradient?: ((batch: MicroBatch, gradient: Float32Array) => void) | undefined
}): Layer.Layer<PackedLoss> =>
  Layer.succeed(PackedLoss, {
    forwardBackward: (batch, counts, loss) => {
      const logprobs = new Float32Array(batch.tokens)
      let start = 0
      for (const sample of batch.samples) {
        logprobs.set(options.logprobs(sample), start)
        start += sample.tokenIds.length
      }
      return Either.map(ofBatch(batch, logprobs, counts, loss), ({ components, gradient }): NativeLossReport => {
        options.onGradient?.(batch, gradient)
        return { ...components, logprobs, entropy: new Float32Array(batch.tokens) }
      })
    }
  })
