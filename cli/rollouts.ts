/** Reads the rollouts that a run wrote down, from as many files as are named. */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Rollout from "../src/Rollout.ts"
import * as Records from "./records.ts"

/** What was read, and what is worth saying about it. @category model */
export interface Read {
  /** in the order of dispatch, source by source */
  readonly rollouts: ReadonlyArray<Rollout.Ended>
  readonly notes: ReadonlyArray<string>
}

/** The words of a schema go over many lines; its first and last say what and where. */
const brief = (reason: string): string => {
  const lines = reason.split("\n").filter((line) => line.trim() !== "")
  const last = lines.at(-1)!.replace(/^[\s│├└─]+/, "")
  return lines.length === 1 ? lines[0]! : `${lines[0]} … ${last}`
}

const parse = (text: string) => Either.mapLeft(Rollout.parse(text), ({ message }) => brief(message))

/** The first rollout that is there twice, in words. */
const twice = (lines: ReadonlyArray<Records.Line<Rollout.Ended>>): Records.RecordFileError | undefined => {
  const seen = new Map<string, string>()
  for (const { file, line, value } of lines) {
    const { id } = Rollout.plannedOf(value)
    const earlier = seen.get(id)
    if (earlier !== undefined) {
      const reason = `rollout ${id} is also at ${earlier}; every rollout ends once`
      return new Records.RecordFileError({ file, line, reason })
    }
    seen.set(id, `${file}:${line}`)
  }
  return undefined
}

const bySequence = (a: Rollout.Ended, b: Rollout.Ended) => Rollout.plannedOf(a).sequence - Rollout.plannedOf(b).sequence

/** Every rollout of the files; the first that is wrong ends it. @category reading */
export const read = (
  files: ReadonlyArray<string>
): Effect.Effect<Read, Records.RecordFileError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const parts = yield* Effect.forEach(files, (file) => Records.read(file, "rollouts", parse))
    const lines = parts.flatMap((part) => part.lines)
    const doubled = twice(lines)
    if (doubled !== undefined) return yield* doubled
    return {
      rollouts: lines.map(({ value }) => value).sort(bySequence),
      notes: parts.flatMap(({ notes }) => notes)
    }
  })
