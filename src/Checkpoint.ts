/**
 * A step's weights, optimiser and state on disk: whole or not there. A checkpoint is written beside its final name and
 * renamed, so that whatever has the name can be resumed from and loaded as a Hugging Face model.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { inWords } from "./internal/FileWords.ts"
import { Trainer } from "./Trainer/Trainer.ts"

/** Raised with every change of what a checkpoint directory holds. */
const formatVersion = 1

/** A checkpoint that cannot be written, listed or read. @category errors */
export class CheckpointError extends Data.TaggedError("CheckpointError")<{
  readonly directory: string
  readonly reason: string
}> {
  override get message() {
    return `checkpoint ${this.directory}: ${this.reason}`
  }
}

/** What a checkpoint of a finished step says beside the trainer's own files. @category model */
export interface Step {
  readonly step: number
  /** last step of the run */
  readonly steps: number
  /** the next step's rollouts, on weights older than these, are journaled */
  readonly ahead: boolean
  /** every state cell, encoded, as it was before the next step's rollouts */
  readonly state: Readonly<Record<string, unknown>>
}

/** Decides after each step whether a checkpoint is due, and writes it. @category model */
export interface CheckpointsService {
  /** Writes a checkpoint when one is due after this step. */
  readonly afterStep: (step: Step) => Effect.Effect<void, CheckpointError>
}

/** Where the orchestrator leaves its checkpoints. @category tags */
export class Checkpoints extends Context.Tag("primerl/Checkpoints")<Checkpoints, CheckpointsService>() {}

/** Keeps none. @category layers */
export const layerNone: Layer.Layer<Checkpoints> = Layer.succeed(Checkpoints, { afterStep: () => Effect.void })

const Manifest = Schema.parseJson(
  Schema.Struct({
    format_version: Schema.Number,
    step: Schema.Number,
    ahead: Schema.Boolean,
    state: Schema.Record({ key: Schema.String, value: Schema.Unknown })
  })
)

/** Where checkpoints go, how often they are written, and which stay. @category model */
export interface Options {
  /** holds one directory per checkpoint, `step_N` */
  readonly directory: string
  /** steps between checkpoints; the last step always has one */
  readonly interval?: number | undefined
  /** how many of the newest stay; undefined keeps all */
  readonly keepLast?: number | undefined
  /** multiples of this stay whatever `keepLast` says */
  readonly keepInterval?: number | undefined
}

const stepOf = (name: string) => {
  const match = /^step_(\d+)$/.exec(name)
  return match === null ? undefined : Number(match[1])
}

/** Steps that have a whole checkpoint in `directory`, smallest first; a directory that does not exist has none. @category getters */
export const list = (directory: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    if (!(yield* fs.exists(directory))) return []
    const path = yield* Path.Path
    const steps = (yield* fs.readDirectory(directory)).flatMap((name) => stepOf(name) ?? []).sort((a, b) => a - b)
    const manifestOf = (step: number) => path.join(directory, `step_${step}`, "checkpoint.json")
    return yield* Effect.filter(steps, (step) => Effect.orElseSucceed(fs.exists(manifestOf(step)), () => false))
  }).pipe(Effect.mapError((cause) => new CheckpointError({ directory, reason: inWords(cause) })))

/** Which of `steps` may go once the newest is written. @category getters */
export const expired = (
  steps: ReadonlyArray<number>,
  options: Pick<Options, "keepInterval" | "keepLast">
): ReadonlyArray<number> => {
  const { keepInterval, keepLast } = options
  if (keepLast === undefined) return []
  const old = [...steps].sort((a, b) => a - b).slice(0, -keepLast)
  return keepInterval === undefined ? old : old.filter((step) => step % keepInterval !== 0)
}

/** The state cells of the checkpoint at `directory`. @category getters */
export const read = (directory: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const text = yield* fs.readFileString(path.join(directory, "checkpoint.json"))
    const manifest = yield* Effect.mapError(Schema.decode(Manifest)(text), (error) => {
      const [issue] = ParseResult.ArrayFormatter.formatErrorSync(error)
      const where = issue === undefined || issue.path.length === 0 ? "" : `${issue.path.join(".")}: `
      const reason = `checkpoint.json is damaged (${where}${issue?.message}); take this directory away to go on from the checkpoint before it`
      return new CheckpointError({ directory, reason })
    })
    if (manifest.format_version !== formatVersion) {
      return yield* new CheckpointError({
        directory,
        reason: `its format version is ${manifest.format_version}, this primerl reads ${formatVersion}; resume it with the version that wrote it`
      })
    }
    if (stepOf(path.basename(directory)) !== manifest.step) {
      return yield* new CheckpointError({ directory, reason: `its checkpoint.json is that of step ${manifest.step}` })
    }
    return { step: manifest.step, ahead: manifest.ahead, state: manifest.state }
  }).pipe(
    Effect.mapError((cause) =>
      cause._tag === "CheckpointError" ? cause : new CheckpointError({ directory, reason: inWords(cause) })
    )
  )

/** Copies the model of a checkpoint, without what only training needs. @category combinators */
export const copyModel = (from: string, to: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    yield* fs.makeDirectory(to, { recursive: true })
    for (const name of yield* fs.readDirectory(from)) {
      if (name === "optimizer" || name === "checkpoint.json") continue
      yield* fs.copyFile(path.join(from, name), path.join(to, name))
    }
  }).pipe(Effect.mapError((cause) => new CheckpointError({ directory: to, reason: inWords(cause) })))

/**
 * Checkpoints as directories `step_N`; each holds the trainer's model and optimiser and a `checkpoint.json`.
 *
 * @category layers
 */
export const layerDirectory = (options: Options) =>
  Layer.effect(
    Checkpoints,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const trainer = yield* Trainer
      const { directory, interval } = options
      const due = ({ step, steps }: Step) => step === steps || (interval !== undefined && step % interval === 0)

      const write = (at: Step) =>
        Effect.gen(function* () {
          const final = path.join(directory, `step_${at.step}`)
          const partial = `${final}.tmp`
          yield* fs.remove(partial, { recursive: true, force: true })
          yield* fs.makeDirectory(partial, { recursive: true })
          yield* trainer.save(partial)
          const manifest = yield* Schema.encode(Manifest)({
            format_version: formatVersion,
            step: at.step,
            ahead: at.ahead,
            state: at.state
          })
          yield* fs.writeFileString(path.join(partial, "checkpoint.json"), manifest)
          yield* fs.remove(final, { recursive: true, force: true })
          yield* fs.rename(partial, final)
          const present = yield* Effect.provideService(list(directory), Path.Path, path)
          for (const step of expired(present, options)) {
            yield* fs.remove(path.join(directory, `step_${step}`), { recursive: true })
          }
        }).pipe(
          Effect.provideService(FileSystem.FileSystem, fs),
          Effect.mapError((cause) =>
            cause._tag === "CheckpointError" ? cause : new CheckpointError({ directory, reason: cause.message })
          )
        )
      return Checkpoints.of({ afterStep: (at) => (due(at) ? write(at) : Effect.void) })
    })
  )
