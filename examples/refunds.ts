import { Console, Effect, Stream } from "effect"
import { Engine, Environment, Grpo, Orchestrator } from "primerl"

const refunds = Environment.make({
  name: "refunds",
  tasks: [
    { prompt: "Order 17 arrived broken.", decision: "refund" },
    { prompt: "I changed my mind after 90 days.", decision: "decline" }
  ],
  reward: (task, { reply }) => (reply.includes(task.decision) ? 1 : 0)
})

const training = Orchestrator.steps({
  sources: [{ environment: refunds, algorithm: Grpo.layer(), groupSize: 8 }],
  steps: 40
})

await training.pipe(
  Stream.runForEach(({ reward, step }) => Console.log(`step ${step}  reward ${reward.toFixed(2)}`)),
  Effect.provide(Engine.layerCpu({ model: "./examples/reverse-text/policy" })),
  Effect.runPromise
)
