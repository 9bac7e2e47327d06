/**
 * A process beside this one that runs the commands of all rollouts, in a directory that it makes. It ends with this
 * process, whatever ends that, kill -9 included: then it kills what it started and removes the directory. It is small, so
 * that starting a command does not copy the memory of a process that holds a model.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { tmpdir } from "node:os"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as SynchronizedRef from "effect/SynchronizedRef"
import { RuntimeError } from "../Runtime.ts"

/** @category model */
export interface Request {
  /** folder of the rollout, in `root` */
  readonly cwd: string
  readonly program: string
  readonly args: ReadonlyArray<string>
  readonly env: Readonly<Record<string, string>>
  readonly output?: string | undefined
  readonly maxBytes: number
}

/** @category model */
export interface Reply {
  readonly code: number | null
  readonly failed?: string | undefined
  readonly stdout: string
  readonly stderr: string
  readonly truncated: boolean
}

/** @category model */
export interface Supervisor {
  readonly root: string
  readonly alive: Effect.Effect<boolean>
  readonly run: (request: Request) => Effect.Effect<Reply, RuntimeError>
}

const broken = (reason: string) => new RuntimeError({ runtime: "process", reason })

/** Where its program is, seen from a source file, a compiled file or a bundle. */
const program = ["../../", "../../../"]
  .map((up) => fileURLToPath(new URL(`${up}scripts/supervise.mjs`, import.meta.url)))
  .find((place) => existsSync(place))

const startProcess = Effect.gen(function* () {
  if (program === undefined) return yield* broken("scripts/supervise.mjs is missing from the package")
  const path = program
  return yield* Effect.acquireRelease(
    Effect.sync(() =>
      // Nothing of this process's environment, where keys and tokens are kept, is handed on.
      spawn(process.execPath, [path], { env: { TMPDIR: tmpdir() }, detached: true, stdio: ["pipe", "pipe", "ignore"] })
    ),
    (child) =>
      Effect.async<void>((resume) => {
        if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
        child.once("exit", () => resume(Effect.void))
        child.stdin?.end()
      })
  )
})

/** Requests and replies over the process's standard input and output. */
const talk = (child: ChildProcess) =>
  Effect.gen(function* () {
    const ready = yield* Deferred.make<string, RuntimeError>()
    const waiting = new Map<number, Deferred.Deferred<Reply, RuntimeError>>()
    let gone: RuntimeError | undefined
    const end = (why: string) => {
      gone ??= broken(why)
      Deferred.unsafeDone(ready, Exit.fail(gone))
      for (const one of waiting.values()) Deferred.unsafeDone(one, Exit.fail(gone))
      waiting.clear()
    }
    child.once("error", (error) => end(`it could not start (${error.message})`))
    child.once("exit", (code, signal) => end(`its process ended (${signal ?? `exit ${code}`})`))
    child.stdin?.on("error", () => end("its process takes no more commands"))
    createInterface({ input: child.stdout! }).on("line", (line) => {
      const said = JSON.parse(line) as { readonly root: string } | (Reply & { readonly id: number })
      if ("root" in said) return Deferred.unsafeDone(ready, Exit.succeed(said.root))
      const one = waiting.get(said.id)
      waiting.delete(said.id)
      if (one !== undefined) Deferred.unsafeDone(one, Exit.succeed(said))
    })
    const send = (value: unknown) => Effect.sync(() => void child.stdin?.write(`${JSON.stringify(value)}\n`))
    let next = 0
    const run = (request: Request) =>
      Effect.gen(function* () {
        if (gone !== undefined) return yield* gone
        const id = next++
        const reply = yield* Deferred.make<Reply, RuntimeError>()
        waiting.set(id, reply)
        yield* send({ id, ...request })
        return yield* Effect.onInterrupt(Deferred.await(reply), () =>
          // Its directory is removed only after it has ended.
          Effect.zipRight(send({ kill: id }), Effect.ignore(Deferred.await(reply)))
        )
      })
    const root = yield* Deferred.await(ready)
    return { root, run, alive: Effect.sync(() => gone === undefined) } satisfies Supervisor
  })

const start: Effect.Effect<Supervisor, RuntimeError, Scope.Scope> = Effect.flatMap(startProcess, talk)

interface Shared {
  readonly supervisor: Supervisor
  readonly scope: Scope.CloseableScope
  readonly users: number
}

/**
 * One supervisor for all rollouts that run at the same time: the first starts it and the last ends it. One that has died
 * is replaced for those that come later.
 *
 * @category resources
 */
export const makeShared = (): Effect.Effect<Supervisor, RuntimeError, Scope.Scope> => {
  const state = SynchronizedRef.unsafeMake<Shared | undefined>(undefined)
  const enter = SynchronizedRef.modifyEffect(state, (now) =>
    Effect.gen(function* () {
      if (now !== undefined && (yield* now.supervisor.alive)) {
        const next = { ...now, users: now.users + 1 }
        return [next.supervisor, next] as const
      }
      const scope = yield* Scope.make()
      const supervisor = yield* Effect.onError(Scope.extend(start, scope), (cause) =>
        Scope.close(scope, Exit.failCause(cause))
      )
      return [supervisor, { supervisor, scope, users: 1 }] as const
    })
  )
  const leave = (mine: Supervisor) =>
    SynchronizedRef.updateEffect(state, (now) => {
      // A dead one that was replaced has nothing left to close.
      if (now?.supervisor !== mine) return Effect.succeed(now)
      if (now.users > 1) return Effect.succeed({ ...now, users: now.users - 1 })
      return Effect.as(Scope.close(now.scope, Exit.void), undefined)
    })
  return Effect.acquireRelease(enter, leave)
}
