import { fileURLToPath } from "node:url"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import twoSentences from "../examples/mixed/two-sentences.ts"
import Echo from "../src/algorithms/Echo.ts"
import * as Config from "../src/Config.ts"
import * as Environment from "../src/Environment.ts"
import type { Rollout } from "../src/Rollout.ts"
import * as Run from "../src/Run.ts"
import { group, score } from "../src/testing/index.ts"
import { layerPolicy, layerRenderer, textOf } from "./doubles/byteChat.ts"

const mixed = fileURLToPath(new URL("../examples/mixed/mixed.toml", import.meta.url))

/** Says the last thing it was told backwards; the verdict of a tool is no such thing. */
const reverser = layerPolicy(({ promptIds }) => {
  const ids = Array.from(promptIds)
  const told = ids.slice(ids.lastIndexOf(257) + 1, ids.lastIndexOf(260))
  return [...textOf(told)].reverse().join("")
})

describe("the mixed example", () => {
  it.effect("is a configuration of four sources with nothing wrong, each with its algorithm and its teacher", () =>
    Effect.gen(function* () {
      const config = yield* Config.loadTrain([mixed], [], Run.check)
      const sources = yield* Run.plan(config)
      expect(sources.map(({ actionLoss, algorithm, models, name }) => [name, algorithm, actionLoss, models])).toEqual([
        ["reverse-text", "grpo", "rl", []],
        ["two-sentences", "echo", "rl", []],
        ["reverse-taught", "opd", "refKl", [{ role: "teacher", name: "reverser", urls: ["http://127.0.0.1:8001/v1"] }]],
        ["shout-taught", "opd", "refKl", [{ role: "teacher", name: "shouter", urls: ["http://127.0.0.1:8002/v1"] }]]
      ])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.effect("two sentences are two turns, with a verdict between them for ECHO to foresee", () =>
    Effect.gen(function* () {
      const [planned] = group([0])
      const example = Environment.exampleKey(twoSentences, 0)
      const ended = yield* Environment.rollout(twoSentences, { ...planned!, example }, { seed: 1 })
      expect(ended._tag).toBe("Rollout")
      const rollout = ended as Rollout
      expect(rollout.reward).toBe(1)
      expect(rollout.trace.nodes.map(({ message }) => message.role)).toEqual([
        "user",
        "assistant",
        "tool",
        "user",
        "assistant"
      ])
      const [scored] = yield* score(Echo.layer(), [rollout])
      const observed = scored!._tag === "Scored" ? scored!.credit.claims.filter(({ stream }) => stream === "ce") : []
      expect(observed.map(({ over }) => over)).toEqual([2])
    }).pipe(Effect.provide(Layer.merge(reverser, layerRenderer)))
  )
})
