/**
 * A run's directory is used by one process at a time: a file in it names the process for as long as the scope is open.
 * The file of a process that is gone, killed where it stood, is taken over.
 */
import * as os from "node:os"
import type { PlatformError } from "@effect/platform/Error"
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

/** Files that this process holds, or is about to. */
const own = new Set<string>()
let count = 0

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
  // This process does not hold it, or it would not be asking: the file is of an earlier one of the same number.
  const lives = pid !== process.pid && isAlive(pid)
  return lives
    ? `it is in use by process ${pid}; stop that process first, or remove ${file} if it is another program's`
    : undefined
}

const isThere = (cause: PlatformError | LockError) => cause._tag === "SystemError" && cause.reason === "AlreadyExists"

/** Holds the directory until the scope closes; fails when another run holds it. @category resources */
export const hold = (directory: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const file = (yield* Path.Path).resolve(directory, "run.lock")
    const takeover = `${file}.takeover`
    // Written whole beside its name and then linked to it: nobody ever reads half of it.
    const mine = `${file}.${process.pid}-${count++}`
    const check = Effect.gen(function* () {
      const reason = inTheWay(file, yield* fs.readFileString(file))
      if (reason !== undefined) return yield* new LockError({ directory, reason })
    })
    // One at a time takes over, and looks again once it is the one: the file may have another holder by then.
    const takeOver = Effect.acquireUseRelease(
      Effect.catchIf(fs.link(mine, takeover), isThere, () =>
        Effect.fail(
          new LockError({
            directory,
            reason: `another process takes it over just now; if none does, remove ${takeover}`
          })
        )
      ),
      () => Effect.zipRight(check, fs.rename(mine, file)),
      () => Effect.ignore(fs.remove(takeover, { force: true }))
    )
    const take = fs.writeFileString(mine, stringify({ pid: process.pid, host: os.hostname() })).pipe(
      Effect.zipRight(Effect.catchIf(fs.link(mine, file), isThere, () => Effect.zipRight(check, takeOver))),
      Effect.ensuring(Effect.ignore(fs.remove(mine, { force: true }))),
      Effect.mapError((cause) =>
        cause._tag === "LockError" ? cause : new LockError({ directory, reason: inWords(cause) })
      )
    )
    yield* Effect.acquireRelease(
      Effect.suspend(() => {
        if (own.has(file))
          return new LockError({ directory, reason: `it is in use by process ${process.pid}, which is this one` })
        own.add(file)
        return Effect.tapErrorCause(take, () => Effect.sync(() => own.delete(file)))
      }),
      () =>
        Effect.zipRight(
          Effect.ignore(fs.remove(file, { force: true })),
          Effect.sync(() => own.delete(file))
        )
    )
  })
