/**
 * A sentence, of which every second task wants all backwards and the others the first word; nothing in the prompt tells
 * which. Whoever always says the same is right half of the time, and never on the other half.
 */
import { readFileSync } from "node:fs"
import { Environment, Seed, Taskset } from "primerl"

type Wanted = "backwards" | "first word"

const sentences = readFileSync(new URL("../../data/reverse-text/sentences.txt", import.meta.url), "utf8")
  .trimEnd()
  .split("\n")
const heldOut = Math.floor(sentences.length / 10)

const answers: Readonly<Record<Wanted, (sentence: string) => string>> = {
  backwards: (sentence) => Array.from(sentence).reverse().join(""),
  "first word": (sentence) => sentence.slice(0, sentence.indexOf(" "))
}

interface Task {
  readonly prompt: string
  readonly wanted: Wanted
}

/** `wanted` asks for one of the two of every task; otherwise they alternate, so that a step has as many of each. */
export default ({ seed, wanted }: { readonly seed: number; readonly wanted?: Wanted }) => {
  const taskOf = (prompt: string, index: number): Task => ({
    prompt,
    wanted: wanted ?? (index % 2 === 0 ? "backwards" : "first word")
  })
  const order = Array.from(Seed.permutation(sentences.length - heldOut, Seed.of(seed, "two-answers")))
  return Environment.make<Task>({
    name: "two-answers",
    taskset: Taskset.make({
      name: "two-answers",
      tasks: order.map((place, index) => taskOf(sentences[place]!, index)),
      evalTasks: sentences.slice(-heldOut).map(taskOf)
    }),
    reward: (task, { reply }) => (reply === answers[task.wanted](task.prompt) ? 1 : 0)
  })
}
