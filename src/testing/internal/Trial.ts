/** Runs an algorithm over rollouts as a run would, and reads off what would be trained. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Stream from "effect/Stream"
import { inWords } from "../../internal/inWords.ts"
import * as Pipeline from "../../Pipeline.ts"
import { type Absent, type Ended, plannedOf } from "../../Rollout.ts"
import * as TrainingSample from "../../TrainingSample.ts"
import { layerProvided } from "../byteChat.ts"
import type { PropertyOptions, Subject } from "../Property.ts"
import { collect } from "../scoring.ts"

/** What came out, by the id of the rollout. */
export type Outcomes = ReadonlyMap<string, Pipeline.Compiled | Absent>

/** Why a trial could not be made, in words. */
export type Broken = string

/** A fresh life of the algorithm: nothing is left of an earlier trial. */
export const of = (
  algorithm: Subject,
  ended: Iterable<Ended>,
  { provided = layerProvided }: PropertyOptions
): Effect.Effect<Outcomes, Broken> =>
  Stream.fromIterable(ended).pipe(
    Pipeline.score,
    Pipeline.dependentSets,
    Pipeline.samples,
    collect,
    Effect.map((all) => new Map(all.map((one) => [idOf(one), one]))),
    Effect.provide(Layer.provide(algorithm, provided)),
    Effect.provide(Logger.remove(Logger.defaultLogger)),
    Effect.catchAllCause((cause) => Effect.fail(`it could not be run: ${inWords(Cause.squash(cause))}`))
  )

const idOf = (outcome: Pipeline.Compiled | Absent) =>
  plannedOf(outcome._tag === "Absent" ? outcome : outcome.rollout).id

/** What the algorithm did to a rollout that it had to score; undefined when it scored it. */
export const failureOf = (outcome: Pipeline.Compiled | Absent | undefined): string | undefined => {
  if (outcome === undefined) return "it never came out"
  if (outcome._tag !== "Absent") return undefined
  const { reason } = outcome
  return reason._tag === "Failed" && reason.blame === "algorithm" ? reason.message : undefined
}

/**
 * What training would see of a rollout, four numbers for each token of each branch: the `rl` weight times the advantage,
 * the `ce` weight, the `refKl` weight, the reference; 0 where a token is no member. An absent rollout has no signal.
 */
export const signalOf = (outcome: Pipeline.Compiled | Absent | undefined): Float64Array => {
  if (outcome === undefined || outcome._tag === "Absent") return new Float64Array(0)
  const branches = Either.getOrThrow(TrainingSample.ofBranches(outcome))
  const { nodes } = outcome.rollout.trace
  return Float64Array.from(
    branches
      .flatMap(({ branch, sample }) => {
        const length = branch.path.reduce((sum, node) => sum + nodes[node]!.tokenIds.length, 0)
        return Array.from({ length }, (_, i) => (sample === undefined || i === 0 ? [0, 0, 0, 0] : numbersAt(sample, i)))
      })
      .flat()
  )
}

const numbersAt = (sample: TrainingSample.TrainingSample, i: number): ReadonlyArray<number> => [
  TrainingSample.isRl(sample, i) ? (sample.rlWeights?.[i] ?? 1) * sample.advantages![i]! : 0,
  TrainingSample.isCe(sample, i) ? sample.ceWeights![i]! : 0,
  TrainingSample.isRefKl(sample, i) ? sample.refKlWeights![i]! : 0,
  TrainingSample.isRefKl(sample, i) ? sample.referenceLogprobs![i]! : 0
]

/** The `rl` part of a signal, one number per token. */
export const rlOf = (signal: Float64Array): Float64Array => signal.filter((_, i) => i % 4 === 0)

/** Whether two signals are the same up to rounding in float32. */
export const isClose = (a: Float64Array, b: Float64Array, tolerance = 1e-5): boolean => {
  if (a.length !== b.length) return false
  const scale = a.reduce((most, value) => Math.max(most, Math.abs(value)), 1)
  return a.every((value, i) => Math.abs(value - b[i]!) <= tolerance * scale)
}

/** The numbers of a signal that move anything, as a message shows them. */
export const shown = (signal: Float64Array): string => {
  const found = Array.from(new Set(Array.from(signal, (value) => Number(value.toPrecision(5))).filter((v) => v !== 0)))
  return found.length === 0 ? "0" : found.slice(0, 4).join(", ")
}
