/**
 * Where a run keeps what it did: the resolved configuration, `metrics.jsonl`, every rollout, checkpoints, a summary.
 * A new run never writes into the directory of another; a resumed one goes on where its last checkpoint stands.
 */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Checkpoint from "../Checkpoint.ts"
import { inWords } from "../internal/FileWords.ts"
import * as Lock from "./Lock.ts"
import * as MetricsFile from "./MetricsFile.ts"

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
  readonly credits: string
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
  credits: path.join(directory, "credits"),
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

const failed = (directory: string) => (cause: PlatformError) =>
  new RunDirectoryError({ directory, reason: inWords(cause) })

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

type Told = RunDirectoryError | Lock.LockError | Checkpoint.CheckpointError | MetricsFile.MetricsError

/** What is already told in words stays as it is; what a file system says gets its place. */
const told =
  (directory: string) =>
  (cause: Told | PlatformError): Told =>
    cause._tag === "SystemError" || cause._tag === "BadArgument" ? failed(directory)(cause) : cause

/**
 * A fresh directory: `name`, or with the next free number when runs of that name are there. It is held for as long as
 * the scope is open.
 *
 * @category constructors
 */
export const create = (options: { readonly outputDir: string; readonly name: string; readonly config: string }) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const number = ((yield* taken(options.outputDir, options.name)).at(-1) ?? 0) + 1
    yield* fs.makeDirectory(options.outputDir, { recursive: true })
    const run = at(path, yield* claim(options.outputDir, options.name, number), undefined)
    yield* Lock.hold(run.path)
    yield* fs.writeFileString(run.config, options.config)
    return run
  }).pipe(Effect.mapError(told(options.outputDir)))

/** What a resumed run may change: its length, its place, and how the models of others are reached. */
const free = (table: string, line: string): boolean =>
  table.startsWith("[ckpt") ||
  /^(max_steps|output_dir) =/.test(line) ||
  (/\.(algo|sampling)\./.test(table) && /^(base_url|api_key_var|timeout_ms|max_retries) =/.test(line))

/** Every line with the table that it stands in; the second item of a list says that it is. */
const inTables = (text: string): ReadonlyArray<string> => {
  const items = new Map<string, number>()
  let table = ""
  let place = ""
  return text.split("\n").flatMap((line) => {
    if (line.startsWith("[[")) {
      const item = (items.get(line) ?? 0) + 1
      items.set(line, item)
      place = item === 1 ? "" : ` (${item})`
    } else if (line.startsWith("[") && !line.startsWith("[orchestrator.train.source.")) place = ""
    if (line.startsWith("[")) table = `${line}${place}`
    return line.trim() === "" || free(table, line) ? [] : [line.startsWith("[") ? table : `${table} ${line}`.trim()]
  })
}

/** Lines that differ. */
const differences = (before: string, now: string): ReadonlyArray<string> => {
  const [old, fresh] = [new Set(inTables(before)), new Set(inTables(now))]
  return [
    ...Array.from(old).flatMap((line) => (fresh.has(line) ? [] : [`- ${line}`])),
    ...Array.from(fresh).flatMap((line) => (old.has(line) ? [] : [`+ ${line}`]))
  ]
}

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
 * The newest directory of `name` whose run has begun, at its newest checkpoint, held for as long as the scope is open.
 * Nothing in it is changed. Fails when there is none, when another process holds it, and when the configuration has
 * changed in more than its length, its checkpoints, its place or how the models of others are reached.
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
    // What it holds stays as it is from here on.
    yield* Lock.hold(directory)
    const resumedFrom = (yield* Checkpoint.list(path.join(directory, "checkpoints"))).at(-1)
    const run = at(path, directory, resumedFrom)
    const changed = differences(yield* fs.readFileString(run.config), options.config)
    if (changed.length > 0) {
      return yield* new RunDirectoryError({
        directory,
        reason: `the configuration is not the one it was started with, so it cannot go on as the same run:\n  ${changed.join("\n  ")}`
      })
    }
    return { run, rows: yield* MetricsFile.read(run.metrics, resumedFrom ?? 0) }
  }).pipe(Effect.mapError(told(options.outputDir)))

/**
 * Cuts a run's metrics back to `rows` and takes up the configuration that it goes on with; each file is replaced whole
 * or not at all.
 *
 * @category combinators
 */
export const rewind = (run: RunDirectory, rows: ReadonlyArray<MetricsFile.Row>, config: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const replace = (file: string, text: string) =>
      Effect.zipRight(fs.writeFileString(`${file}.partial`, text), fs.rename(`${file}.partial`, file))
    yield* replace(run.metrics, MetricsFile.text(rows))
    yield* replace(run.config, config)
  }).pipe(Effect.mapError(failed(run.path)))
