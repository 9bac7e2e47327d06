/**
 * A run's directory is used by one process at a time: a file in it names the process for as long as the scope is open.
 * The file of a process that is gone, killed where it stood, is taken over.
 */
import * as os from "node:os"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { inWords } from "../internal/FileWords.ts"

/** @category errors */
export class LockError extends Data.TaggedError("LockError")<{
  readonly directory: string
  readonly reason: string
}> {
  override get message() {
    return `run ${this.directory}: ${this.reason}`
  }
}

const Holder = Schema.parseJson(Schema.Struct({ pid: Schema.Int, host: Schema.String }))
const parse = Schema.decodeEither(Holder)
const stringify = Schema.encodeSync(Holder)

/** Files of this process: one that names its number and is not here is of an earlier process of the same number. */
const own = new Set<string>()

/** Signal 0 only asks; that it may not be sent says that the process is there. */
const isAlive = (pid: number): boolean =>
  Either.match(Either.try({ try: () => process.kill(pid, 0), catch: (cause) => cause as NodeJS.ErrnoException }), {
    onLeft: ({ code }) => code === "EPERM",
    onRight: () => true
  })

/** Why the file stands in the way, or undefined when nobody holds it. */
const inTheWay = (file: string, text: string): string | undefined => {
  const holder = parse(text)
  if (Either.isLeft(holder)) return `${file} does not say who uses it; remove the file if nobody does`
  const { host, pid } = holder.right
  if (host !== os.hostname()) {
    return `it is in use by process ${pid} on ${host}; if that process is gone, remove ${file}`
  }
  const lives = pid === process.pid ? own.has(file) : isAlive(pid)
  return lives
    ? `it is in use by process ${pid}; stop that process first, or remove ${file} if it is another program's`
    : undefined
}

/** Holds the directory until the scope closes; fails when another run holds it. @category resources */
export const hold = (directory: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const file = (yield* Path.Path).resolve(directory, "run.lock")
    const write = fs.writeFileString(file, stringify({ pid: process.pid, host: os.hostname() }), { flag: "wx" })
    const takeOver = Effect.gen(function* () {
      const reason = inTheWay(file, yield* fs.readFileString(file))
      if (reason !== undefined) return yield* new LockError({ directory, reason })
      yield* fs.remove(file, { force: true })
      yield* write
    })
    yield* Effect.acquireRelease(
      write.pipe(
        Effect.catchIf(
          (cause) => cause._tag === "SystemError" && cause.reason === "AlreadyExists",
          () => takeOver
        ),
        Effect.mapError((cause) =>
          cause._tag === "LockError" ? cause : new LockError({ directory, reason: inWords(cause) })
        ),
        Effect.tap(() => Effect.sync(() => own.add(file)))
      ),
      () =>
        Effect.zipRight(
          Effect.sync(() => own.delete(file)),
          Effect.ignore(fs.remove(file, { force: true }))
        )
    )
  })
