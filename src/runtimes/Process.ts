/**
 * Each rollout in a directory of its own on this machine, with commands as child processes. It keeps rollouts apart and
 * cleans up after them; it is no wall against a program that means harm: give it programs that stay where they are put.
 */
import { constants } from "node:fs"
import { mkdir, mkdtemp, open, readdir, readFile, readlink, rm } from "node:fs/promises"
import { basename, dirname, isAbsolute, join, normalize, sep } from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { type Machine, Runtime, RuntimeError } from "../Runtime.ts"
import { makeShared, type Supervisor } from "./Supervisor.ts"

/** What a command may take. @category model */
export interface Options {
  /** time of one command, in milliseconds (10,000) */
  readonly timeoutMs?: number | undefined
  /** bytes that one command may say (65,536) */
  readonly maxOutputBytes?: number | undefined
  /** the environment of a command besides PATH, HOME and LC_ALL; nothing of this process's is handed on */
  readonly env?: Readonly<Record<string, string>> | undefined
}

const broken = (reason: string) => new RuntimeError({ runtime: "process", reason })

const attempt = <A>(what: string, run: () => Promise<A>): Effect.Effect<A, RuntimeError> =>
  Effect.tryPromise({ try: run, catch: (cause) => broken(`${what}: ${String(cause)}`) })

/** Whether a path stays below the directory that it is relative to. @category checks */
export const staysInside = (path: string): boolean => {
  const plain = normalize(path)
  return path !== "" && !path.includes("\0") && !isAbsolute(plain) && plain !== ".." && !plain.startsWith(`..${sep}`)
}

const inside = (path: string): Effect.Effect<string, RuntimeError> =>
  staysInside(path) ? Effect.succeed(path) : Effect.fail(broken(`the path ${JSON.stringify(path)} leads out of it`))

/** What lies below a folder, in the order of its paths. Links are told and never followed. */
const listed = (root: string, below: string): Effect.Effect<ReadonlyArray<readonly [string, string]>, RuntimeError> =>
  Effect.gen(function* () {
    const found = yield* attempt("its files cannot be listed", () =>
      readdir(join(root, below), { withFileTypes: true })
    )
    const entries = found.sort((a, b) => (a.name < b.name ? -1 : 1))
    const parts = yield* Effect.forEach(entries, (entry) => {
      const path = join(below, entry.name)
      if (entry.isDirectory()) {
        return Effect.map(listed(root, path), (inner) => [[`${path}/`, ""] as const, ...inner])
      }
      const text = entry.isSymbolicLink()
        ? attempt("a link cannot be read", () => readlink(join(root, path))).pipe(Effect.map((to) => `-> ${to}`))
        : attempt("a file cannot be read", () => readFile(join(root, path), "utf8"))
      return Effect.map(text, (text) => [[path, text] as const])
    })
    return parts.flat()
  })

const machineIn = (supervisor: Supervisor, root: string, options: Options): Machine => {
  const { env = {}, maxOutputBytes = 65_536, timeoutMs = 10_000 } = options
  const environment = { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: root, LC_ALL: "C", ...env }
  return {
    run: ({ args, output, program }) =>
      Effect.gen(function* () {
        if (output !== undefined) yield* inside(output)
        const asked = { cwd: basename(root), program, args, output, env: environment, maxBytes: maxOutputBytes }
        const reply = yield* Effect.timeoutOption(supervisor.run(asked), timeoutMs)
        if (Option.isNone(reply)) return { code: undefined, stdout: "", stderr: "", timedOut: true, truncated: false }
        const { code, failed, stderr, stdout, truncated } = reply.value
        if (failed !== undefined) return yield* broken(failed)
        return { code: code ?? undefined, stdout, stderr, timedOut: false, truncated }
      }),
    write: (path, text) =>
      Effect.flatMap(inside(path), () =>
        attempt(`${path} cannot be written`, () =>
          mkdir(join(root, dirname(path)), { recursive: true })
            .then(() =>
              open(join(root, path), constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW)
            )
            .then((file) => file.writeFile(text).finally(() => file.close()))
        )
      ),
    makeFolder: (path) =>
      Effect.flatMap(inside(path), () =>
        attempt(`${path} cannot be made`, () => mkdir(join(root, path), { recursive: true }))
      ),
    files: Effect.map(listed(root, ""), Object.fromEntries)
  }
}

/**
 * Directories on this machine, one for each rollout, removed with it whatever became of it, also when this process is
 * killed. Commands have a clean environment, and limits of time and output.
 *
 * @category layers
 */
export const layer = (options: Options = {}): Layer.Layer<Runtime, RuntimeError> => {
  const shared = makeShared()
  return Layer.scoped(
    Runtime,
    Effect.gen(function* () {
      const supervisor = yield* shared
      const root = yield* Effect.acquireRelease(
        attempt("no directory", () => mkdtemp(join(supervisor.root, "rollout-"))),
        (path) => Effect.promise(() => rm(path, { recursive: true, force: true }))
      )
      return { name: "process", alive: supervisor.alive, machine: machineIn(supervisor, root, options) }
    })
  )
}
