import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import * as Trace from "../../src/Trace.ts"
import { play, type Step, steps } from "./anyConversation.ts"

const pathTo = ({ nodes }: Trace.Trace, leaf: number): Trace.Branch => {
  const path: Array<number> = []
  for (let at: number | undefined = leaf; at !== undefined; at = nodes[at]!.parent) path.push(at)
  return { path: path.reverse(), shared: 0 }
}
const runs = { numRuns: 400 }

describe("whatever callers do", () => {
  it("every turn and every branch is, id by id, what the engine saw and sampled", () => {
    FastCheck.assert(
      FastCheck.property(steps, (all) => {
        const { seen, trace } = play(all)
        for (const { closingIds, completionIds, node, promptIds } of seen) {
          expect([...Trace.tokenIds(trace, pathTo(trace, node))]).toEqual([
            ...promptIds,
            ...completionIds,
            ...closingIds
          ])
        }
        const byLeaf = new Map(seen.map((one) => [one.node, one]))
        for (const branch of Trace.branches(trace)) {
          const { closingIds, completionIds, promptIds } = byLeaf.get(branch.path.at(-1)!)!
          expect([...Trace.tokenIds(trace, branch)]).toEqual([...promptIds, ...completionIds, ...closingIds])
        }
      }),
      runs
    )
  })

  it("every token that was sampled is trained once, and none of an answer that was replaced", () => {
    FastCheck.assert(
      FastCheck.property(steps, (all) => {
        const { seen, trace } = play(all)
        const kept = seen.filter(({ replaced }) => !replaced)
        const trained = Trace.branches(trace).flatMap(({ path, shared }) =>
          path.slice(shared).flatMap((index) => {
            const { mask, tokenIds } = trace.nodes[index]!
            return Array.from(tokenIds).filter((_, i) => mask[i] === 1)
          })
        )
        expect(trained.sort()).toEqual(kept.flatMap(({ completionIds }) => completionIds).sort())
        expect(trace.nodes.reduce((sum, { logprobs }) => sum + logprobs.length, 0)).toBe(trained.length)
        expect(Trace.turns(trace)).toBe(kept.length)
      }),
      runs
    )
  })

  it("calls count what was asked and sampled, and name the weights of every token", () => {
    FastCheck.assert(
      FastCheck.property(steps, (all) => {
        const { seen, trace } = play(all)
        expect(
          Trace.calls(trace).map(({ completionTokens, node, promptTokens }) => [node, promptTokens, completionTokens])
        ).toEqual(seen.map(({ completionIds, node, promptIds }) => [node, promptIds.length, completionIds.length]))
        for (const { cachedTokens, node, promptTokens, versions } of Trace.calls(trace)) {
          expect(cachedTokens).toBeLessThanOrEqual(promptTokens)
          const perToken = Trace.versions(trace, node)!
          const sampled = trace.nodes[node]!.isContent
          expect([...perToken]).toEqual(Array.from(sampled, (flag) => (flag === 1 ? versions![0]!.version : -1)))
        }
      }),
      runs
    )
  })

  it("a file brings every trace back, and reads loosely to the same shape", () => {
    FastCheck.assert(
      FastCheck.property(steps, (all) => {
        const { trace } = play(all)
        const line = Trace.stringify(trace, "t")
        expect(Either.getOrThrow(Trace.parse(line))).toStrictEqual({ id: "t", trace })
        const loose = Either.getOrThrow(Trace.parseLoosely(line))
        expect(Trace.branches(loose)).toEqual(Trace.branches(trace))
        expect(Trace.calls(loose)).toEqual(Trace.calls(trace))
      }),
      { numRuns: 100 }
    )
  })
})

const step = (kind: Step["kind"], more: Partial<Step> = {}): Step => ({
  kind,
  pick: 0,
  ids: [1, 2],
  completion: [10, 11],
  closing: false,
  ...more
})
const openings = (...all: ReadonlyArray<Step>) => play(all).trace.calls!.map(({ opened }) => opened)

describe("how a branch was opened", () => {
  it("is said of every turn that does not go on from the end of one", () => {
    expect(openings(step("root"), step("go on"))).toEqual(["start", undefined])
    expect(openings(step("root"), step("root", { pick: 1 }))).toEqual(["start", "root"])
    expect(openings(step("root"), step("compact"))).toEqual(["start", "rewrite"])
    expect(openings(step("root"), step("again"))).toEqual(["start", "resample"])
    expect(openings(step("root"), step("drift"))).toEqual(["start", "tokens"])
    expect(openings(step("root"), step("go on"), step("render"))).toEqual(["start", undefined, "fork"])
    expect(openings(step("root"), step("fail"), step("go on"))).toEqual(["start", undefined])
  })

  it("a sub-agent between two turns opens a branch of its own and leaves the first where it was", () => {
    // pick 2 of two histories is the first: what began before the sub-agent goes on.
    const { trace } = play([step("root"), step("root", { pick: 1 }), step("go on", { pick: 2 })])
    expect(trace.calls!.map(({ opened }) => opened)).toEqual(["start", "root", undefined])
    expect(Trace.branches(trace).map(({ path }) => path.length)).toEqual([2, 5])
  })

  it("API-19: requests with one prompt at the same time share it, and each answer is trained", () => {
    const { trace } = play([step("root"), step("at once")])
    expect(trace.calls!.map(({ opened }) => opened)).toEqual(["start", undefined, "resample"])
    expect(trace.nodes.map(({ parent }) => parent)).toEqual([undefined, 0, 1, 2, 3, 3])
  })
})

describe("a prompt that lies in a trace several times over", () => {
  it("is found where it goes furthest, so that its turn is still extended and not encoded anew", () => {
    const messages = ["u0", "same", "u1"].map((content, i) =>
      i === 1 ? ({ role: "assistant", content } as const) : ({ role: "user", content } as const)
    )
    const turn = (prompt: ReadonlyArray<number>, id: number): Trace.Turn => ({
      promptIds: Int32Array.from(prompt),
      messageIndices: prompt.map((_, i) => Math.min(i, 2)),
      isContent: prompt.map(() => 1),
      completionIds: Int32Array.of(id),
      logprobs: [-1],
      message: { role: "assistant", content: "same" }
    })
    const ask = (trace: Trace.Trace, count: number, prompt: ReadonlyArray<number>, id: number) =>
      Either.getOrThrow(Trace.commit(Trace.prepare(trace, messages.slice(0, count)), turn(prompt, id)))
    const [one, other] = [10, 11]
    const forked = ask(ask(Trace.empty, 1, [5], one), 1, [5], other)
    // The caller goes on from the first of two answers that read the same.
    const gone = ask(forked, 3, [5, one, 6], 12)
    expect(Trace.prepare(gone, messages).prefix).toEqual([0, 1, 3])
    expect([...Trace.prepare(gone, [...messages, { role: "assistant", content: "same" }]).previous!.promptIds]).toEqual(
      [5, one, 6]
    )
  })
})

describe("drift", () => {
  it("is the share of turns whose history came out as other ids", () => {
    expect(Trace.drift(play([step("root"), step("go on"), step("render", { pick: 1 })]).trace)).toBe(0)
    expect(Trace.drift(play([step("root"), step("go on"), step("drift"), step("drift", { pick: 1 })]).trace)).toBe(0.5)
    expect(Trace.drift(Trace.empty)).toBe(0)
  })
})
