import { Console, Effect, Stream } from "effect"
import { Engine, Environment, Grpo, Orchestrator, Trainer } from "primerl"

const shout = Environment.make({
  name: "shout",
  tasks: [{ prompt: "all hands on deck" }, { prompt: "the sea was calm" }, { prompt: "he said nothing" }],
  reward: (task, { reply }) => (reply === task.prompt.toUpperCase() ? 1 : 0)
})

const training = Orchestrator.steps({
  sources: [{ environment: shout, algorithm: Grpo.layer(), groupSize: 8 }],
  steps: 20,
  batchSize: 48
})

const program = Effect.gen(function* () {
  yield* Stream.runForEach(training, ({ reward, step }) => Console.log(`step ${step}  reward ${reward.toFixed(2)}`))
  const trainer = yield* Trainer.Trainer
  yield* trainer.save("./shouting-policy")
})

await program.pipe(
  Effect.provide(
    Engine.layerCpu({ model: "./node_modules/primerl/examples/reverse-text/policy", training: { learningRate: 2e-4 } })
  ),
  Effect.runPromise
)
