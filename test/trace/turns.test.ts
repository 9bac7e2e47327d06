import * as Either from "effect/Either"
import { describe, expect, it } from "vitest"
import type { Message } from "../../src/Message.ts"
import * as Rollout from "../../src/Rollout.ts"
import * as Trace from "../../src/Trace.ts"
import { rollout } from "../../src/testing/index.ts"

const ask: Message = { role: "user", content: "u" }
const turn = (completion: ReadonlyArray<number>, more: Partial<Trace.Turn> = {}): Trace.Turn => ({
  promptIds: Int32Array.of(1, 2),
  messageIndices: [0, -1],
  isContent: [1, 0],
  completionIds: Int32Array.from(completion),
  logprobs: completion.map(() => -1),
  message: { role: "assistant", content: completion.join() },
  ...more
})
const commit = (trace: Trace.Trace, given: Trace.Turn, messages: ReadonlyArray<Message> = [ask]) =>
  Trace.commit(Trace.prepare(trace, messages), given)
const committed = (...args: Parameters<typeof commit>) => Either.getOrThrow(commit(...args))
const refused = (result: Either.Either<unknown, Error>) => Either.getOrThrow(Either.flip(result))
const once = committed(Trace.empty, turn([10, 11]))

describe("a trace that has ended", () => {
  const sealed = Trace.seal(once, { reason: "max_turns", by: "environment" })

  it("takes nothing more, and says who ended it", () => {
    const error = refused(commit(sealed, turn([12])))
    expect(error).toBeInstanceOf(Trace.SealedTrace)
    expect(error.message).toBe("the rollout has ended (max_turns, by environment): nothing is added to its trace")
    expect(refused(Trace.commitPrompt(Trace.prepare(sealed, [ask, ask])))).toBeInstanceOf(Trace.SealedTrace)
  })

  it("was ended by who came first", () => {
    expect(Trace.seal(sealed, { reason: "done", by: "harness" }).stop).toEqual({
      reason: "max_turns",
      by: "environment"
    })
  })
})

describe("a request that is sent again", () => {
  it("finds the answer that its prompt has", () => {
    expect(Trace.answered(Trace.prepare(once, [ask]))).toBe(1)
    expect(Trace.answered(Trace.prepare(committed(once, turn([12])), [ask]))).toBe(2)
    expect(Trace.answered(Trace.prepare(once, [ask, once.nodes[1]!.message]))).toBeUndefined()
    expect(Trace.answered(Trace.prepare(once, [{ role: "user", content: "other" }]))).toBeUndefined()
    expect(Trace.answered(Trace.prepare(Trace.empty, []))).toBeUndefined()
  })

  it("API-03: an answer that never reached its caller is replaced: it lies on no branch and trains nothing", () => {
    const again = committed(once, turn([12], { replaces: 1 }))
    expect(again.nodes[1]).toMatchObject({ abandoned: true, sampled: false, mask: new Uint8Array(3) })
    expect(again.calls!.map(({ opened, replaces }) => [opened, replaces])).toEqual([
      ["start", undefined],
      [undefined, 1]
    ])
    expect(Trace.branches(again)).toEqual([{ path: [0, 2], shared: 0 }])
    expect(Trace.turns(again)).toBe(1)
    expect(Rollout.trainableTokens({ trace: again })).toBe(1)
    expect(Trace.usage(Trace.calls(again))).toEqual({ promptTokens: 4, cachedTokens: 1, completionTokens: 3 })
  })

  it("replaces an answer to its own prompt alone, and none that was gone on from", () => {
    const more = committed(
      once,
      turn([12], {
        promptIds: Int32Array.of(1, 2, 10, 11, 3),
        messageIndices: [0, 1, 1, 1, 2],
        isContent: [1, 1, 1, 1, 1]
      }),
      [ask, once.nodes[1]!.message, ask]
    )
    expect(refused(commit(more, turn([13], { replaces: 1 }))).message).toContain("answer 1 was gone on from")
    expect(refused(commit(more, turn([13], { replaces: 3 }))).message).toContain("message 3 answers another prompt")
    expect(refused(commit(more, turn([13], { replaces: 0 }))).message).toContain("message 0 is no answer of the model")
    expect(refused(Trace.abandon(more, 1)).message).toContain("answer 1 was gone on from")
  })

  it("an answer that is abandoned and not asked for again leaves its prompt as the end of the branch", () => {
    const left = Either.getOrThrow(Trace.abandon(once, 1))
    expect(Trace.branches(left)).toEqual([{ path: [0], shared: 0 }])
    expect(Trace.prepare(left, [ask, once.nodes[1]!.message]).prefix).toEqual([0])
    const line = Rollout.stringify(rollout({ trace: left }))
    expect(Either.getOrThrow(Rollout.parse(line))).toMatchObject({ trace: left })
  })
})

describe("the weights of an answer", () => {
  it("PACK-09: are known for every token, also of an answer that other weights went on with", () => {
    const versions = [
      { version: 1, tokens: 5 },
      { version: 2, tokens: 3 }
    ]
    const trace = committed(
      Trace.empty,
      turn([1, 2, 3, 4, 5, 6, 7, 8], { resumedTokens: 5, policyVersion: versions, closingIds: Int32Array.of(9) })
    )
    expect([...Trace.versions(trace, 1)!]).toEqual([-1, 1, 1, 1, 1, 1, 2, 2, 2, -1])
    expect([...trace.nodes[1]!.mask]).toEqual([0, 0, 0, 0, 0, 0, 1, 1, 1, 0])
    const short = turn([1, 2], { policyVersion: [{ version: 1, tokens: 1 }] })
    expect(refused(commit(Trace.empty, short)).message).toContain("policy versions of 1 tokens for 2 sampled ones")
    expect(Trace.versions(once, 1)).toBeUndefined()
    expect(Trace.versions(committed(Trace.empty, turn([4], { policyVersion: 7 })), 1)).toEqual(Int32Array.of(-1, 7))
  })
})

describe("time", () => {
  it("is added as it was measured and summed by what it was spent on; a rollout's line leaves it out", () => {
    const spans = [
      { name: "setup", startMs: 0, endMs: 5 },
      { name: "generation", startMs: 5, endMs: 25, node: 1 },
      { name: "generation", startMs: 30, endMs: 31.5, node: 1 }
    ]
    const timed = spans.reduce<Trace.Trace>(Trace.timed, once)
    expect(Trace.durations(timed.spans!)).toEqual({ setup: 5, generation: 21.5 })
    expect(Either.getOrThrow(Trace.parse(Trace.stringify(timed))).trace.spans).toEqual(spans)
    expect(Rollout.stringify(rollout({ trace: timed }))).toBe(Rollout.stringify(rollout({ trace: once })))
  })
})

describe("usage", () => {
  it("counts a provider's own numbers where it gives no ids", () => {
    const usage = { promptTokens: 100, cachedTokens: 64, completionTokens: 5 }
    const none = { promptIds: new Int32Array(0), messageIndices: [], isContent: [] }
    expect(Trace.usage(Trace.calls(committed(Trace.empty, turn([], { ...none, usage }))))).toEqual(usage)
  })

  it("is read from the answers of a trace that was written down without calls", () => {
    const more = committed(
      once,
      turn([12], {
        promptIds: Int32Array.of(1, 2, 10, 11, 3, 4),
        messageIndices: [0, 1, 1, 1, 2, -1],
        isContent: [1, 1, 1, 1, 1, 0]
      }),
      [ask, once.nodes[1]!.message, ask]
    )
    const numbers = Trace.calls(more).map(({ cachedTokens, completionTokens, node, promptTokens }) => ({
      ...{ node, promptTokens, cachedTokens, completionTokens }
    }))
    expect(Trace.calls({ nodes: more.nodes })).toEqual(numbers)
    expect(numbers[1]).toEqual({ node: 3, promptTokens: 6, cachedTokens: 4, completionTokens: 1 })
  })
})

describe("files of traces", () => {
  const line = JSON.parse(Trace.stringify(once, "t")) as Record<string, unknown>

  it("of the first version stay readable", () => {
    // Written by the first version: this text must never change.
    const first =
      '{"kind":"trace","version":1,"id":"t","stop":{"reason":"done","by":"harness"},"messages":[{"sampled":false,"message":{"role":"user","content":"u"}},{"parent":0,"sampled":true,"message":{"role":"assistant","content":"10,11"}}],"calls":[{"node":1,"promptTokens":2,"cachedTokens":0,"completionTokens":2,"opened":"start"}],"tokens":[{"tokenIds":"AQAAAA==","mask":"AA==","isContent":"AQ==","logprobs":""},{"tokenIds":"AgAAAAoAAAALAAAA","mask":"AAEB","isContent":"AAEB","logprobs":"AACAvwAAgL8="}]}'
    const trace = Trace.seal(once, { reason: "done", by: "harness" })
    expect(Either.getOrThrow(Trace.parse(first))).toStrictEqual({ id: "t", trace })
    expect(Trace.stringify(trace, "t")).toBe(first)
  })

  it("may say more than a reader knows", () => {
    const more = JSON.stringify({ ...line, weather: "fine", calls: [{ ...(line.calls as [object])[0], cost: 3 }] })
    expect(Either.getOrThrow(Trace.parse(more)).trace).toStrictEqual(once)
  })

  it("of a later version are refused where every token counts, and shown to people as far as they can be read", () => {
    const later = JSON.stringify({
      ...line,
      version: 2,
      messages: [
        ...(line.messages as Array<object>),
        { parent: 1, kind: "image", url: "cat.png" },
        { parent: 2, message: { role: "critic", content: [{ type: "text", text: "fine" }, { type: "audio" }] } }
      ],
      tokens: [...(line.tokens as Array<object>), {}, {}],
      calls: [{ ...(line.calls as [object])[0], opened: "dream" }],
      stop: { reason: "tired", by: "nobody" }
    })
    expect(refused(Trace.parse(later)).message).toBe("not a trace: it is of version 2, and this program knows 1")
    const { nodes, stop } = Either.getOrThrow(Trace.parseLoosely(later))
    expect(nodes.map(({ parent, role, text }) => [parent, role, text])).toEqual([
      [undefined, "user", "u"],
      [0, "assistant", "10,11"],
      [1, "image", ""],
      [2, "critic", "fine[audio]"]
    ])
    expect(nodes[2]!.raw).toEqual({ parent: 1, kind: "image", url: "cat.png" })
    expect(stop).toEqual({ reason: "tired", by: "nobody" })
  })

  it("that contradict themselves are refused with the place, by both readers", () => {
    const both = (change: object) => {
      const text = JSON.stringify({ ...line, ...change })
      return [refused(Trace.parse(text)).message, refused(Trace.parseLoosely(text)).message]
    }
    const messages = line.messages as ReadonlyArray<object>
    const tokens = line.tokens as ReadonlyArray<object>
    for (const message of both({ tokens: [] })) expect(message).toContain("2 messages and the tokens of 0")
    for (const message of both({ messages: [{ ...messages[0], parent: 1 }, messages[1]] }))
      expect(message).toContain("message 0 has parent 1")
    for (const message of both({ tokens: [tokens[0], { ...tokens[1], mask: "AAE=" }] }))
      expect(message).toContain("message 1: 3 ids")
    for (const message of both({ calls: [{ ...(line.calls as [object])[0], node: 5 }] }))
      expect(message).toContain("a call has answer 5 of 2")
    for (const message of both({ messages: undefined })) expect(message).toBe("not a trace: messages: is missing")
    expect(refused(Trace.parseLoosely("{")).message).toContain("not a trace: SyntaxError")
    expect(refused(Trace.parse("5")).message).toBe("not a trace: it is no object")
  })

  it("a run's rollouts read as traces, with what they earned", () => {
    const { about, id, nodes } = Either.getOrThrow(
      Trace.parseLoosely(Rollout.stringify(rollout({ id: "r", reward: 0.5 })))
    )
    expect([id, nodes.length, about.reward, about.stopReason]).toEqual(["r", 2, 0.5, "done"])
  })
})
