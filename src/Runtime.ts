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

/** A program to run, as it is: no shell reads its arguments. @category model */
export interface Command {
  readonly program: string
  readonly args: ReadonlyArray<string>
  /** a file of the rollout's directory that takes the standard output instead */
  readonly output?: string | undefined
}

/** How a command ended. @category model */
export interface Exit {
  /** undefined when it was killed: at its time limit, or for saying too much */
  readonly code: number | undefined
  readonly stdout: string
  readonly stderr: string
  readonly timedOut: boolean
  /** it said more than the limit and was killed; what came until then is kept */
  readonly truncated: boolean
}

/** A directory of the rollout's own, and commands in it. Paths are relative to it and never lead out. @category model */
export interface Machine {
  /** Runs a command to its end; one that is interrupted is killed. A program that is not there is a `RuntimeError`. */
  readonly run: (command: Command) => Effect.Effect<Exit, RuntimeError>
  /** Writes a file, with the folders that it lies in. */
  readonly write: (path: string, text: string) => Effect.Effect<void, RuntimeError>
  /** Makes a folder, and those that it lies in. */
  readonly makeFolder: (path: string) => Effect.Effect<void, RuntimeError>
  /** Every file with its text, and every folder, whose path ends with a slash, with "": in the order of their paths. */
  readonly files: Effect.Effect<Readonly<Record<string, string>>, RuntimeError>
}

/** What a harness can ask of where it runs. @category model */
export interface RuntimeService {
  readonly name: string
  /** asked after a harness has failed: false when the runtime is gone, and the failure is its own */
  readonly alive: Effect.Effect<boolean>
  /** undefined where no command is run and no file is kept */
  readonly machine?: Machine | undefined
}

/** Where the rollout that asks is executed. @category tags */
export class Runtime extends Context.Tag("primerl/Runtime")<Runtime, RuntimeService>() {}

/** The machine of a runtime. Fails with `RuntimeError` where it has none. @category accessors */
export const machineOf = ({ machine, name }: RuntimeService): Effect.Effect<Machine, RuntimeError> =>
  machine === undefined
    ? Effect.fail(
        new RuntimeError({
          runtime: name,
          reason: "it runs no commands; give the environment Process.layer() or another"
        })
      )
    : Effect.succeed(machine)

/** The machine of the rollout that asks. Fails with `RuntimeError` where its runtime has none. @category accessors */
export const machine: Effect.Effect<Machine, RuntimeError, Runtime> = Effect.flatMap(Runtime, machineOf)

/** This process: nothing to start, nothing to clean up, no isolation. @category layers */
export const layerInProcess: Layer.Layer<Runtime> = Layer.succeed(Runtime, {
  name: "in-process",
  alive: Effect.succeed(true)
})
