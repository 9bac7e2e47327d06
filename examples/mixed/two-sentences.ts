/** Two sentences to say backwards, one after the other. After the first a tool says whether it was right. */
import { Effect } from "effect"
import { Environment, Harness } from "primerl"

interface Task {
  readonly first: string
  readonly second: string
}

const lines = [
  "all hands on deck",
  "the sea was calm",
  "he said nothing",
  "we left at dawn",
  "rain fell all day",
  "the door was open"
]

const tasks: ReadonlyArray<Task> = lines.flatMap((first) =>
  lines.flatMap((second) => (first === second ? [] : [{ first, second }]))
)

const isBackwards = (sentence: string, said: string | null | undefined) =>
  said === Array.from(sentence).reverse().join("")

export default Environment.make({
  name: "two-sentences",
  tasks,
  prompt: ({ first }) => first,
  harness: Harness.make<Task>({
    name: "two-sentences",
    run: ({ messages, model, task }) =>
      Effect.gen(function* () {
        const { message } = yield* model.complete(messages)
        const verdict = isBackwards(task.first, message.content) ? "right" : "wrong"
        yield* model.complete([
          ...messages,
          message,
          { role: "tool", toolCallId: "check", content: verdict },
          { role: "user", content: task.second }
        ])
      })
  }),
  reward: ({ first, second }, { messages }) => {
    const said = messages.filter(({ role }) => role === "assistant").map(({ content }) => content)
    return (Number(isBackwards(first, said[0])) + Number(isBackwards(second, said[1]))) / 2
  }
})
