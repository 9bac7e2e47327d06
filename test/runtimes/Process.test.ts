import { existsSync, symlinkSync } from "node:fs"
import { dirname } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Runtime from "../../src/Runtime.ts"
import * as Process from "../../src/runtimes/Process.ts"
import { isRunning } from "./isRunning.ts"

const place = (options: Process.Options = {}) =>
  Effect.flatMap(Layer.build(Process.layer(options)), (context) =>
    Effect.map(Effect.provide(Runtime.machine, context), (machine) => ({ machine }))
  )
const where = (machine: Runtime.Machine) =>
  Effect.map(machine.run({ program: "pwd", args: [] }), ({ stdout }) => stdout.trim())

describe("a directory of its own", () => {
  it.scoped("holds what is written, and shows it as commands leave it", () =>
    Effect.gen(function* () {
      const { machine } = yield* place()
      yield* machine.write("a/b.txt", "hello\n")
      yield* machine.makeFolder("c/d")
      const { code, stderr, stdout } = yield* machine.run({ program: "cp", args: ["a/b.txt", "c/e.txt"] })
      expect([code, stdout, stderr]).toEqual([0, "", ""])
      yield* machine.run({ program: "echo", args: ["two  words"], output: "f" })
      expect(yield* machine.files).toEqual({
        "a/": "",
        "a/b.txt": "hello\n",
        "c/": "",
        "c/d/": "",
        "c/e.txt": "hello\n",
        f: "two  words\n"
      })
      const failed = yield* machine.run({ program: "cat", args: ["none"] })
      expect(failed).toMatchObject({ code: 1, stdout: "", stderr: "cat: none: No such file or directory\n" })
    })
  )

  it.effect("is removed with its rollout, the supervisor's with the last of them, and rollouts do not meet", () =>
    Effect.gen(function* () {
      const layer = Process.layer()
      const open = Effect.gen(function* () {
        const scope = yield* Scope.make()
        const context = yield* Layer.buildWithScope(layer, scope)
        const machine = yield* Effect.provide(Runtime.machine, context)
        return { scope, machine, path: yield* where(machine) }
      })
      const [one, two] = [yield* open, yield* open]
      expect(dirname(one.path)).toBe(dirname(two.path))
      yield* one.machine.write("mine", "x")
      expect(yield* two.machine.files).toEqual({})
      yield* Scope.close(one.scope, Exit.void)
      expect([existsSync(one.path), existsSync(two.path)]).toEqual([false, true])
      yield* Scope.close(two.scope, Exit.void)
      expect(existsSync(dirname(two.path))).toBe(false)
    })
  )

  it.scoped("is left by no path and no link", () =>
    Effect.gen(function* () {
      const { machine } = yield* place()
      for (const path of ["../x", "/tmp/x", "a/../../x", "", "a\0b", ".."]) {
        expect((yield* Effect.flip(machine.write(path, "x"))).reason).toContain("leads out of it")
        expect((yield* Effect.flip(machine.run({ program: "echo", args: ["x"], output: path }))).reason).toContain(
          "leads out"
        )
      }
      symlinkSync("/etc/hostname", `${yield* where(machine)}/link`)
      expect((yield* Effect.flip(machine.write("link", "x"))).reason).toContain("ELOOP")
      expect(yield* machine.run({ program: "echo", args: ["x"], output: "link" })).toMatchObject({
        code: 1,
        stderr: "ELOOP\n"
      })
      expect(yield* machine.files).toEqual({ link: "-> /etc/hostname" })
    })
  )
})

describe("a command", () => {
  it.scoped("gets nothing of this process's environment", () =>
    Effect.gen(function* () {
      process.env.PRIMERL_TEST_API_KEY = "secret"
      const { machine } = yield* place({ env: { OWN: "1" } })
      const { stdout } = yield* machine.run({ program: "env", args: [] })
      delete process.env.PRIMERL_TEST_API_KEY
      const names = stdout
        .trim()
        .split("\n")
        .map((line) => line.split("=")[0])
      expect(names.sort()).toEqual(["HOME", "LC_ALL", "OWN", "PATH"])
    })
  )

  it.scoped("that says too much is killed, and what it said until then is kept", () =>
    Effect.gen(function* () {
      const { machine } = yield* place({ maxOutputBytes: 1000 })
      const exit = yield* machine.run({ program: "cat", args: ["/dev/zero"] })
      expect([exit.truncated, exit.code, exit.stdout.length]).toEqual([true, undefined, 1000])
    })
  )

  // Real time: what is waited for is another process.
  it.scopedLive("that takes too long is killed with all that it started, and the next one runs", () =>
    Effect.gen(function* () {
      const { machine } = yield* place({ timeoutMs: 50 })
      const exit = yield* machine.run({ program: "sh", args: ["-c", "sleep 600 & echo $! > pid; wait"] })
      expect([exit.timedOut, exit.code]).toEqual([true, undefined])
      const { pid } = yield* machine.files
      if (pid !== undefined) expect(isRunning(pid.trim())).toBe(false)
    })
  )

  it.scopedLive("that is interrupted is killed", () =>
    Effect.gen(function* () {
      const { machine } = yield* place()
      const fiber = yield* Effect.fork(machine.run({ program: "sh", args: ["-c", "echo $$ > pid; exec sleep 600"] }))
      const pid = yield* machine.files.pipe(
        Effect.map(({ pid = "" }) => pid.trim()),
        Effect.repeat({ until: (pid) => pid !== "" })
      )
      yield* Fiber.interrupt(fiber)
      expect(isRunning(pid)).toBe(false)
    })
  )

  it.scoped("that is not there is the runtime's failure", () =>
    Effect.gen(function* () {
      const { machine } = yield* place()
      const error = yield* Effect.flip(machine.run({ program: "no-such-program", args: [] }))
      expect(error.message).toContain("runtime process: spawn no-such-program ENOENT")
    })
  )
})
