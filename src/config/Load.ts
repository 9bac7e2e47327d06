/** Files and `--set` values to one tree: read, put into canonical spelling, made absolute, laid over each other. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { reasonInWords } from "../internal/FileWords.ts"
import type { Rewritten } from "./Aliases.ts"
import * as Document from "./Document.ts"
import { type Located, make, merge } from "./Located.ts"
import { ConfigError, type Problem } from "./Problem.ts"

/** Bytes that are no text are refused: the wrong characters would be read in silence. */
const decode = (bytes: Uint8Array) =>
  Either.try({
    try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes),
    catch: () => "is not UTF-8; save it as UTF-8 text"
  })

const readFile = (file: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const text = yield* fs.readFile(file).pipe(
      Effect.mapError(reasonInWords),
      Effect.flatMap(decode),
      Effect.mapError((what): ReadonlyArray<Problem> => [{ source: file, line: undefined, key: "", what }])
    )
    return yield* Document.ofText(text, file, path.dirname(path.resolve(file)))
  })

/** The documents in the order in which they are laid over each other; all unreadable ones are one error. @category loading */
export const documents = (
  files: ReadonlyArray<string>,
  sets: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<Located>, ConfigError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const read = yield* Effect.forEach(files, (file) => Effect.either(readFile(file)))
    const set = sets.map((assignment) => Document.ofSet(assignment, path.resolve(".")))
    const all = [...read, ...set]
    const problems = all.flatMap((document) => (Either.isLeft(document) ? document.left : []))
    if (problems.length > 0) return yield* new ConfigError({ problems })
    return all.flatMap((document) => (Either.isRight(document) ? [document.right] : []))
  })

/** Lays documents over each other, left to right. @category combinators */
export const compose = (documents: ReadonlyArray<Located>, canonical: (tree: Located) => Rewritten): Rewritten => {
  const source = documents[0]?.place.source ?? "configuration"
  const empty = make({}, () => ({ source, line: undefined, directory: "", key: "" }))
  return documents
    .map(canonical)
    .reduce<Rewritten>(
      (done, next) => ({ tree: merge(done.tree, next.tree), problems: [...done.problems, ...next.problems] }),
      { tree: empty, problems: [] }
    )
}
