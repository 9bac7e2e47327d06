import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Algorithm from "../src/Algorithm.ts"
import Grpo from "../src/algorithms/Grpo.ts"
import Sft from "../src/algorithms/Sft.ts"
import * as ModuleLoader from "../src/ModuleLoader.ts"
import * as Registry from "../src/Registry.ts"
import * as Testing from "../src/testing/index.ts"

const base = fileURLToPath(new URL("./data/modules", import.meta.url))
const registry = Registry.make([Grpo, Sft], (specifier) => ModuleLoader.load(specifier, base))
const errorOf = (config: Registry.AlgorithmConfig) => Effect.flip(registry.resolve(config))

describe("Registry", () => {
  it.effect("a built-in type with its keys gives static facts, the config with its defaults, and the layer", () =>
    Effect.gen(function* () {
      const grpo = yield* registry.resolve({ type: "grpo", length_penalty: { type: "linear" } })
      assert.deepStrictEqual([grpo.type, grpo.actionLoss, grpo.dependsOn.name], ["grpo", "rl", "group"])
      assert.deepStrictEqual(grpo.config, {
        length_penalty: {
          type: "linear",
          num_output_tokens_weight: 0.25,
          num_input_tokens_weight: 0.1,
          num_turns_weight: 0.1
        }
      })
      const source = { name: "math", groupSize: 1, seats: ["policy"], frozen: true }
      assert.deepStrictEqual(
        grpo.check(source).map(({ path }) => path),
        ["sampling.source", "group_size"]
      )
      const sft = yield* registry.resolve({ type: "sft" })
      assert.deepStrictEqual([sft.actionLoss, sft.dependsOn.name, sft.check(source)], ["ce", "self", []])
    })
  )

  it.effect("every problem of a config is reported, with its path", () =>
    Effect.gen(function* () {
      const error = yield* errorOf({
        type: "grpo",
        lenght_penalty: {},
        length_penalty: { type: "linear", num_turns_weight: -1, num_input_tokens_weight: Number.POSITIVE_INFINITY }
      })
      assert(error._tag === "AlgorithmConfigError")
      assert.deepStrictEqual(error.problems.map(({ path }) => path).sort(), [
        "lenght_penalty",
        "length_penalty.num_input_tokens_weight",
        "length_penalty.num_turns_weight"
      ])
      assert.include(error.message, "algorithm grpo, lenght_penalty: is unexpected")
    })
  )

  it.effect("a module of the user's is an algorithm like ours", () =>
    Effect.gen(function* () {
      const { layer, type } = yield* registry.resolve({ type: "./beatTheGroup.ts" })
      assert.strictEqual(type, "beat-the-group")
      const outcomes = yield* Testing.score(layer, Testing.group([1, 0.5])).pipe(Effect.provide(Testing.layerProvided))
      assert.deepStrictEqual(Testing.advantages(outcomes), { "g0/0": 0.5, "g0/1": -0.5 })
    })
  )

  it.effect("an algorithm that cannot start says which it is, however its hooks fail", () =>
    Effect.gen(function* () {
      const ways: ReadonlyArray<readonly [() => unknown, string]> = [
        [
          () => {
            throw new Error("no teacher")
          },
          "no teacher"
        ],
        [() => Effect.fail({ code: 5 }), '{"code":5}'],
        [() => Effect.die("bug"), "bug"],
        [() => undefined, "`hooks` gave no object of scoreRollout and scoreGroup, or of one of them"],
        [() => Effect.succeed({ scoreGroup: 5 }), "`hooks` gave no object"]
      ]
      for (const [hooks, words] of ways) {
        const mine = Algorithm.define({ type: "mine", actionLoss: "rl", hooks: hooks as () => Algorithm.Hooks })
        const { layer } = yield* Registry.make([mine], () => Effect.void).resolve({ type: "mine" })
        const error = yield* Effect.flip(Testing.score(layer, Testing.group([1])))
        assert.include(error.message, `algorithm mine could not start: ${words}`)
      }
    }).pipe(Effect.provide(Testing.layerProvided))
  )

  it.effect("what is not an algorithm, or is one of another line, is refused in those words", () =>
    Effect.gen(function* () {
      const words = {
        grop: `no package of that name is installed; a file's path begins with ./. Did you mean "grpo"? Built in: grpo, sft`,
        zebra: "no package of that name is installed; a file's path begins with ./. Built in: grpo, sft",
        "./mising.ts": `there is no file ${base}/mising.ts`,
        "./plain.mjs": "its default export is not Algorithm.define({ … })",
        "./noDefault.mjs": "it has no default export",
        "./throws.mjs": "TypeError: the model card is missing",
        "./foreign.mjs": "it was made with Effect 4.0.0, this run has 3.",
        "./unmarked.mjs": "it was made with Effect undefined, this run has 3.",
        "./unconfigurable.mjs": "it cannot be configured: no shape for these keys",
        "./newer.mjs": "it was made with another version of primerl (contract 99, this run has 1)"
      }
      for (const [type, expected] of Object.entries(words)) {
        const error = yield* errorOf({ type })
        assert.strictEqual(error._tag, "AlgorithmNotFound")
        assert.include(error.message, `algorithm "${type}": `)
        assert.include(error.message, expected)
      }
      assert.notInclude((yield* errorOf({ type: "jiti" })).message, "Built in")
    })
  )
})
