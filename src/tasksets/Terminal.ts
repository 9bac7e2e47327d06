/**
 * terminal: a folder with a few files, one thing to be done in it, and a handful of commands. Each rollout has a folder of
 * its own, and is worth 1 when it leaves the folder exactly as it was asked to, else 0.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Stream from "effect/Stream"
import * as Environment from "../Environment.ts"
import * as ToolLoop from "../harnesses/ToolLoop.ts"
import type { Message, ToolSpec } from "../Message.ts"
import type { Answer } from "../Reward.ts"
import * as Runtime from "../Runtime.ts"
import * as Process from "../runtimes/Process.ts"
import * as Taskset from "../Taskset.ts"
import { parse, programs } from "./terminal/commandLine.ts"
import { demonstration, SILENT } from "./terminal/demonstrations.ts"
import * as Tasks from "./terminal/Tasks.ts"

const NAME = "terminal"

/** Tasks that are trained on, and as many that are held out. */
const [TRAINED, HELD_OUT] = [2000, 200]

/** The one tool, as a model is told of it. @category tools */
export const spec: ToolSpec = {
  name: "run",
  description: `Runs one command: ${programs.join(", ")}.`,
  parameters: { type: "object", properties: { command: { type: "string" } }, required: ["command"] }
}

/** What a model reads of a command that has ended. */
const said = ({ code, stderr, stdout, timedOut, truncated }: Runtime.Exit): string => {
  const words = `${stdout}${stderr}`.trimEnd()
  if (timedOut) return "the command took too long and was stopped"
  if (truncated) return `${words}\n(the output is cut)`
  return words === "" ? (code === 0 ? SILENT : `exit ${code}`) : words
}

/** Runs a command line in the rollout's folder; a line that is none is told why. @category tools */
export const run: ToolLoop.Tool = {
  spec,
  run: ({ command }) =>
    Effect.gen(function* () {
      if (typeof command !== "string") return "give the command as a text"
      const machine = yield* Runtime.machine
      const parsed = parse(command)
      return Either.isLeft(parsed) ? parsed.left : said(yield* machine.run(parsed.right))
    })
}

/** Where each rollout has its folder. @category tools */
export const layerRuntime = Process.layer({ timeoutMs: 5000, maxOutputBytes: 2000 })

/** Writes a task's folder. */
const setup = ({ before }: Tasks.Task, runtime: Runtime.RuntimeService) =>
  Effect.gen(function* () {
    const machine = yield* Runtime.machineOf(runtime)
    for (const [path, text] of Object.entries(before)) {
      yield* path.endsWith("/") ? machine.makeFolder(path) : machine.write(path, text)
    }
  })

const isSame = (a: Tasks.Files, b: Tasks.Files): boolean => {
  const paths = Object.keys(a)
  return paths.length === Object.keys(b).length && paths.every((path) => a[path] === b[path])
}

/** 1 when the folder is as it should be, else 0. */
const reward = ({ after }: Tasks.Task, { runtime }: Answer) =>
  Effect.map(
    Effect.flatMap(Runtime.machineOf(runtime), ({ files }) => files),
    (files) => (isSame(files, after) ? 1 : 0)
  )

/** The environment; its tasks follow from `seed`. @category constructors */
export const environment = (options: { readonly seed: number }): Environment.Environment => {
  const { seed } = options
  const tasks = (split: string, size: number) => Array.from({ length: size }, (_, i) => Tasks.make(seed, split, i))
  const all = Taskset.make({
    name: NAME,
    tasks: tasks("train", TRAINED),
    evalTasks: tasks("eval", HELD_OUT),
    key: ({ key }) => key
  })
  return Environment.make<Tasks.Task>({
    name: NAME,
    taskset: Taskset.shuffle(all, seed),
    harness: ToolLoop.make<Tasks.Task>({ tools: [run] }),
    runtime: layerRuntime,
    setup,
    reward,
    metrics: { turns: (_, { turns }) => turns },
    info: ({ solution }) => ({ solution: solution.join("\n") }),
    maxTurns: 6
  })
}

/** Endless conversations for the supervised warm-up, the same for the same seed; `first` skips as many. @category demonstrations */
export const demonstrations = (seed: number, first = 0): Stream.Stream<ReadonlyArray<Message>> =>
  Stream.iterate(first, (index) => index + 1).pipe(Stream.map((index) => demonstration(seed, index)))
