/** Reads files with a record on each line, as runs write them; one that was stopped leaves half a line at the end. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { reasonInWords } from "../src/internal/FileWords.ts"

/** A file that does not hold the records that are asked for. @category errors */
export class RecordFileError extends Data.TaggedError("RecordFileError")<{
  readonly file: string
  readonly line?: number | undefined
  readonly reason: string
}> {
  override get message() {
    const where = this.line === undefined ? this.file : `${this.file}:${this.line}`
    return `${where}: ${this.reason}`
  }
}

/** A record and where it stands; lines count from 1. @category model */
export interface Line<A> {
  readonly file: string
  readonly line: number
  readonly value: A
}

/** What was read, and what is worth saying about it. @category model */
export interface Records<A> {
  readonly lines: ReadonlyArray<Line<A>>
  readonly notes: ReadonlyArray<string>
}

const hint = "a run keeps its rollouts in runs/NAME/rollouts/step_*.jsonl"

const textOf = (file: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const bytes = yield* Effect.mapError(
      fs.readFile(file),
      (error) => new RecordFileError({ file, reason: reasonInWords(error) })
    )
    return yield* Either.try({
      try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes),
      catch: () => new RecordFileError({ file, reason: `is not UTF-8 text; ${hint}` })
    })
  })

/** Every line of a file, read by `parse`, which says what is wrong; `what` names the records. @category reading */
export const read = <A>(
  file: string,
  what: string,
  parse: (text: string) => Either.Either<A, string>
): Effect.Effect<Records<A>, RecordFileError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const lines: Array<Line<A>> = []
    const notes: Array<string> = []
    const texts = (yield* textOf(file)).split("\n")
    for (const [index, text] of texts.entries()) {
      if (text.trim() === "") continue
      const line = index + 1
      const value = parse(text)
      if (Either.isRight(value)) lines.push({ file, line, value: value.right })
      else if (line === texts.length && line > 1) {
        notes.push(`${file}:${line}: the last line is cut short and left out`)
      } else return yield* new RecordFileError({ file, line, reason: `${value.left}; ${hint}` })
    }
    if (lines.length === 0) {
      return yield* new RecordFileError({ file, reason: `there are no ${what} in it; ${hint}` })
    }
    return { lines, notes }
  })
