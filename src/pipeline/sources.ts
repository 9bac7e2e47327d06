/** Sources are scored inside, each by its own algorithm, and merged after. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { Algorithm } from "../Algorithm.ts"
import type { Watch } from "../DependentSet.ts"
import type { Absent, Ended } from "../Rollout.ts"
import * as State from "../State.ts"
import type { Compiled } from "./items.ts"
import { samples } from "./samples.ts"
import { dependentSets, score } from "./scoring.ts"

/** A stream of rollouts with the algorithm that scores it. @category model */
export interface Source<E, R, LE, LR> {
  readonly name: string
  readonly rollouts: Stream.Stream<Ended, E, R>
  readonly algorithm: Layer.Layer<Algorithm, LE, LR>
  readonly watch?: Watch | undefined
}

/** A source, with its types inferred from its parts. @category constructors */
export const source = <E, R, LE, LR>(source: Source<E, R, LE, LR>): Source<E, R, LE, LR> => source

/** The same Layer, whose cells of state live under `name`. */
const underName = <A, E, R>(layer: Layer.Layer<A, E, R>, name: string): Layer.Layer<A, E, R> =>
  Layer.unwrapEffect(
    Effect.map(Effect.context<R>(), (context) =>
      Option.match(Context.getOption(context as Context.Context<R | State.State>, State.State), {
        onNone: () => layer,
        onSome: (state) => Layer.provide(layer, Layer.succeed(State.State, State.inside(state, name)))
      })
    )
  )

/** A source's algorithm, alive as long as the scope, its cells of state under the source's name. @category constructors */
export const start = <LE, LR>(source: Pick<Source<never, never, LE, LR>, "algorithm" | "name">) =>
  Effect.map(Layer.build(underName(source.algorithm, source.name)), Context.get(Algorithm))

/**
 * One source up to samples: every planned rollout comes out once, as soon as it is final. Its algorithm is built once, in
 * the scope of this stream, and its state lives under the source's name.
 *
 * @category stages
 */
export const sampled = <E, R, LE, LR>({
  algorithm,
  name,
  rollouts,
  watch
}: Source<E, R, LE, LR>): Stream.Stream<Compiled | Absent, E | LE, Exclude<R, Algorithm> | LR> =>
  rollouts.pipe(
    score,
    (scored) => dependentSets(scored, { watch }),
    samples,
    Stream.provideSomeLayer(underName(algorithm, name))
  )

type Sampled<S extends Source<unknown, unknown, unknown, unknown>> = Stream.Stream<
  Compiled | Absent,
  Stream.Stream.Error<S["rollouts"]> | Layer.Layer.Error<S["algorithm"]>,
  Exclude<Stream.Stream.Context<S["rollouts"]>, Algorithm> | Layer.Layer.Context<S["algorithm"]>
>

/**
 * Sources with different algorithms in one stream. One that fails ends them all. What is scored waits with its sources, as
 * rollouts, and not here, where it is laid out and larger.
 *
 * @category stages
 */
export const merge = <const Sources extends ReadonlyArray<Source<unknown, unknown, unknown, unknown>>>(
  ...sources: Sources
): Sampled<Sources[number]> =>
  Stream.mergeAll(
    sources.map((source) => sampled(source)),
    { concurrency: "unbounded", bufferSize: 1 }
  ) as Sampled<Sources[number]>
