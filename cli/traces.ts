/** Reads traces from as many files as are named: a run's rollouts, and traces alone. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { reasonInWords } from "../src/internal/FileWords.ts"
import * as Rollout from "../src/Rollout.ts"
import * as Trace from "../src/Trace.ts"

/** A file that holds no traces. @category errors */
export class TraceReadError extends Data.TaggedError("TraceReadError")<{
  readonly file: string
  readonly line?: number | undefined
  readonly reason: string
}> {
  override get message() {
    const where = this.line === undefined ? this.file : `${this.file}:${this.line}`
    return `${where}: ${this.reason}`
  }
}

/** One line of a file. @category model */
export interface Entry {
  readonly file: string
  readonly line: number
  /** its own id; its place in the files when it has none */
  readonly id: string
  /** undefined for a rollout that did not count */
  readonly trace: Trace.LooseTrace | undefined
  /** why it did not count */
  readonly absent: string | undefined
}

const hint = "a run keeps its rollouts in runs/NAME/rollouts/step_*.jsonl"

const textOf = (file: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const bytes = yield* Effect.mapError(
      fs.readFile(file),
      (error) => new TraceReadError({ file, reason: reasonInWords(error) })
    )
    return yield* Either.try({
      try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes),
      catch: () => new TraceReadError({ file, reason: `is not UTF-8 text; ${hint}` })
    })
  })

const entryOf = (file: string, line: number, text: string): Either.Either<Entry, string> => {
  const read = Trace.parseLoosely(text)
  if (Either.isRight(read)) {
    return Either.right({ file, line, id: read.right.id ?? `${file}:${line}`, trace: read.right, absent: undefined })
  }
  const ended = Rollout.parse(text)
  if (Either.isRight(ended) && Rollout.isAbsent(ended.right)) {
    const { planned, reason } = ended.right
    return Either.right({ file, line, id: planned.id, trace: undefined, absent: Rollout.explain(reason) })
  }
  return Either.left(read.left.message)
}

const entriesOf = (file: string, text: string) =>
  Either.gen(function* () {
    const entries: Array<Entry> = []
    const notes: Array<string> = []
    const lines = text.split("\n")
    for (const [index, one] of lines.entries()) {
      if (one.trim() === "") continue
      const line = index + 1
      const entry = entryOf(file, line, one)
      if (Either.isRight(entry)) entries.push(entry.right)
      // A run that was stopped can leave half a line behind its last whole one.
      else if (line === lines.length && line > 1) {
        notes.push(`${file}:${line}: the last line is cut short and left out`)
      } else {
        return yield* Either.left(new TraceReadError({ file, line, reason: `${entry.left}; ${hint}` }))
      }
    }
    if (entries.length === 0) {
      return yield* Either.left(new TraceReadError({ file, reason: `there are no traces in it; ${hint}` }))
    }
    return { entries, notes }
  })

/** Every line of the files, in their order; the first that is wrong ends it. @category reading */
export const read = (files: ReadonlyArray<string>) =>
  Effect.map(
    Effect.forEach(files, (file) => Effect.flatMap(textOf(file), (text) => entriesOf(file, text))),
    (parts) => ({
      entries: parts.flatMap(({ entries }) => entries),
      notes: parts.flatMap(({ notes }) => notes)
    })
  )
