import { spawn } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { isRunning } from "./isRunning.ts"

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))

/** Asks until it is so; how long that takes is the machine's. */
const until = <A>(ask: () => A, is: (value: A) => boolean) =>
  Effect.sync(ask).pipe(Effect.delay("10 millis"), Effect.repeat({ until: is }))

describe("a program that is killed", () => {
  it.live(
    "leaves no command running and nothing on disk",
    () =>
      Effect.gen(function* () {
        const jiti = here("../../node_modules/jiti/lib/jiti-cli.mjs")
        const child = spawn(process.execPath, [jiti, here("../data/modules/neverEnds.ts")], {
          stdio: ["ignore", "pipe", "inherit"]
        })
        const path = yield* Effect.async<string>((resume) => {
          child.stdout.once("data", (said: Buffer) => resume(Effect.succeed(said.toString().trim())))
        })
        const file = join(path, "pids")
        const text = yield* until(
          () => (existsSync(file) ? readFileSync(file, "utf8") : ""),
          (text) => text.endsWith("\n")
        )
        const pids = text.trim().split(" ")
        expect([existsSync(join(path, "held")), ...pids.map(isRunning)]).toEqual([true, true, true])
        child.kill("SIGKILL")
        yield* until(
          () => existsSync(dirname(path)) || pids.some(isRunning),
          (left) => !left
        )
      }),
    60_000
  )
})
