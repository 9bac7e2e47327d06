/**
 * Conversations in the terminal world for a supervised warm-up. Only some are right, and nothing in the prompt tells which
 * comes: what is left for reinforcement learning to settle is to look before acting, and to act after looking.
 */
import type { Message } from "../../Message.ts"
import * as Seed from "../../Seed.ts"
import * as Tasks from "./Tasks.ts"

/** Share of each habit. "rash" acts without looking, "idle" looks and leaves it at that. */
const habits: ReadonlyArray<{ readonly share: number; readonly name: "right" | "rash" | "idle" }> = [
  { share: 0.4, name: "right" },
  { share: 0.35, name: "rash" },
  { share: 0.25, name: "idle" }
]

/** What a command says that has nothing to say. @category constants */
export const SILENT = "ok"

/** How a demonstration, and a model that learns from it, ends. @category constants */
export const DONE = "Done."

/** What each command of a solution says in the folder that it is given, as the programs themselves say it. */
const saidBy = (command: string, files: Tasks.Files): string => {
  const [program, ...args] = command.split(" ")
  if (program === "ls")
    return Object.keys(files)
      .map((path) => path.replace(/\/$/, ""))
      .sort()
      .join("\n")
  if (program === "grep")
    return Object.keys(files)
      .filter((path) => files[path] === `${args[1]}\n`)
      .join("\n")
  const [name = "", to] = args
  if (program === "mkdir" || Object.hasOwn(files, name)) return SILENT
  if (program === "rm") return `rm: cannot remove '${name}': No such file or directory`
  return `${program}: cannot stat '${name}': No such file or directory${to === undefined ? "" : ""}`
}

const commandsOf = (task: Tasks.Task, habit: "right" | "rash" | "idle"): ReadonlyArray<string> =>
  habit === "right" ? task.solution : habit === "rash" ? [task.rash] : task.solution.slice(0, 1)

/** A call of the one tool, as the chat format's own parser names it. @category constructors */
export const call = (command: string, id = "call"): Message => ({
  role: "assistant",
  content: null,
  toolCalls: [{ id, name: "run", arguments: JSON.stringify({ command }).replace('":"', '": "') }]
})

/** Demonstration number `index` of a seed, of tasks that are neither trained on nor evaluated. @category demonstrations */
export const demonstration = (seed: number, index: number): ReadonlyArray<Message> => {
  const task = Tasks.make(seed, "demonstration", index)
  let left = Seed.unit(seed, "habit", index)
  const habit = habits.find(({ share }) => {
    left -= share
    return left < 0
  })
  const turns = commandsOf(task, (habit ?? habits[0]!).name).flatMap(
    (command): ReadonlyArray<Message> => [
      call(command),
      // No command of a solution changes what a later one says.
      { role: "tool", toolCallId: "call", content: saidBy(command, task.before) }
    ]
  )
  return [{ role: "user", content: task.prompt }, ...turns, { role: "assistant", content: DONE }]
}
