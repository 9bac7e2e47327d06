import * as Either from "effect/Either"
import { describe, expect, it } from "vitest"
import * as Reward from "../src/Reward.ts"
import * as Rollout from "../src/Rollout.ts"
import { rollout } from "../src/testing/index.ts"

describe("names that JavaScript treats in a way of its own", () => {
  it.each(["constructor", "toString", ""])("a metric called %j comes back", (name) => {
    const metrics = JSON.parse(`{${JSON.stringify(name)}: 0.5}`) as Record<string, number>
    const read = Either.getOrThrow(Rollout.parse(Rollout.stringify(rollout({ metrics, rewards: metrics }))))
    expect(read._tag === "Rollout" && Object.entries(read.metrics)).toEqual([[name, 0.5]])
    expect(read._tag === "Rollout" && Object.entries(read.rewards)).toEqual([[name, 0.5]])
  })

  it("the one name that no record can hold is refused where it is given", () => {
    expect(() => Reward.make(Object.fromEntries([["__proto__", () => 1]]))).toThrow(/__proto__.*take another/)
  })
})
