/** Drift is measured in every example, and is none: of rollouts in which the policy samples any id of its vocabulary. */
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Config from "../../src/Config.ts"
import * as Environment from "../../src/Environment.ts"
import { Inference } from "../../src/Inference.ts"
import * as Run from "../../src/Run.ts"
import * as Environments from "../../src/run/Environments.ts"
import * as Policy from "../../src/run/Policy.ts"
import * as Seed from "../../src/Seed.ts"
import { Tokenizer } from "../../src/Tokenizer.ts"
import { group } from "../../src/testing/index.ts"

const examples = fileURLToPath(new URL("../../examples", import.meta.url))
const at = (path: string) => `${examples}/${path}`

/** Those that sample: a file of `primerl sft` does not, and one without a model is laid over `base.toml`. */
const configurations = readdirSync(examples, { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".toml") && !path.endsWith("base.toml"))
  .filter((path) => readFileSync(at(path), "utf8").includes("[orchestrator"))
  .sort()

const rolloutsOfEach = 6

/** Any ids, and the end of the turn once in eight. */
const layerPolicy = Layer.effect(
  Inference,
  Effect.map(Tokenizer, ({ vocabularySize }) => ({
    name: "any ids",
    maxSequenceLength: 512,
    generate: (_: Int32Array, { maxTokens, seed, stopTokenIds }) =>
      Effect.sync(() => {
        const random = Seed.generator(seed)
        const ids: Array<number> = []
        let stopped = false
        while (!stopped && ids.length < Math.min(maxTokens, 24)) {
          stopped = random() < 1 / 8
          ids.push(stopped ? stopTokenIds[0]! : Math.floor(random() * vocabularySize))
        }
        return {
          tokenIds: Int32Array.from(ids),
          logprobs: new Float32Array(ids.length).fill(-1),
          finishReason: stopped ? ("stop" as const) : ("length" as const),
          policyVersion: 0
        }
      }),
    score: () => Effect.die("not asked"),
    adopt: () => Effect.void
  }))
)

describe("drift", () => {
  it("is looked for in all examples that sample", () => {
    expect(configurations.length).toBeGreaterThan(7)
  })

  it.effect.each(configurations)("is none in %s", (path) =>
    Effect.gen(function* () {
      const shared = path.startsWith("experiments/") ? [at("experiments/base.toml")] : []
      const config = yield* Config.loadTrain([...shared, at(path)], [], Run.check)
      const text = Layer.provideMerge(layerPolicy, Policy.layerText(config.model.name!))
      for (const { env, name } of config.orchestrator.train.source) {
        const environment = yield* Environments.resolve(env, config.seed)
        const drifts = yield* Effect.forEach(group(Array(rolloutsOfEach).fill(0)), (planned, i) => {
          const example = Environment.exampleKey(environment, i)
          return Effect.map(Environment.rollout(environment, { ...planned, example }, { seed: i }), (ended) =>
            ended._tag === "Rollout" ? ended.metrics.drift : ended.reason
          )
        }).pipe(Effect.provide(text))
        expect(drifts, name).toEqual(Array(rolloutsOfEach).fill(0))
      }
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))
  )
})
