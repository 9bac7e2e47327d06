/** `metrics.jsonl` as it is read again: rows of steps in their order. What is no such row is an error, never passed over. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { reasonInWords } from "../internal/FileWords.ts"

/** @category errors */
export class MetricsError extends Data.TaggedError("MetricsError")<{ readonly file: string; readonly reason: string }> {
  override get message() {
    return `${this.file}: ${this.reason}`
  }
}

/** A row of `metrics.jsonl`: what the run itself reads of it, beside all that it holds. @category model */
export interface Row {
  readonly step: number
  /** null when it was not finite */
  readonly reward: number | null
  readonly [column: string]: unknown
}

/** Rows of `metrics.jsonl` up to a step; a file that is not there has none, a line that is no row is an error. @category getters */
export const read = (file: string, lastStep: number) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    if (!(yield* fs.exists(file))) return []
    const rows: Array<Row> = []
    const text = yield* fs.readFileString(file)
    // A kill can cut the last line, which then has no line end.
    const whole = text.slice(0, text.lastIndexOf("\n") + 1)
    if (whole !== text) yield* Effect.logWarning(`${file}: its last line was cut short and is left out`)
    const lines = whole.split("\n")
    let before = 0
    for (const [index, line] of lines.entries()) {
      if (line === "") continue
      const row = Either.try((): unknown => JSON.parse(line))
      const problem = Either.isLeft(row) ? "it is not JSON" : rowProblem(row.right, before)
      if (Either.isLeft(row) || problem !== undefined) {
        return yield* new MetricsError({
          file,
          reason: `line ${index + 1} is no row of metrics (${problem}); restore it, or take the line out and lose that step's row`
        })
      }
      const one = row.right as Row
      before = one.step
      if (one.step <= lastStep) rows.push(one)
    }
    return rows
  }).pipe(
    Effect.mapError((cause) =>
      cause._tag === "MetricsError" ? cause : new MetricsError({ file, reason: reasonInWords(cause) })
    )
  )

const rowProblem = (value: unknown, stepBefore: number): string | undefined => {
  if (typeof value !== "object" || value === null) return "it is not an object"
  const { reward, step } = value as Partial<Row>
  if (!Number.isSafeInteger(step) || step! <= stepBefore) return `its step must be a whole number above ${stepBefore}`
  if (reward !== null && typeof reward !== "number") return "its reward must be a number or null"
  return undefined
}

/** Adds the row of a step that is done. @category encoding */
export const append = (file: string, row: Readonly<Record<string, unknown>>) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    fs.writeFileString(file, `${JSON.stringify(row)}\n`, { flag: "a" })
  ).pipe(Effect.mapError((cause) => new MetricsError({ file, reason: reasonInWords(cause) })))

/** Rows as the file holds them. @category encoding */
export const text = (rows: ReadonlyArray<Row>): string => rows.map((row) => `${JSON.stringify(row)}\n`).join("")
