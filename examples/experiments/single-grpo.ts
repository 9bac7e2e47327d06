/**
 * GRPO on single rollouts, in a program, where no configuration refuses it: a rollout compared with itself has no
 * advantage, and the run stops when ten steps had nothing to train.
 */

import { readFileSync } from "node:fs"
import { Console, Effect, Stream } from "effect"
import { Engine, Environment, Grpo, Orchestrator } from "primerl"

const backwards = (sentence: string) => Array.from(sentence).reverse().join("")
const lines = readFileSync(new URL("../../data/reverse-text/sentences.txt", import.meta.url), "utf8").trimEnd()

const training = Orchestrator.steps({
  sources: [
    {
      environment: Environment.make({
        name: "backwards",
        tasks: lines.split("\n"),
        reward: (sentence, { reply }) => (reply === backwards(sentence) ? 1 : 0)
      }),
      algorithm: Grpo.layer(),
      groupSize: 1,
      sampling: { maxTokens: 40 }
    }
  ],
  steps: 40,
  batchSize: 128
})

await Stream.runForEach(training, ({ reward, step }) => Console.log(`step ${step}  reward ${reward.toFixed(3)}`)).pipe(
  Effect.provide(
    Engine.layerCpu({
      model: new URL("../reverse-text/policy", import.meta.url).pathname,
      training: { learningRate: 2e-4 }
    })
  ),
  Effect.catchTag("OrchestratorError", ({ message }) => Console.log(message)),
  Effect.runPromise
)
