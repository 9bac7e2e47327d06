import { Environment } from "primerl"
import { supportAgent } from "./supportAgent.ts"

export const refunds = Environment.make({
  name: "refunds",
  tasks: [{ ticket: "Order 17 arrived broken.", decision: "refund" }],
  harness: (task, endpoint) => supportAgent(endpoint, task.ticket), // any code; a value, a promise or an Effect
  reward: (task, { reply }) => (reply.includes(task.decision) ? 1 : 0)
})
