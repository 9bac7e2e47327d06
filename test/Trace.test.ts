import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import * as Credit from "../src/Credit.ts"
import * as Message from "../src/Message.ts"
import * as Trace from "../src/Trace.ts"
import * as TrainingSample from "../src/TrainingSample.ts"
import { rollout } from "../src/testing/index.ts"

const user = (content: string): Message.Message => ({ role: "user", content })
const assistant = (content: string | null, more: Partial<Message.AssistantMessage> = {}): Message.AssistantMessage => ({
  role: "assistant",
  content,
  ...more
})

/** A turn whose prompt has `counts[i]` tokens of message i, and then scaffold. */
const turn = (
  promptIds: ReadonlyArray<number>,
  counts: ReadonlyArray<number>,
  completionIds: ReadonlyArray<number>,
  message: Message.AssistantMessage,
  more: Partial<Trace.Turn> = {}
): Trace.Turn => {
  const indices = counts.flatMap((count, index) => Array.from({ length: count }, () => index))
  return {
    promptIds: Int32Array.from(promptIds),
    messageIndices: [...indices, ...Array.from({ length: promptIds.length - indices.length }, () => -1)],
    isContent: promptIds.map((_, i) => (i < indices.length ? 1 : 0)),
    completionIds: Int32Array.from(completionIds),
    logprobs: completionIds.map((_, i) => -0.5 * (i + 1)),
    message,
    ...more
  }
}
const commit = (trace: Trace.Trace, messages: ReadonlyArray<Message.Message>, turn: Trace.Turn) =>
  Either.getOrThrow(Trace.commit(Trace.prepare(trace, messages), turn))
const branchIds = (trace: Trace.Trace) => Trace.branches(trace).map((branch) => [...Trace.tokenIds(trace, branch)])
const nodeIds = (trace: Trace.Trace) => trace.nodes.map((node) => [...node.tokenIds])
const masks = (trace: Trace.Trace) => trace.nodes.map((node) => [...node.mask])
/** What is trained of a trace, branch by branch. */
const trainedOf = (trace: Trace.Trace) =>
  Either.getOrThrow(TrainingSample.make({ rollout: rollout({ trace }), credit: Credit.uniform(1) })).map(
    ({ logprobs, mask, tokenIds }) => ({ tokenIds: [...tokenIds], mask: [...mask], logprobs: [...logprobs] })
  )

const u1 = user("u1")
const a1 = assistant("a1")
const first = commit(Trace.empty, [u1], turn([10, 11, 12], [2], [20, 21], a1))

describe("turns", () => {
  it("scaffold after a message belongs to the answer", () => {
    expect(nodeIds(first)).toEqual([
      [10, 11],
      [12, 20, 21]
    ])
    expect(masks(first)).toEqual([
      [0, 0],
      [0, 1, 1]
    ])
    expect(first.nodes[1]).toMatchObject({ parent: 0, sampled: true, isContent: Uint8Array.of(0, 1, 1) })
    expect([...first.nodes[1]!.logprobs]).toEqual([-0.5, -1])
  })

  it("a bridged prompt goes on from the exact ids of the last turn", () => {
    const pending = Trace.prepare(first, [u1, a1, user("u2")])
    expect(pending.previous).toEqual({ promptIds: Int32Array.of(10, 11, 12), completionIds: Int32Array.of(20, 21) })
    expect(pending.tail).toEqual([user("u2")])
    const second = Either.getOrThrow(
      Trace.commit(pending, {
        ...turn([10, 11, 12, 20, 21, 30, 31, 32], [], [40], assistant("a2")),
        messageIndices: [-1, -1, -1, -1, -1, 0, 0, -1],
        isContent: [0, 0, 0, 0, 0, 0, 1, 0],
        bridged: true
      })
    )
    expect(nodeIds(second).slice(2)).toEqual([
      [30, 31],
      [32, 40]
    ])
    expect([...second.nodes[2]!.isContent]).toEqual([0, 1])
    expect(branchIds(second)).toEqual([[10, 11, 12, 20, 21, 30, 31, 32, 40]])
    expect(Trace.turns(second)).toBe(2)
    expect(Trace.lastReply(second)).toBe("a2")
  })

  it("a prompt rendered anew that repeats the ids stays on one branch", () => {
    const one = commit(Trace.empty, [u1], turn([1, 2, 3], [2], [4, 5], a1))
    const same = commit(one, [u1, a1, user("u2")], turn([1, 2, 3, 4, 5, 6, 7], [2, 3, 2], [8], assistant("a2")))
    expect(branchIds(same)).toEqual([[1, 2, 3, 4, 5, 6, 7, 8]])
  })

  it("forks where the ids differ although the messages do not; what was re-rendered is context", () => {
    const one = commit(Trace.empty, [u1], turn([1, 2, 3], [2], [4, 5], a1))
    const forked = commit(one, [u1, a1, user("u2")], turn([1, 2, 3, 99, 5, 6, 7], [2, 3, 2], [8], assistant("a2")))
    expect(branchIds(forked)).toEqual([
      [1, 2, 3, 4, 5],
      [1, 2, 3, 99, 5, 6, 7, 8]
    ])
    expect(forked.nodes[2]).toMatchObject({ sampled: false, mask: new Uint8Array(3), message: a1 })
  })

  it("TOK-03: sampled ids are kept as sampled, though their text would encode to others", () => {
    const [he, llo] = [71, 72]
    const one = commit(Trace.empty, [u1], turn([1, 2], [2], [he, llo], assistant("hello")))
    const pending = Trace.prepare(one, [u1, assistant("hello"), user("more")])
    expect([...pending.previous!.completionIds]).toEqual([he, llo])
    const bridged = Either.getOrThrow(
      Trace.commit(pending, {
        ...turn([1, 2, he, llo, 9], [], [5], assistant("ok")),
        messageIndices: [-1, -1, -1, -1, 0],
        bridged: true
      })
    )
    const trained = bridged.nodes.flatMap((node) => [...node.tokenIds].filter((_, i) => node.mask[i] === 1))
    expect(trained).toEqual([he, llo, 5])
    expect(bridged.nodes[1]!.logprobs.length).toBe(2)
  })

  it("TOK-04: a rewritten history forks instead of shifting masks", () => {
    const thought = assistant("S1", { reasoningContent: "because" })
    const one = commit(Trace.empty, [u1], turn([1, 2, 3, 4, 5], [4], [11, 12, 13, 14], thought))
    const two = commit(
      one,
      [u1, thought, user("u2")],
      turn([1, 2, 3, 4, 5, 13, 14, 6, 7], [4, 3, 1], [21, 22, 23], assistant("S2"))
    )
    const trained = two.nodes.map((node) => node.mask.reduce((sum, bit) => sum + bit, 0)).filter((count) => count > 0)
    expect(Trace.branches(two).length).toBe(2)
    expect(trained).toEqual([4, 3])
    expect(trainedOf(two)).toEqual([
      {
        tokenIds: [1, 2, 3, 4, 5, 11, 12, 13, 14],
        mask: [0, 0, 0, 0, 0, 1, 1, 1, 1],
        logprobs: [0, 0, 0, 0, 0, -0.5, -1, -1.5, -2]
      },
      {
        tokenIds: [1, 2, 3, 4, 5, 13, 14, 6, 7, 21, 22, 23],
        mask: [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1],
        logprobs: [0, 0, 0, 0, 0, 0, 0, 0, 0, -0.5, -1, -1.5]
      }
    ])
  })

  it("TOK-08: a response whose log-probabilities are not one per id is refused", () => {
    const broken = { ...turn([1], [1], [4, 5, 6], a1), logprobs: [-1, -1, -1, -1] }
    const error = Either.getOrThrow(Either.flip(Trace.commit(Trace.prepare(Trace.empty, [u1]), broken)))
    expect(error).toBeInstanceOf(Trace.TraceError)
    expect(error.message).toContain("3 sampled ids and 4 log-probabilities")
  })

  it("API-14: a log-probability that is no number is refused", () => {
    for (const bad of [Number.NEGATIVE_INFINITY, Number.NaN]) {
      const broken = { ...turn([1], [1], [4, 5], a1), logprobs: [-0.1, bad] }
      const error = Either.getOrThrow(Either.flip(Trace.commit(Trace.prepare(Trace.empty, [u1]), broken)))
      expect(error.message).toContain(`log-probability ${bad} of sampled token 1 (id 5)`)
    }
  })

  it("TOK-14: an end token that was appended is context, one that was sampled is trained", () => {
    const eos = 2
    const appended = commit(Trace.empty, [u1], turn([1], [1], [5, 6], a1, { closingIds: Int32Array.of(eos) }))
    expect([...appended.nodes[1]!.mask]).toEqual([1, 1, 0])
    expect(appended.nodes[1]!.logprobs.length).toBe(2)
    expect([...Trace.prepare(appended, [u1, a1]).previous!.completionIds]).toEqual([5, 6, eos])
    const sampled = commit(Trace.empty, [u1], turn([1], [1], [5, 6, eos], a1))
    expect([...sampled.nodes[1]!.mask]).toEqual([1, 1, 1])
  })

  it("PACK-09: what an earlier policy wrote before an interruption is context, and masks keep their length", () => {
    const resumed = commit(Trace.empty, [u1], turn([1], [1], [4, 5, 6, 7, 8, 9, 10, 11], a1, { resumedTokens: 5 }))
    expect([...resumed.nodes[1]!.mask]).toEqual([0, 0, 0, 0, 0, 1, 1, 1])
    expect([...resumed.nodes[1]!.logprobs]).toEqual([-3, -3.5, -4])
    expect(trainedOf(resumed)).toEqual([
      {
        tokenIds: [1, 4, 5, 6, 7, 8, 9, 10, 11],
        mask: [0, 0, 0, 0, 0, 0, 1, 1, 1],
        logprobs: [0, 0, 0, 0, 0, 0, -3, -3.5, -4]
      }
    ])
  })

  it("a close that a bridge puts in belongs to the next message", () => {
    const second = Either.getOrThrow(
      Trace.commit(Trace.prepare(first, [u1, a1, user("u2")]), {
        ...turn([10, 11, 12, 20, 21, 99, 30, 31, 32], [], [40], assistant("a2")),
        messageIndices: [-1, -1, -1, -1, -1, -1, 0, 0, -1],
        bridged: true
      })
    )
    expect([...second.nodes[2]!.tokenIds]).toEqual([99, 30, 31])
    expect([...second.nodes[2]!.mask]).toEqual([0, 0, 0])
  })

  it("compacted histories share what they share; the same prompt sampled twice has two leaves", () => {
    const system: Message.Message = { role: "system", content: "S" }
    let trace = Trace.empty
    for (const [index, note] of ["task", "notes1", "notes2"].entries()) {
      trace = commit(trace, [system, user(note)], turn([1, 5 + index, 3], [1, 1], [20 + index], assistant(note)))
    }
    expect(branchIds(trace)).toEqual([
      [1, 5, 3, 20],
      [1, 6, 3, 21],
      [1, 7, 3, 22]
    ])
    expect(Trace.branches(trace).map(({ shared }) => shared)).toEqual([0, 1, 1])
    const again = commit(first, [u1], turn([10, 11, 12], [2], [20, 21], a1))
    expect(branchIds(again)).toEqual([
      [10, 11, 12, 20, 21],
      [10, 11, 12, 20, 21]
    ])
  })

  it("an assistant message that the caller wrote is no turn", () => {
    const call = assistant(null, { toolCalls: [{ id: "c", name: "f", arguments: "{}" }] })
    const tool: Message.Message = { role: "tool", toolCallId: "c", content: "r" }
    const trace = commit(Trace.empty, [u1, call, tool], turn([1, 2, 3, 4], [1, 1, 1], [9], a1))
    expect(trace.nodes.map(({ sampled }) => sampled)).toEqual([false, false, false, true])
    expect(Trace.turns(trace)).toBe(1)
  })

  it("a message without tokens takes none, and its neighbours keep theirs", () => {
    const messages = [user("a"), user(""), user("c")]
    const trace = commit(Trace.empty, messages, turn([1, 2, 3], [1, 0, 1], [9], a1))
    expect(nodeIds(trace)).toEqual([[1], [], [2], [3, 9]])
  })

  it("messages that the model was never asked about are kept without tokens", () => {
    const trace = Either.getOrThrow(Trace.commitPrompt(Trace.prepare(first, [u1, a1, user("too long")])))
    expect(Trace.branches(trace).map((branch) => Trace.messages(trace, branch).length)).toEqual([3])
    expect(trace.nodes[2]!.tokenIds.length).toBe(0)
  })

  it("along every branch the ids are exactly what was asked and sampled", () => {
    const piece = FastCheck.array(FastCheck.integer({ min: 0, max: 3 }), { maxLength: 4 })
    const turns = FastCheck.array(FastCheck.record({ drop: FastCheck.nat(3), text: piece, completion: piece }), {
      minLength: 1,
      maxLength: 6
    })
    FastCheck.assert(
      FastCheck.property(turns, (steps) => {
        let trace = Trace.empty
        let history: ReadonlyArray<{ readonly message: Message.Message; readonly ids: ReadonlyArray<number> }> = []
        for (const { completion, drop, text } of steps) {
          const kept = history.slice(0, Math.max(0, history.length - drop))
          const prompt = [...kept, { message: user(text.join()), ids: text }]
          const promptIds = [...prompt.flatMap(({ ids }) => ids), 77]
          const answer = assistant(completion.join())
          const counts = prompt.map(({ ids }) => ids.length)
          trace = commit(
            trace,
            prompt.map(({ message }) => message),
            turn(promptIds, counts, completion, answer)
          )
          const path = Trace.branches(trace).at(-1)!
          expect([...Trace.tokenIds(trace, path)]).toEqual([...promptIds, ...completion])
          history = [...prompt, { message: answer, ids: [77, ...completion] }]
        }
        const sampled = trace.nodes.reduce((sum, node) => sum + node.logprobs.length, 0)
        expect(sampled).toBe(steps.reduce((sum, { completion }) => sum + completion.length, 0))
      })
    )
  })
})

describe("identity of messages", () => {
  const call = (json: string) => assistant(null, { toolCalls: [{ id: "call_0", name: "lookup", arguments: json }] })
  it("is that of their meaning", () => {
    expect(Message.hash(assistant(null))).toBe(Message.hash(assistant("")))
    expect(Message.hash(call('{"b": 2, "a": [{"d":1, "c":2}]}'))).toBe(
      Message.hash(call('{"a":[{"c":2,"d":1}],"b":2}'))
    )
    expect(Message.hash({ role: "tool", toolCallId: "c", content: "r", name: "x" })).toBe(
      Message.hash({ role: "tool", toolCallId: "c", content: "r" })
    )
  })
  it("keeps the parts of a message apart", () => {
    const named = (id: string, name: string) => assistant(null, { toolCalls: [{ id, name, arguments: "{}" }] })
    expect(Message.hash(named("ab", "c"))).not.toBe(Message.hash(named("a", "bc")))
  })
  it("differs with role, reasoning, call and text", () => {
    const hashes = [
      user("x"),
      { role: "system", content: "x" } as const,
      assistant("x"),
      assistant("x", { reasoningContent: "" }),
      assistant("x", { reasoningContent: "plan A" }),
      call("{"),
      call("{}"),
      { role: "tool", toolCallId: "c", content: "x" } as const
    ].map(Message.hash)
    expect(new Set(hashes).size).toBe(hashes.length)
    expect(hashes[0]).toMatch(/^[0-9a-f]{32}$/)
  })
})
