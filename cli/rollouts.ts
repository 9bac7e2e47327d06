/** Reads the rollouts that a run wrote down, from as many files as are named. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { reasonInWords } from "../src/internal/FileWords.ts"
import * as Rollout from "../src/Rollout.ts"

/** A file that is no record of rollouts. @category errors */
export class RolloutFileError extends Data.TaggedError("RolloutFileError")<{
  readonly file: string
  readonly line?: number | undefined
  readonly reason: string
}> {
  override get message() {
    const where = this.line === undefined ? this.file : `${this.file}:${this.line}`
    return `${where}: ${this.reason}`
  }
}

/** What was read, and what is worth saying about it. @category model */
export interface Read {
  /** in the order of dispatch, source by source */
  readonly rollouts: ReadonlyArray<Rollout.Ended>
  readonly notes: ReadonlyArray<string>
}

const hint = "a run keeps its rollouts in runs/NAME/rollouts/step_*.jsonl"

/** The words of a schema go over many lines; its first and last say what and where. */
const brief = (reason: string): string => {
  const lines = reason.split("\n").filter((line) => line.trim() !== "")
  const last = lines.at(-1)!.replace(/^[\s│├└─]+/, "")
  return lines.length === 1 ? lines[0]! : `${lines[0]} … ${last}`
}

const textOf = (file: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const bytes = yield* Effect.mapError(
      fs.readFile(file),
      (error) => new RolloutFileError({ file, reason: reasonInWords(error) })
    )
    return yield* Either.try({
      try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes),
      catch: () => new RolloutFileError({ file, reason: `is not UTF-8 text; ${hint}` })
    })
  })

/** Which rollouts stand where; `seen` finds one that is there twice. */
const linesOf = (file: string, text: string, seen: Map<string, string>) =>
  Either.gen(function* () {
    const rollouts: Array<Rollout.Ended> = []
    const notes: Array<string> = []
    const lines = text.split("\n")
    for (const [index, line] of lines.entries()) {
      if (line.trim() === "") continue
      const number = index + 1
      const ended = Rollout.parse(line)
      if (Either.isLeft(ended)) {
        // A run that was stopped can leave half a line behind its last whole one.
        if (number === lines.length && number > 1) {
          notes.push(`${file}:${number}: the last line is cut short and left out`)
          continue
        }
        return yield* Either.left(
          new RolloutFileError({ file, line: number, reason: `${brief(ended.left.message)}; ${hint}` })
        )
      }
      const { id } = Rollout.plannedOf(ended.right)
      const earlier = seen.get(id)
      if (earlier !== undefined) {
        const reason = `rollout ${id} is also at ${earlier}; every rollout ends once`
        return yield* Either.left(new RolloutFileError({ file, line: number, reason }))
      }
      seen.set(id, `${file}:${number}`)
      rollouts.push(ended.right)
    }
    if (rollouts.length === 0) {
      return yield* Either.left(new RolloutFileError({ file, reason: `there are no rollouts in it; ${hint}` }))
    }
    return { rollouts, notes }
  })

const bySequence = (a: Rollout.Ended, b: Rollout.Ended) => Rollout.plannedOf(a).sequence - Rollout.plannedOf(b).sequence

/** Every rollout of the files; the first that is wrong ends it. @category reading */
export const read = (files: ReadonlyArray<string>): Effect.Effect<Read, RolloutFileError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const seen = new Map<string, string>()
    const parts = yield* Effect.forEach(files, (file) =>
      Effect.flatMap(textOf(file), (text) => linesOf(file, text, seen))
    )
    return {
      rollouts: parts.flatMap(({ rollouts }) => rollouts).sort(bySequence),
      notes: parts.flatMap(({ notes }) => notes)
    }
  })
