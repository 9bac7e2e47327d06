import * as os from "node:os"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Lock from "../../src/run/Lock.ts"

const words = (exit: Exit.Exit<unknown, unknown>) => (Exit.isFailure(exit) ? String(exit.cause) : "held")

describe("the lock of a run", () => {
  it.scoped("is for one at a time, is given back, and is taken over from a process that is gone", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const file = `${directory}/run.lock`
      const other = Effect.map(Effect.exit(Effect.scoped(Lock.hold(directory))), words)
      const heldBy = (pid: number, host = os.hostname()) => fs.writeFileString(file, JSON.stringify({ pid, host }))
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* Lock.hold(directory)
          expect(yield* other).toContain(`in use by process ${process.pid}`)
          expect(JSON.parse(yield* fs.readFileString(file))).toEqual({ pid: process.pid, host: os.hostname() })
        })
      )
      expect(yield* fs.exists(file)).toBe(false)
      // The parent of this process lives; no process has the largest number.
      yield* heldBy(process.ppid)
      expect(yield* other).toContain(`in use by process ${process.ppid}`)
      yield* heldBy(2 ** 31 - 1, "elsewhere")
      expect(yield* other).toContain("on elsewhere")
      yield* fs.writeFileString(file, "")
      expect(yield* other).toContain("does not say who uses it")
      for (const gone of [2 ** 31 - 1, process.pid]) {
        yield* heldBy(gone)
        expect(yield* other).toBe("held")
        expect(yield* fs.exists(file)).toBe(false)
      }
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
