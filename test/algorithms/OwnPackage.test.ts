import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Config from "../../src/Config.ts"
import * as ModuleLoader from "../../src/ModuleLoader.ts"
import * as Registry from "../../src/Registry.ts"
import * as Run from "../../src/Run.ts"
import * as Testing from "../../src/testing/index.ts"
import { files } from "../config/files.ts"
// the package's own tests, as its author would run them
import "../../examples/normalized-grpo/index.test.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const read = (path: string) => readFileSync(`${root}/${path}`, "utf8")
const examples = "examples/normalized-grpo"

describe("docs/algorithms.md", () => {
  const page = read("docs/algorithms.md")

  it("shows the examples as they are in the repository, where they are compiled", () => {
    for (const path of ["package.json", "index.ts", "index.test.ts"]) {
      assert.include(page, `\n${read(`${examples}/${path}`)}\`\`\``, path)
    }
    assert.include(page, `\`\`\`ts\n${read("examples/short-observations.ts")}\`\`\``)
  })

  it.effect("its configurations are what a run takes", () =>
    Effect.gen(function* () {
      const tables = Array.from(page.matchAll(/```toml\n(.*?)```/gs), ([, text]) => text!)
      assert.lengthOf(tables, 4)
      for (const text of tables) {
        const source = text.includes("source]]") ? "" : '[[orchestrator.train.source]]\nenv = { id = "./math.ts" }\n'
        const toml = `[model]\nname = "policy"\n${source}${text}`
        const config = yield* Config.loadTrain(["rl.toml"], []).pipe(Effect.provide(files({ "rl.toml": toml })))
        for (const { algo } of config.orchestrator.train.source) {
          if (algo.type !== "normalized-grpo") yield* Run.registry.resolve(algo)
        }
      }
    })
  )

  it("has a section for every algorithm that a run knows, and no other", () => {
    const sections = Array.from(page.matchAll(/^## ([a-z_]+)$/gm), ([, name]) => name!)
    assert.deepStrictEqual(sections.sort(), [
      "echo",
      "grpo",
      "hierarchical_grpo",
      "max_rl",
      "opd",
      "opsd",
      "rae",
      "sft"
    ])
  })
})

describe("an algorithm from an installed package", () => {
  /** A project whose only package is the example. */
  const project = Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped()
    yield* fs.makeDirectory(`${directory}/node_modules`)
    yield* fs.copy(`${root}/${examples}`, `${directory}/node_modules/normalized-grpo`)
    return Registry.make([], (specifier) => ModuleLoader.load(specifier, directory))
  })

  it.scoped("is named by the package, and says of its own keys what is wrong with them", () =>
    Effect.gen(function* () {
      const registry = yield* project
      const resolved = yield* registry.resolve({ type: "normalized-grpo", epsilon: 1e-5 })
      assert.deepStrictEqual([resolved.type, resolved.config], ["normalized_grpo", { epsilon: 1e-5 }])
      const outcomes = yield* Testing.score(resolved.layer, Testing.group([1, 1.00001]))
      const [low, high] = Object.values(Testing.advantages(outcomes)) as Array<number>
      assert.closeTo(low!, -5e-6 / (Math.SQRT1_2 * 1e-5 + 1e-5), 1e-6)
      assert.closeTo(high!, -low!, 1e-9)
      const source = { name: "math", groupSize: 1, seats: ["policy"], frozen: false }
      assert.deepStrictEqual(
        resolved.check(source).map(({ path }) => path),
        ["group_size"]
      )

      const refused = yield* Effect.flip(registry.resolve({ type: "normalized-grpo", epsilon: 0, epsilom: 1 }))
      assert(refused._tag === "AlgorithmConfigError")
      assert.deepStrictEqual(refused.problems.map(({ path }) => path).sort(), ["epsilom", "epsilon"])
      assert.include(refused.message, "algorithm normalized_grpo, epsilon: Expected a positive number")
    }).pipe(Effect.provide([Testing.layerProvided, NodeContext.layer]))
  )

  it.scoped("ADV-04: the deviation is that of a sample, and epsilon is added to it", () =>
    Effect.gen(function* () {
      const { layer } = yield* (yield* project).resolve({ type: "normalized-grpo" })
      const outcomes = yield* Testing.score(layer, Testing.group([1, 1.00001]))
      const [low, high] = Object.values(Testing.advantages(outcomes)) as Array<number>
      assert.closeTo(low!, -0.6195, 5e-5)
      assert.closeTo(high!, 0.6195, 5e-5)
    }).pipe(Effect.provide([Testing.layerProvided, NodeContext.layer]))
  )
})
