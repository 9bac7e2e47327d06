/**
 * Where a harness and its tools execute. One is acquired for each rollout and released with it, whatever became of the
 * rollout; a runtime that dies is to blame itself, never the harness that ran in it.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** A runtime that could not start, or that broke; for runtimes to fail with. @category errors */
export class RuntimeError extends Data.TaggedError("RuntimeError")<{
  readonly runtime: string
  readonly reason: string
}> {
  override get message() {
    return `runtime ${this.runtime}: ${this.reason}`
  }
}

/** What a harness can ask of where it runs. @category model */
export interface RuntimeService {
  readonly name: string
  /** asked after a harness has failed: false when the runtime is gone, and the failure is its own */
  readonly alive: Effect.Effect<boolean>
}

/** Where the rollout that asks is executed. @category tags */
export class Runtime extends Context.Tag("primerl/Runtime")<Runtime, RuntimeService>() {}

/** This process: nothing to start, nothing to clean up, no isolation. @category layers */
export const layerInProcess: Layer.Layer<Runtime> = Layer.succeed(Runtime, {
  name: "in-process",
  alive: Effect.succeed(true)
})
