import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import * as Credit from "../src/Credit.ts"
import type { Node } from "../src/Trace.ts"

const claim: FastCheck.Arbitrary<Credit.Claim> = FastCheck.record({
  stream: FastCheck.constantFrom<Credit.Stream>("advantages", "referenceLogprobs", "rl", "ce", "refKl"),
  over: FastCheck.oneof(FastCheck.nat(5), FastCheck.constant("sampled" as const)),
  values: FastCheck.double({ noNaN: true }),
  writer: FastCheck.string()
})
const credit = FastCheck.array(claim).map((claims): Credit.Credit => ({ claims }))

const node = (parent: number | undefined, sampled: boolean): Node => ({
  parent,
  message: sampled ? { role: "assistant", content: "" } : { role: "user", content: "" },
  sampled,
  tokenIds: Int32Array.of(1),
  mask: Uint8Array.of(sampled ? 1 : 0),
  isContent: Uint8Array.of(1),
  logprobs: new Float32Array(sampled ? 1 : 0)
})
const rollout = (...nodes: ReadonlyArray<Node>) => ({ id: "r1", trace: { nodes } })

describe("Credit", () => {
  it("is a monoid", () => {
    FastCheck.assert(
      FastCheck.property(credit, credit, credit, (a, b, c) => {
        expect(Credit.combine(Credit.combine(a, b), c)).toEqual(Credit.combine(a, Credit.combine(b, c)))
        expect(Credit.combine(Credit.empty, a)).toEqual(a)
        expect(Credit.combine(a, Credit.empty)).toEqual(a)
      })
    )
  })

  it("is plain data: what says the same to every token is one number, and it survives JSON", () => {
    const credit = Credit.by(Credit.combine(Credit.uniform(0.25), Credit.actions("ce")), "mine")
    expect(credit.claims.map(({ values }) => values)).toEqual([0.25, 0, 1])
    expect(JSON.parse(JSON.stringify(credit))).toEqual(credit)
    expect(credit.claims.every(({ writer }) => writer === "mine")).toBe(true)
  })

  it("adds what is counted up, by name", () => {
    const twice = Credit.counted(Credit.counted(Credit.uniform(1), "cut"), "cut")
    expect(Credit.combine(twice, Credit.counted(Credit.counted(Credit.empty, "cut"), "late")).counts).toEqual({
      cut: 3,
      late: 1
    })
  })

  it("by signs what nobody has signed, and no claim twice", () => {
    const signed = Credit.by(Credit.combine(Credit.by(Credit.uniform(1), "first"), Credit.actions("ce")), "second")
    expect(signed.claims.map(({ writer }) => writer)).toEqual(["first", "second", "second"])
  })

  it("perTurn wants one advantage for each turn", () => {
    const two = rollout(node(undefined, false), node(0, true), node(1, false), node(2, true))
    expect(Credit.perTurn(two, [1, -1]).claims.map(({ over, values }) => [over, values])).toEqual([
      [1, 1],
      [3, -1]
    ])
    expect(() => Credit.perTurn(two, [1])).toThrow("1 advantages for the 2 turns of rollout r1")
  })

  it("onRoles speaks of what follows a response on their own path, not merely in time", () => {
    const forked = rollout(node(undefined, false), node(0, true), node(undefined, false), node(2, true), node(1, false))
    expect(Credit.onRoles(forked, { user: 0.5 }).claims.map(({ over }) => over)).toEqual([4])
  })

  it("onRoles keeps what it is told to keep, and of a message with some tokens left out says it token by token", () => {
    const answer: Node = {
      ...node(1, false),
      tokenIds: Int32Array.of(5, 6, 7),
      mask: new Uint8Array(3),
      isContent: Uint8Array.of(0, 1, 1)
    }
    const seen = rollout(node(undefined, false), node(0, true), answer)
    const claims = (keep: Credit.Keep) =>
      Credit.onRoles(seen, { user: 0.5 }, keep).claims.map(({ over, values }) => [over, values])
    expect(claims(() => true)).toEqual([[2, 0.5]])
    expect(claims(() => false)).toEqual([])
    expect(claims(({ tokenIds }) => Array.from(tokenIds, (id) => id !== 6))).toEqual([[2, Float32Array.of(0, 0, 0.5)]])
    expect(() => claims(() => [true])).toThrow("a mask of 1 for the 3 tokens of message 2 of rollout r1")
    expect(() => claims(() => "all" as unknown as boolean)).toThrow("it must give true, false or a mask")
  })

  it("actions of rl say nothing: it is what happens anyway", () => {
    expect(Credit.actions("rl")).toBe(Credit.empty)
  })
})
