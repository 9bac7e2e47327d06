/** Runs an algorithm over rollouts made by hand, as a run would, and reads what it said. */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import type { Algorithm } from "../Algorithm.ts"
import type { Watch } from "../DependentSet.ts"
import * as Pipeline from "../Pipeline.ts"
import type { Absent, Ended } from "../Rollout.ts"

/** A scored rollout, or why there is no score. @category model */
export type Outcome = Pipeline.Scored | Absent

/** Collects a stream into an array. @category running */
export const collect = <A, E, R>(stream: Stream.Stream<A, E, R>): Effect.Effect<ReadonlyArray<A>, E, R> =>
  Effect.map(Stream.runCollect(stream), Chunk.toReadonlyArray)

/** Both hooks over ended rollouts in their order; what comes out is in the order in which it was final. @category running */
export const through = (
  ended: Iterable<Ended>,
  options?: { readonly watch?: Watch | undefined }
): Effect.Effect<ReadonlyArray<Outcome>, never, Algorithm> =>
  collect(
    Stream.fromIterable(ended).pipe(Pipeline.score, (scored) =>
      Pipeline.dependentSets(scored, { watch: options?.watch })
    )
  )

/** An algorithm over ended rollouts, for its credit alone. @category running */
export const score = <E, R>(
  algorithm: Layer.Layer<Algorithm, E, R>,
  ended: Iterable<Ended>
): Effect.Effect<ReadonlyArray<Outcome>, E, R> => Effect.provide(through(ended), algorithm)

/**
 * The advantage of each rollout by its id, where the algorithm gave it one for all of its tokens; an absence is the tag
 * of its reason.
 *
 * @category reading
 */
export const advantages = (outcomes: ReadonlyArray<Outcome>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    outcomes.map((outcome) =>
      outcome._tag === "Absent"
        ? [outcome.planned.id, outcome.reason._tag]
        : [outcome.rollout.id, outcome.credit.claims.find(({ stream }) => stream === "advantages")?.values]
    )
  )
