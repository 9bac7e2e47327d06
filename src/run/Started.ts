/** A run that is open: what it holds is given back when its steps have ended, when the scope closes, or when opening it fails. */
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { RunDirectory } from "./Directory.ts"

/** A run that has its place and its past. @category model */
export interface Started<Report, E, R> {
  readonly directory: RunDirectory
  /** rewards of the steps before the one it goes on with */
  readonly rewards: ReadonlyArray<number>
  /** each element is one finished step; its row is in `metrics.jsonl` when it comes out */
  readonly steps: Stream.Stream<Report, E, R>
}

/** Opens a run in a scope of its own, which ends with its steps. @category resources */
export const open = <Report, E, R, E2, R2>(
  opening: Effect.Effect<Started<Report, E, R>, E2, R2>
): Effect.Effect<Started<Report, E, R>, E2, Exclude<R2, Scope.Scope> | Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Scope.fork(yield* Effect.scope, ExecutionStrategy.sequential)
    const run = yield* Scope.extend(opening, scope).pipe(
      Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause)))
    )
    return { ...run, steps: Stream.ensuringWith(run.steps, (exit) => Scope.close(scope, exit)) }
  })
