import { assert, describe, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import type * as Algorithm from "../../src/Algorithm.ts"
import * as Primerl from "../../src/index.ts"
import * as Run from "../../src/Run.ts"

const teacher = { name: "expert", base_url: "http://localhost:8001/v1" }

/** What each needs to be configured at all, its loss on actions, and the set that its credit waits for. */
const all = {
  grpo: [Primerl.Grpo, {}, "rl", "group"],
  max_rl: [Primerl.MaxRl, {}, "rl", "group"],
  rae: [Primerl.Rae, {}, "rl", "self"],
  hierarchical_grpo: [Primerl.HierarchicalGrpo, { episode_agents: ["policy"] }, "rl", "group"],
  opd: [Primerl.Opd, { teacher }, "refKl", "self"],
  opsd: [Primerl.Opsd, {}, "refKl", "self"],
  sft: [Primerl.Sft, {}, "ce", "self"],
  echo: [Primerl.Echo, {}, "rl", "group"]
} as const

describe("the algorithms that come with a run", () => {
  it("are these eight", () => {
    assert.deepStrictEqual([...Run.registry.known].sort(), Object.keys(all).sort())
  })

  it.effect("are found by their type, with the loss and the set that they declare", () =>
    Effect.gen(function* () {
      for (const [type, [definition, config, actionLoss, rule]] of Object.entries(all)) {
        const resolved = yield* Run.registry.resolve({ type, ...config })
        assert.deepStrictEqual([resolved.type, resolved.actionLoss, resolved.dependsOn.name], [type, actionLoss, rule])
        assert.strictEqual(definition.type, type)
      }
    })
  )

  it.effect("O13, O14: what a frozen model sampled is for sft alone, and what the policy sampled for the others", () =>
    Effect.gen(function* () {
      for (const [type, [, config]] of Object.entries(all)) {
        const { check } = yield* Run.registry.resolve({ type, ...config })
        const source = { name: "math", groupSize: 8, seats: ["policy"] }
        const [wrong, right] = [type !== "sft", type === "sft"]
        assert.deepStrictEqual(check({ ...source, frozen: right }), [], type)
        const [problem, ...more] = check({ ...source, frozen: wrong })
        assert.deepStrictEqual([problem?.path, more], ["sampling.source", []], type)
        if (type !== "sft")
          assert.include(problem?.message, `samples from a frozen model, which ${type} cannot train on`)
      }
    })
  )

  it("a group of several seats is refused by those that would centre them together, and by no other", () => {
    const seats = ["policy", "judge"]
    const refusing = Object.entries(all).flatMap(([type, [definition, config]]) => {
      const configured = Either.getOrThrow(
        definition.configure(config) as Either.Either<Algorithm.Configured<unknown, unknown>, Error>
      )
      const problems = configured.check({ name: "games", groupSize: 8, seats, frozen: type === "sft" })
      return problems.some(({ message }) => message.includes("seats policy, judge")) ? [type] : []
    })
    assert.deepStrictEqual(refusing, ["grpo", "max_rl", "echo"])
  })
})
