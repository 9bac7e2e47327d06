import { Effect } from "effect"
import { Environment, ToolLoop } from "primerl"

const look: ToolLoop.Tool<{ readonly needle: string }> = {
  spec: { name: "look", parameters: { type: "object", properties: { where: { type: "string" } } } },
  run: ({ where }, { needle }) => Effect.succeed(where === "haystack" ? needle : "nothing")
}

export const search = Environment.make({
  name: "search",
  tasks: [{ prompt: "Find it.", needle: "a needle" }],
  harness: ToolLoop.make({ tools: [look] }),
  stops: { found: (task, { messages }) => messages.at(-1)?.content === task.needle },
  reward: (_, { stopReason, turns }) => (stopReason === "task" ? 1 / turns : 0)
})
