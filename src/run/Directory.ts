/**
 * Where a run keeps what it did: the resolved configuration, `metrics.jsonl`, every rollout, checkpoints, a summary.
 * A new run never writes into the directory of another; a resumed one goes on where its last checkpoint stands.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Checkpoint from "../Checkpoint.ts"

/** @category errors */
export class RunDirectoryError extends Data.TaggedError("RunDirectoryError")<{
  readonly directory: string
  readonly reason: string
}> {
  override get message() {
    return `run ${this.directory}: ${this.reason}`
  }
}

/** @category model */
export interface RunDirectory {
  readonly path: string
  readonly config: string
  readonly metrics: string
  readonly rollouts: string
  readonly checkpoints: string
  readonly summary: string
  /** step of the checkpoint to go on from; undefined begins at the start */
  readonly resumedFrom: number | undefined
}

const at = (path: Path.Path, directory: string, resumedFrom: number | undefined): RunDirectory => ({
  path: directory,
  config: path.join(directory, "config.toml"),
  metrics: path.join(directory, "metrics.jsonl"),
  rollouts: path.join(directory, "rollouts"),
  checkpoints: path.join(directory, "checkpoints"),
  summary: path.join(directory, "summary.json"),
  resumedFrom
})

/** Numbers of the directories of `name` in `outputDir`: `name` itself is 1, `name-2` is 2. */
const taken = (outputDir: string, name: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    if (!(yield* fs.exists(outputDir))) return []
    return (yield* fs.readDirectory(outputDir))
      .map((entry) => {
        if (entry === name) return 1
        const suffix = entry.startsWith(`${name}-`) ? entry.slice(name.length + 1) : ""
        return /^[1-9]\d*$/.test(suffix) && suffix !== "1" ? Number(suffix) : 0
      })
      .filter((number) => number > 0)
      .sort((a, b) => a - b)
  })

const nameOf = (name: string, number: number) => (number === 1 ? name : `${name}-${number}`)

const failed = (directory: string) => (cause: { readonly _tag: string; readonly message: string }) =>
  new RunDirectoryError({ directory, reason: cause.message })

/** Makes the directory of this number, or of the next one that nobody else has made: of two runs that start at once, each gets its own. */
const claim = (
  outputDir: string,
  name: string,
  number: number
): Effect.Effect<string, PlatformError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const directory = (yield* Path.Path).join(outputDir, nameOf(name, number))
    return yield* fs.makeDirectory(directory).pipe(
      Effect.as(directory),
      Effect.catchIf(
        (cause) => cause._tag === "SystemError" && cause.reason === "AlreadyExists",
        () => claim(outputDir, name, number + 1)
      )
    )
  })

/** A fresh directory: `name`, or with the next free number when runs of that name are there. @category constructors */
export const create = (options: { readonly outputDir: string; readonly name: string; readonly config: string }) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const number = ((yield* taken(options.outputDir, options.name)).at(-1) ?? 0) + 1
    yield* fs.makeDirectory(options.outputDir, { recursive: true })
    const run = at(path, yield* claim(options.outputDir, options.name, number), undefined)
    yield* fs.writeFileString(run.config, options.config)
    return run
  }).pipe(Effect.mapError(failed(options.outputDir)))

/** Lines that differ, those of keys that a resumed run may change left out. */
const differences = (before: string, now: string): ReadonlyArray<string> => {
  const lines = (text: string) => {
    let section = ""
    return text.split("\n").flatMap((line) => {
      if (line.startsWith("[")) section = line
      const free = section.startsWith("[ckpt") || /^(max_steps|output_dir) =/.test(line)
      return line.trim() === "" || free ? [] : [`${section} ${line}`.trim()]
    })
  }
  const [old, fresh] = [new Set(lines(before)), new Set(lines(now))]
  return [
    ...Array.from(old).flatMap((line) => (fresh.has(line) ? [] : [`- ${line}`])),
    ...Array.from(fresh).flatMap((line) => (old.has(line) ? [] : [`+ ${line}`]))
  ]
}

/** Rows of `metrics.jsonl` up to a step; a file that is not there has none, a line that is no row is an error. @category getters */
export const readMetrics = (file: string, lastStep: number) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    if (!(yield* fs.exists(file))) return []
    const rows: Array<Readonly<Record<string, unknown>>> = []
    const text = yield* fs.readFileString(file)
    // A kill can cut the last line, which then has no line end.
    const lines = text.slice(0, text.lastIndexOf("\n") + 1).split("\n")
    for (const [index, line] of lines.entries()) {
      if (line === "") continue
      const row = Either.try((): unknown => JSON.parse(line))
      if (Either.isLeft(row) || !isRow(row.right)) {
        return yield* new RunDirectoryError({
          directory: file,
          reason: `line ${index + 1} is no row of metrics; restore it, or take the line out and lose that step's row`
        })
      }
      if (Number(row.right.step) <= lastStep) rows.push(row.right)
    }
    return rows
  }).pipe(Effect.mapError((cause) => (cause._tag === "RunDirectoryError" ? cause : failed(file)(cause))))

const isRow = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

/** A run that failed before its first rollout leaves its configuration alone; it is not what a resume is meant for. */
const hasBegun = (directory: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const rollouts = path.join(directory, "rollouts")
    if (yield* fs.exists(path.join(directory, "metrics.jsonl"))) return true
    if ((yield* Checkpoint.list(path.join(directory, "checkpoints"))).length > 0) return true
    return (yield* fs.exists(rollouts)) && (yield* fs.readDirectory(rollouts)).length > 0
  })

/**
 * The newest directory of `name` whose run has begun, at its newest checkpoint. Its metrics are cut back to that step. Fails when there is
 * none, and when the configuration has changed in more than its length, its checkpoints or its place.
 *
 * @category constructors
 */
export const resume = (options: { readonly outputDir: string; readonly name: string; readonly config: string }) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const numbers = [...(yield* taken(options.outputDir, options.name))].reverse()
    const directories = numbers.map((number) => path.join(options.outputDir, nameOf(options.name, number)))
    const directory = (yield* Effect.filter(directories, hasBegun))[0] ?? directories[0]
    if (directory === undefined) {
      return yield* new RunDirectoryError({
        directory: path.join(options.outputDir, options.name),
        reason: "there is no run to resume; leave --resume out to start one"
      })
    }
    const resumedFrom = (yield* Checkpoint.list(path.join(directory, "checkpoints"))).at(-1)
    const run = at(path, directory, resumedFrom)
    const changed = differences(yield* fs.readFileString(run.config), options.config)
    if (changed.length > 0) {
      return yield* new RunDirectoryError({
        directory,
        reason: `the configuration is not the one it was started with, so it cannot go on as the same run:\n  ${changed.join("\n  ")}`
      })
    }
    const rows = yield* readMetrics(run.metrics, resumedFrom ?? 0)
    yield* fs.writeFileString(run.config, options.config)
    yield* fs.writeFileString(run.metrics, rows.map((row) => `${JSON.stringify(row)}\n`).join(""))
    return run
  }).pipe(Effect.mapError((cause) => (cause._tag === "RunDirectoryError" ? cause : failed(options.outputDir)(cause))))
