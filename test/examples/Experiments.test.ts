import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import twoAnswers from "../../examples/experiments/two-answers.ts"
import * as Config from "../../src/Config.ts"
import * as Environment from "../../src/Environment.ts"
import * as Run from "../../src/Run.ts"
import { group } from "../../src/testing/index.ts"
import { layerPolicy, layerRenderer, textOf } from "../doubles/byteChat.ts"

const at = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url))

/** What a file of the experiments is planned as, laid over what they share. */
const planned = (file: string, sets: ReadonlyArray<string> = []) =>
  Effect.gen(function* () {
    const files = ["base", file].map((name) => at(`examples/experiments/${name}.toml`))
    const config = yield* Config.loadTrain(files, sets, Run.check)
    const [source] = yield* Run.plan(config)
    const { batchSize, train } = config.orchestrator
    return [source!.algorithm, source!.actionLoss, batchSize, train.source[0]!.groupSize]
  }).pipe(Effect.provide(NodeContext.layer))

/** Says the sentence that it is told backwards. */
const reverser = layerPolicy(({ promptIds }) => {
  const ids = Array.from(promptIds)
  const told = textOf(ids.slice(ids.lastIndexOf(257) + 1, ids.lastIndexOf(260)))
  return [...told].reverse().join("")
})

const rewardsOf = (environment: Environment.Environment, examples: number) =>
  Effect.forEach(Array.from({ length: examples }).keys(), (place) => {
    const [one] = group([0])
    const example = Environment.exampleKey(environment, place)
    return Effect.map(Environment.rollout(environment, { ...one!, example }, { seed: 1 }), (ended) =>
      ended._tag === "Rollout" ? ended.reward : ended.reason
    )
  }).pipe(Effect.provide(Layer.merge(reverser, layerRenderer)))

describe("the experiments", () => {
  it.effect("every file is a configuration with nothing wrong", () =>
    Effect.gen(function* () {
      expect(yield* planned("grpo")).toEqual(["grpo", "rl", 8, 8])
      expect(yield* planned("opd")).toEqual(["opd", "refKl", 8, 1])
      expect(yield* planned("sft")).toEqual(["sft", "ce", 8, 1])
      expect(yield* planned("opsd")).toEqual(["opsd", "refKl", 128, 1])
      expect(yield* planned("single")).toEqual(["rae", "rl", 128, 1])
      expect(yield* planned("two-answers")).toEqual(["grpo", "rl", 128, 16])
      const asMaxRl = yield* planned("two-answers", ["orchestrator.algo.type=max_rl"])
      expect(asMaxRl).toEqual(["max_rl", "rl", 128, 16])
    })
  )

  it.effect("GRPO on single rollouts is refused, in the words that the page quotes", () =>
    Effect.gen(function* () {
      const refused = yield* Effect.flip(planned("single", ["orchestrator.algo.type=grpo"]))
      const reason = 'source "reverse-text" has groups of 1: a rollout compared with itself alone has no advantage'
      expect(String(refused)).toContain(reason)
      expect(readFileSync(at("docs/experiments.md"), "utf8")).toContain(reason)
    })
  )

  it.effect("of two answers one is right of about half of the tasks, and of each task always the same", () =>
    Effect.gen(function* () {
      const rewards = yield* rewardsOf(twoAnswers({ seed: 1 }), 200)
      const share = rewards.filter((reward) => reward === 1).length / rewards.length
      expect(new Set(rewards)).toEqual(new Set([0, 1]))
      expect(Math.abs(share - 0.5)).toBeLessThan(0.1)
      expect(yield* rewardsOf(twoAnswers({ seed: 1 }), 200)).toEqual(rewards)
      expect(new Set(yield* rewardsOf(twoAnswers({ seed: 1, wanted: "backwards" }), 20))).toEqual(new Set([1]))
      expect(new Set(yield* rewardsOf(twoAnswers({ seed: 1, wanted: "first word" }), 20))).toEqual(new Set([0]))
    })
  )

  it("the page shows curves that are there, and names files that there are", () => {
    const page = readFileSync(at("docs/experiments.md"), "utf8")
    const drawn = Array.from(page.matchAll(/\]\(([\w-]+\.svg)\)/g), ([, file]) => `docs/${file}`)
    const named = Array.from(page.matchAll(/examples\/[\w./-]+\.\w+/g), ([path]) => path)
    expect(drawn.length).toBeGreaterThan(3)
    expect([...drawn, ...named].filter((path) => !existsSync(at(path)))).toEqual([])
  })
})
