import { Effect } from "effect"
import { advantages, group, score } from "primerl/testing"
import { expect, it } from "vitest"
import normalizedGrpo from "./index.ts"

it("is in units of the group's deviation", async () => {
  const outcomes = await Effect.runPromise(score(normalizedGrpo.layer(), group([1, 1.00001])))
  const [low, high] = Object.values(advantages(outcomes)) as Array<number>
  expect(low).toBeCloseTo(-0.6195, 4)
  expect(high).toBeCloseTo(0.6195, 4)
})

it("finds nothing in equal rewards", async () => {
  const outcomes = await Effect.runPromise(score(normalizedGrpo.layer(), group([0.1, 0.1, 0.1])))
  expect(Object.values(advantages(outcomes))).toEqual([0, 0, 0])
})
