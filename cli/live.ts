/** The engine side of the commands, loaded when the first of them needs it. */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { lazily } from "./options.ts"
import { type RunFailure, Runs, type Started } from "./Runs.ts"

const run = lazily(() => import("../src/Run.ts"))

/** What a user's own algorithm fails with may be anything at all. */
const failure = (error: unknown): RunFailure =>
  Predicate.isTagged(error, "RunFailure") || error instanceof Error
    ? (error as RunFailure & Error)
    : { _tag: "RunFailure", message: String(error) }

/** @category layers */
export const layer = Layer.effect(
  Runs,
  Effect.map(Effect.context<FileSystem.FileSystem | Path.Path>(), (context) => {
    const opened = <A, E, E2>(
      started: Effect.Effect<
        {
          readonly directory: { readonly path: string; readonly resumedFrom: number | undefined }
          readonly rewards: ReadonlyArray<number>
          readonly steps: Stream.Stream<A, E, FileSystem.FileSystem | Path.Path>
        },
        E2,
        FileSystem.FileSystem | Path.Path | Scope.Scope
      >
    ): Effect.Effect<Started<A>, RunFailure, Scope.Scope> =>
      started.pipe(
        Effect.map(({ directory, rewards, steps }) => ({
          directory: directory.path,
          done: directory.resumedFrom ?? 0,
          rewards,
          steps: steps.pipe(Stream.mapError(failure), Stream.provideContext(context))
        })),
        Effect.mapError(failure),
        Effect.provide(context)
      )
    return {
      hardware: Effect.flatMap(
        lazily(() => import("../src/Trainer/Addon.ts")),
        ({ load }) => Effect.map(load, (addon) => ({ node: process.version, cpu: addon.cpu(), cuda: addon.cuda() }))
      ),
      algorithms: Effect.map(run, ({ registry }) => registry.builtIn),
      explain: (request) =>
        Effect.flatMap(
          lazily(() => import("./explaining.ts")),
          ({ explaining }) => Effect.provide(Effect.mapError(explaining(request), failure), context)
        ),
      check: (config) => Effect.flatMap(run, ({ check }) => check(config)),
      plan: (config) =>
        Effect.mapError(
          Effect.flatMap(run, ({ plan }) => plan(config)),
          failure
        ),
      memory: (...of) =>
        Effect.flatMap(run, ({ memory }) => Effect.provide(Effect.mapError(memory(...of), failure), context)),
      train: (config, options) => opened(Effect.flatMap(run, ({ train }) => train(config, options))),
      sft: (config) => opened(Effect.flatMap(run, ({ sft }) => sft(config))),
      serve: (options) =>
        Effect.flatMap(
          lazily(() => import("../src/server/Serve.ts")),
          ({ start }) => Effect.provide(Effect.mapError(start(options), failure), context)
        ),
      merge: (options) =>
        Effect.flatMap(
          lazily(() => import("../src/run/Merge.ts")),
          (merging) => Effect.provide(Effect.mapError(merging.run(options), failure), context)
        ),
      evaluate: (config, options) =>
        Stream.unwrap(Effect.map(run, ({ evaluate }) => evaluate(config, options))).pipe(
          Stream.mapError(failure),
          Stream.provideContext(context)
        )
    }
  })
)
