/** Where commands print. What the terminal can do is decided once, here. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

/** @category model */
export interface OutputService {
  /** lines may be drawn over: a terminal that moves its cursor */
  readonly live: boolean
  readonly colour: boolean
  readonly unicode: boolean
  readonly size: Effect.Effect<{ readonly columns: number; readonly rows: number }>
  readonly resized: Stream.Stream<void>
  readonly write: (text: string) => Effect.Effect<void>
  readonly writeError: (text: string) => Effect.Effect<void>
  /** Waits until everything is written; fails when some of it could not be. */
  readonly written: Effect.Effect<void, OutputError>
}

/** What was to be printed could not be. @category errors */
export class OutputError extends Data.TaggedError("OutputError")<{ readonly code: string }> {
  override get message() {
    return `standard output cannot be written (${this.code}); some of it is missing`
  }
}

/** @category tags */
export class Output extends Context.Tag("primerl/cli/Output")<Output, OutputService>() {}

/** Reads the conventions of the environment: TERM, NO_COLOR, FORCE_COLOR and the locale. @category constructors */
export const abilities = (env: Readonly<Record<string, string | undefined>>, isTTY: boolean) => {
  const live = isTTY && env.TERM !== "dumb"
  const forced = env.FORCE_COLOR !== undefined && env.FORCE_COLOR !== "" && env.FORCE_COLOR !== "0"
  const colour = !env.NO_COLOR && (live || forced)
  const locale = env.LC_ALL || env.LC_CTYPE || env.LANG || ""
  return { live, colour, unicode: env.TERM !== "linux" && !/^(C|POSIX)$/.test(locale) }
}

const resized = Stream.async<void>((emit) => {
  const listener = () => void emit.single(undefined)
  process.stdout.on("resize", listener)
  return Effect.sync(() => process.stdout.off("resize", listener))
})

/** The process's own standard output and error. @category layers */
export const layerProcess = Layer.sync(Output, () => {
  // A reader that went away (`| head`) takes the text along, not the run; neither does a disk that is full.
  let lost: OutputError | undefined
  process.stderr.on("error", () => {})
  process.stdout.on("error", ({ code = "unknown" }: NodeJS.ErrnoException) => {
    if (code === "EPIPE" || lost !== undefined) return
    lost = new OutputError({ code })
    process.stderr.write(`primerl: ${lost.message}\n`)
  })
  return {
    ...abilities(process.env, process.stdout.isTTY === true),
    size: Effect.sync(() => ({ columns: process.stdout.columns || 80, rows: process.stdout.rows || 24 })),
    resized,
    write: (text) => Effect.sync(() => void process.stdout.write(text)),
    written: Effect.async<void, OutputError>((resume) => {
      // What was written before has been told of by the time that this is.
      process.stdout.write("", () => setImmediate(() => resume(lost === undefined ? Effect.void : Effect.fail(lost))))
    }),
    writeError: (text) => Effect.sync(() => void process.stderr.write(text))
  }
})
