/** Reads traces from as many files as are named: a run's rollouts, and traces alone. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Rollout from "../src/Rollout.ts"
import * as Trace from "../src/Trace.ts"
import * as Records from "./records.ts"

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

type Found = Omit<Entry, "file" | "line" | "id"> & { readonly id: string | undefined }

const parse = (text: string): Either.Either<Found, string> => {
  const read = Trace.parseLoosely(text)
  if (Either.isRight(read)) return Either.right({ id: read.right.id, trace: read.right, absent: undefined })
  const ended = Rollout.parse(text)
  if (Either.isRight(ended) && Rollout.isAbsent(ended.right)) {
    const { planned, reason } = ended.right
    return Either.right({ id: planned.id, trace: undefined, absent: Rollout.explain(reason) })
  }
  return Either.left(read.left.message)
}

const entryOf = ({ file, line, value }: Records.Line<Found>): Entry => ({
  ...value,
  file,
  line,
  id: value.id ?? `${file}:${line}`
})

/** Every line of the files, in their order; the first that is wrong ends it. @category reading */
export const read = (files: ReadonlyArray<string>) =>
  Effect.map(
    Effect.forEach(files, (file) => Records.read(file, "traces", parse)),
    (parts) => ({
      entries: parts.flatMap(({ lines }) => lines.map(entryOf)),
      notes: parts.flatMap(({ notes }) => notes)
    })
  )
