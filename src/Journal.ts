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
import * as ScoredStep from "./orchestrator/ScoredStep.ts"
import * as Rollout from "./Rollout.ts"
import type { Snapshot } from "./State.ts"

/** A journal that cannot be read or written, with the file. @category errors */
export class JournalError extends Data.TaggedError("JournalError")<{
  readonly file: string
  readonly reason: string
}> {
  override get message() {
    return `journal ${this.file}: ${this.reason}`
  }
}

/** Finds what has ended and what it came to, and writes both down. @category model */
export interface JournalService {
  readonly find: (id: string) => Option.Option<Rollout.Ended>
  /** Returns once the line is with the operating system. */
  readonly append: (step: number, ended: Rollout.Ended) => Effect.Effect<void, JournalError>
  /**
   * Nothing more will be appended for `step`: puts its rollouts into the order of its items, whatever ended first, and
   * writes down what they came to. A step is sealed whole or not at all.
   */
  readonly seal: (step: number, scored: ScoredStep.ScoredStep) => Effect.Effect<void, JournalError>
  /** What a step came to, if it was sealed before. */
  readonly sealed: (step: number) => Effect.Effect<Option.Option<ScoredStep.ScoredStep>, JournalError>
}

/** The record of every rollout that has ended, and of the credit of every step that is whole. @category tags */
export class Journal extends Context.Tag("primerl/Journal")<Journal, JournalService>() {}

const idOf = (ended: Rollout.Ended) => (ended._tag === "Absent" ? ended.planned.id : ended.id)

const itemId = (item: ScoredStep.ScoredStep["items"][number]) =>
  item._tag === "Absent" ? item.planned.id : item.rollout.id

/** An environment of the user's own can give what no journal has a form for. */
const unwritable = (file: string, ended: Rollout.Ended) => (cause: unknown) => {
  const issue = ParseResult.isParseError(cause) ? ParseResult.ArrayFormatter.formatErrorSync(cause)[0] : undefined
  const words = issue === undefined ? inWords(cause) : `${issue.path.map(String).join(".")}: ${issue.message}`
  return new JournalError({ file, reason: `rollout ${idOf(ended)} cannot be written down: ${words}` })
}

/** Keeps what ended for as long as the process lives. @category layers */
export const layerMemory: Layer.Layer<Journal> = Layer.sync(Journal, () => {
  const known = new Map<string, Rollout.Ended>()
  const steps = new Map<number, ScoredStep.ScoredStep>()
  return Journal.of({
    find: (id) => Option.fromNullable(known.get(id)),
    append: (_, ended) => Effect.sync(() => void known.set(idOf(ended), ended)),
    seal: (step, scored) => Effect.sync(() => void steps.set(step, scored)),
    sealed: (step) => Effect.sync(() => Option.fromNullable(steps.get(step)))
  })
})

/** Remembers nothing: for programs that never restart. @category layers */
export const layerNone: Layer.Layer<Journal> = Layer.succeed(Journal, {
  find: () => Option.none(),
  append: () => Effect.void,
  seal: () => Effect.void,
  sealed: () => Effect.succeedNone
})

/** The file of one step, numbered so that names sort as steps do. @category model */
export const fileOf = (step: number) => `step_${String(step).padStart(6, "0")}.jsonl`

const failed = (file: string) => (cause: { readonly message: string }) =>
  new JournalError({ file, reason: cause.message })

/** Text in place of a file's, whole or not at all. */
const replace = (fs: FileSystem.FileSystem, file: string, text: string) =>
  fs
    .writeFileString(`${file}.partial`, text)
    .pipe(Effect.zipRight(fs.rename(`${file}.partial`, file)), Effect.mapError(failed(file)))

/** The text of a sealed step in `credits`, where it is there. */
const readSealed = (credits: string, step: number) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const file = (yield* Path.Path).join(credits, fileOf(step))
    const there = yield* Effect.mapError(fs.exists(file), failed(file))
    return there
      ? Option.some({ file, text: yield* Effect.mapError(fs.readFileString(file), failed(file)) })
      : Option.none()
  })

/**
 * The cells of state behind the last of the steps that are sealed, `from` and those that follow it without a gap: where
 * a run goes on that reads these steps instead of scoring them. None when `from` is not sealed.
 *
 * @category getters
 */
export const stateBehind = (options: { readonly credits: string; readonly from: number }) =>
  Effect.gen(function* () {
    const { credits, from } = options
    let last: Option.Option<{ readonly file: string; readonly text: string }> = Option.none()
    for (let step = from; ; step++) {
      const next = yield* readSealed(credits, step)
      if (Option.isNone(next)) break
      last = next
    }
    if (Option.isNone(last)) return Option.none<Snapshot>()
    const { file, text } = last.value
    return yield* Either.mapBoth(ScoredStep.stateOf(text), {
      onLeft: (reason) => new JournalError({ file, reason }),
      onRight: Option.some
    })
  })

/** Where a journal's files are. @category model */
export interface FileOptions {
  /** holds the rollouts of each step */
  readonly directory: string
  /** holds the credit of each step that is whole */
  readonly credits: string
  /** first step that is of interest: what is there of it and of later ones is read (0) */
  readonly from?: number | undefined
}

/**
 * One file of JSON lines per step in each of two directories; what is there already is read when the layer is built. A
 * line that does not decode is an error, except the last one of a file of rollouts without its line end.
 *
 * @category layers
 */
export const layerFile = (options: FileOptions) =>
  Layer.effect(
    Journal,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const { credits, directory, from = 0 } = options
      const known = new Map<string, Rollout.Ended>()
      // Lines of steps that are not sealed yet, by id.
      const lines = new Map<number, Map<string, string>>()
      const linesOf = (step: number) => {
        const found = lines.get(step) ?? new Map<string, string>()
        lines.set(step, found)
        return found
      }

      for (const one of [directory, credits]) {
        yield* Effect.mapError(fs.makeDirectory(one, { recursive: true }), failed(one))
      }
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
        seal: (step, scored) =>
          Effect.gen(function* () {
            const found = linesOf(step)
            const ids = scored.items.map(itemId)
            const file = path.join(credits, fileOf(step))
            const credit = yield* Effect.try({
              try: () => ScoredStep.text(step, scored),
              catch: (cause) =>
                new JournalError({ file, reason: `step ${step} cannot be written down: ${inWords(cause)}` })
            })
            const rollouts = ids.flatMap((id) => (found.has(id) ? [`${found.get(id)}\n`] : [])).join("")
            // The credits come last: where they are, their rollouts are.
            yield* replace(fs, path.join(directory, fileOf(step)), rollouts)
            yield* replace(fs, file, credit)
            lines.delete(step)
            for (const id of ids) known.delete(id)
          }).pipe(one.withPermits(1), Effect.uninterruptible),
        sealed: (step) =>
          Effect.gen(function* () {
            const written = yield* readSealed(credits, step)
            if (Option.isNone(written)) return Option.none()
            const { file, text } = written.value
            const scored = yield* Either.mapLeft(
              ScoredStep.parse(text, (id) => Option.fromNullable(known.get(id))),
              (reason) => new JournalError({ file, reason })
            )
            const ids = scored.items.map(itemId)
            const journaled = Array.from(linesOf(step).keys())
            // A file that was cut between two lines reads well, and would train on a part of its step.
            if (ids.join("\n") !== journaled.join("\n")) {
              const reason = `its ${ids.length} lines are not those of the ${journaled.length} rollouts in ${path.join(directory, fileOf(step))}, in their order; take it away to score the step again`
              return yield* new JournalError({ file, reason })
            }
            for (const id of ids) known.delete(id)
            lines.delete(step)
            return Option.some(scored)
          }).pipe(Effect.provideService(FileSystem.FileSystem, fs), Effect.provideService(Path.Path, path))
      })
    })
  )
