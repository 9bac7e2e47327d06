import { Effect } from "effect"
import { Tokenizer } from "primerl"
import { explain, group, layerTokenizer, properties, score, toolCall, without } from "primerl/testing"
import { matchers } from "primerl/testing/vitest"
import { describe, expect, it } from "vitest"
import rank from "./rank.ts"

expect.extend(matchers)

it("goes by rank, and ties share it", async () => {
  const outcomes = await Effect.runPromise(score(rank.layer(), group([100, 0.5, 0.5, -3])))
  expect(outcomes).toHaveAdvantages([1, 0, 0, -1])
})

it("leaves a rollout that failed out of the ranking", async () => {
  const ended = without(group([1, 0, 0.5]), { 2: { _tag: "Failed", blame: "provider", message: "gone" } })
  const outcomes = await Effect.runPromise(score(rank.layer(), ended))
  expect(outcomes).toHaveAdvantages({ "g0/0": 1, "g0/1": -1, "g0/2": "Failed" })
})

it("trains what the policy said, and not what the tool answered", async () => {
  const found = await Effect.runPromise(
    Effect.flatMap(Tokenizer.Tokenizer, (tokenizer) =>
      explain(rank.layer(), group([1, 0], { trace: toolCall }), { tokenizer })
    ).pipe(Effect.provide(layerTokenizer))
  )
  const trained = found.rollouts[0]!.branches[0]!.tokens.filter(({ terms }) => terms.length > 0)
  expect(trained.map(({ text }) => text).join("")).toBe("add(17,4)It is 21.")
})

describe("keeps what its users rely on", () => {
  for (const { name, run } of properties(rank.layer())) it(name, run)
})
