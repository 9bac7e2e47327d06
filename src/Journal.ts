/**
 * What has ended is written down before it is used, and found again by its id: a run that stops anywhere goes on from
 * here without asking the policy twice. A line cut short by a kill is as if it had never been written.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import { inWords } from "./internal/inWords.ts"
import * as Rollout from "./Rollout.ts"

/** A journal that cannot be read or written, with the file. @category errors */
export class JournalError extends Data.TaggedError("JournalError")<{
  readonly file: string
  readonly reason: string
}> {
  override get message() {
    return `journal ${this.file}: ${this.reason}`
  }
}

/** Finds what has ended, and writes down what ends. @category model */
export interface JournalService {
  readonly find: (id: string) => Option.Option<Rollout.Ended>
  /** Returns once the line is with the operating system. */
  readonly append: (step: number, ended: Rollout.Ended) => Effect.Effect<void, JournalError>
  /** Nothing more will be appended for `step`: puts what there is into the order of `ids`, whatever ended first. */
  readonly seal: (step: number, ids: ReadonlyArray<string>) => Effect.Effect<void, JournalError>
}

/** The record of every rollout that has ended. @category tags */
export class Journal extends Context.Tag("primerl/Journal")<Journal, JournalService>() {}

const idOf = (ended: Rollout.Ended) => (ended._tag === "Absent" ? ended.planned.id : ended.id)

/** An environment of the user's own can give what no journal has a form for. */
const unwritable = (file: string, ended: Rollout.Ended) => (cause: unknown) => {
  const issue = ParseResult.isParseError(cause) ? ParseResult.ArrayFormatter.formatErrorSync(cause)[0] : undefined
  const words = issue === undefined ? inWords(cause) : `${issue.path.map(String).join(".")}: ${issue.message}`
  return new JournalError({ file, reason: `rollout ${idOf(ended)} cannot be written down: ${words}` })
}

/** Keeps what ended for as long as the process lives. @category layers */
export const layerMemory: Layer.Layer<Journal> = Layer.sync(Journal, () => {
  const known = new Map<string, Rollout.Ended>()
  return Journal.of({
    find: (id) => Option.fromNullable(known.get(id)),
    append: (_, ended) => Effect.sync(() => void known.set(idOf(ended), ended)),
    seal: () => Effect.void
  })
})

/** Remembers nothing: for programs that never restart. @category layers */
export const layerNone: Layer.Layer<Journal> = Layer.succeed(Journal, {
  find: () => Option.none(),
  append: () => Effect.void,
  seal: () => Effect.void
})

/** The file of one step, numbered so that names sort as steps do. @category model */
export const fileOf = (step: number) => `step_${String(step).padStart(6, "0")}.jsonl`

/**
 * One file of JSON lines per step in `directory`; what is there already is read when the layer is built, from step
 * `from` on. A line that does not decode is an error, except the last one of a file without its line end.
 *
 * @category layers
 */
export const layerFile = (options: { readonly directory: string; readonly from?: number | undefined }) =>
  Layer.effect(
    Journal,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const { directory, from = 0 } = options
      const known = new Map<string, Rollout.Ended>()
      // Lines of steps that are not sealed yet, by id.
      const lines = new Map<number, Map<string, string>>()
      const linesOf = (step: number) => {
        const found = lines.get(step) ?? new Map<string, string>()
        lines.set(step, found)
        return found
      }
      const failed = (file: string) => (cause: { readonly message: string }) =>
        new JournalError({ file, reason: cause.message })

      yield* Effect.mapError(fs.makeDirectory(directory, { recursive: true }), failed(directory))
      for (const name of (yield* Effect.mapError(fs.readDirectory(directory), failed(directory))).sort()) {
        const step = /^step_(\d+)\.jsonl$/.exec(name)?.[1]
        if (step === undefined || Number(step) < from) continue
        const file = path.join(directory, name)
        const text = yield* Effect.mapError(fs.readFileString(file), failed(file))
        const whole = text.slice(0, text.lastIndexOf("\n") + 1)
        // A kill can cut the last line; the file must end with a line end before more is appended.
        if (whole.length < text.length) yield* Effect.mapError(fs.writeFileString(file, whole), failed(file))
        for (const [index, line] of whole.split("\n").entries()) {
          if (line === "") continue
          const ended = Rollout.parse(line)
          if (Either.isLeft(ended)) {
            return yield* new JournalError({ file, reason: `line ${index + 1}: ${ended.left.message}` })
          }
          known.set(idOf(ended.right), ended.right)
          linesOf(Number(step)).set(idOf(ended.right), line)
        }
      }

      const one = yield* Effect.makeSemaphore(1)
      return Journal.of({
        find: (id) => Option.fromNullable(known.get(id)),
        append: (step, ended) =>
          Effect.gen(function* () {
            const file = path.join(directory, fileOf(step))
            const line = yield* Effect.try({ try: () => Rollout.stringify(ended), catch: unwritable(file, ended) })
            linesOf(step).set(idOf(ended), line)
            yield* Effect.mapError(fs.writeFileString(file, `${line}\n`, { flag: "a" }), failed(file))
          }).pipe(one.withPermits(1), Effect.uninterruptible),
        seal: (step, ids) =>
          Effect.suspend(() => {
            const file = path.join(directory, fileOf(step))
            const found = linesOf(step)
            lines.delete(step)
            for (const id of ids) known.delete(id)
            const text = ids.flatMap((id) => (found.has(id) ? [`${found.get(id)}\n`] : [])).join("")
            return fs
              .writeFileString(`${file}.partial`, text)
              .pipe(Effect.zipRight(fs.rename(`${file}.partial`, file)), Effect.mapError(failed(file)))
          }).pipe(one.withPermits(1), Effect.uninterruptible)
      })
    })
  )
