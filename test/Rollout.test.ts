import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import type { Message } from "../src/Message.ts"
import * as Rollout from "../src/Rollout.ts"
import type { Node } from "../src/Trace.ts"

const planned: Rollout.Planned = {
  id: "r1",
  sequence: 4,
  source: "s",
  example: "e",
  group: { id: "g", size: 2 },
  episode: { id: "r1", size: 1 },
  seat: "policy",
  policyVersion: 7,
  labels: { level: "3" }
}
const node = (parent: number | undefined, message: Message, logprobs: ReadonlyArray<number>, context = 2): Node => ({
  parent,
  message,
  sampled: logprobs.length > 0,
  tokenIds: Int32Array.from({ length: context + logprobs.length }, (_, i) => 150000 + i),
  mask: Uint8Array.from({ length: context + logprobs.length }, (_, i) => (i < context ? 0 : 1)),
  isContent: Uint8Array.from({ length: context + logprobs.length }, (_, i) => i % 2),
  logprobs: Float32Array.from(logprobs)
})
const rollout = (nodes: ReadonlyArray<Node>, more: Partial<Rollout.Rollout> = {}): Rollout.Rollout => ({
  ...planned,
  _tag: "Rollout",
  trace: { nodes },
  info: { answer: "4" },
  temperature: 0.7,
  reward: 0.1,
  rewards: { a: 0.1 },
  metrics: {},
  stopReason: "done",
  ...more
})
const messages: ReadonlyArray<Message> = [
  { role: "system", content: "ü \u{1F600} \u0000 \u2028" },
  { role: "user", content: "" },
  { role: "tool", toolCallId: "c", content: "r", name: "f" },
  { role: "assistant", content: null, toolCalls: [{ id: "c", name: "f", arguments: '{"a": 1' }] },
  { role: "assistant", content: "x", reasoningContent: "" }
]

/** Equal bit for bit: `toEqual` alone tells neither −0 from 0 in typed arrays nor one kind of array from another. */
const expectSame = (actual: Rollout.Ended, expected: Rollout.Ended) => {
  expect(actual).toStrictEqual(expected)
  if (actual._tag === "Absent" || expected._tag === "Absent") return
  for (const [i, { isContent, logprobs, mask, tokenIds }] of expected.trace.nodes.entries()) {
    const read = actual.trace.nodes[i]!
    for (const [a, b] of [
      [read.logprobs, logprobs],
      [read.tokenIds, tokenIds],
      [read.mask, mask],
      [read.isContent, isContent]
    ] as const) {
      expect(a.constructor).toBe(b.constructor)
      expect([...new Uint8Array(a.buffer, a.byteOffset, a.byteLength)]).toEqual([
        ...new Uint8Array(b.buffer, b.byteOffset, b.byteLength)
      ])
    }
  }
}
const roundTrip = (ended: Rollout.Ended) => {
  const line = Rollout.stringify(ended)
  expect(line).not.toContain("\n")
  expectSame(Either.getOrThrow(Rollout.parse(line)), ended)
}

describe("codec", () => {
  it("brings back every bit of any rollout", () => {
    const float32 = FastCheck.float({ noNaN: true, noDefaultInfinity: true })
    const nodes = FastCheck.array(
      FastCheck.record({
        message: FastCheck.constantFrom(...messages),
        logprobs: FastCheck.array(float32),
        up: FastCheck.nat()
      }),
      { maxLength: 6 }
    ).map((specs) =>
      specs.map(({ logprobs, message, up }, i) => node(i === 0 || up % 5 === 0 ? undefined : up % i, message, logprobs))
    )
    const numbers = FastCheck.dictionary(
      FastCheck.string().filter((name) => name !== "__proto__"),
      FastCheck.double()
    )
    FastCheck.assert(
      FastCheck.property(nodes, FastCheck.double(), numbers, (nodes, reward, metrics) =>
        // A dictionary without a prototype is no plain record.
        roundTrip(rollout(nodes, { reward, metrics: { ...metrics } }))
      )
    )
  })

  it("keeps the smallest floats and the sign of zero", () => {
    roundTrip(rollout([node(undefined, messages[4]!, [-0, -1e-45, -3.4028234663852886e38, -0.1])], { reward: -0 }))
  })

  it("every way to be absent comes back", () => {
    const reasons: ReadonlyArray<Rollout.Reason> = [
      { _tag: "Cancelled", why: "stale" },
      { _tag: "Failed", blame: "tools", message: "no such file" },
      { _tag: "NoReward", reward: Number.NaN },
      { _tag: "NoReward", reward: Number.POSITIVE_INFINITY },
      { _tag: "NothingTrainable" },
      { _tag: "NothingTrainable", stopReason: "prompt_too_long" },
      { _tag: "Late", set: "g" },
      { _tag: "Incomplete", set: "g", missing: 2 }
    ]
    for (const reason of reasons) {
      roundTrip(Rollout.absent(planned, reason))
      expect(Rollout.explain(reason)).not.toBe("")
    }
  })

  it("a rollout without a sampled token says why it had stopped, and what to do about a prompt that is too long", () => {
    const words = (stopReason?: Rollout.StopReason) => Rollout.explain({ _tag: "NothingTrainable", stopReason })
    expect(words("prompt_too_long")).toContain("raise seq_len")
    expect(words("done")).toBe("the policy sampled no token in it (done)")
    expect(words()).toBe("the policy sampled no token in it")
  })

  it("is read from the left: who, what it earned, what was said, and then the tokens", () => {
    const line = Rollout.stringify(rollout([node(undefined, messages[0]!, [-1])]))
    const at = ['"id"', '"example"', '"reward"', '"messages"', '"tokens"'].map((key) => line.indexOf(key))
    expect(at).toEqual([...at].sort((a, b) => a - b))
    expect(at[0]).toBeGreaterThan(0)
  })

  it("API-14: a log-probability that is no number is refused when read, never turned into one", () => {
    for (const bad of [Number.NEGATIVE_INFINITY, Number.NaN]) {
      const error = Either.getOrThrow(
        Either.flip(Rollout.parse(Rollout.stringify(rollout([node(undefined, messages[4]!, [-0.1, bad])]))))
      )
      expect(error.message).toContain(`value 1 is ${bad}`)
    }
  })

  it("what contradicts itself is refused with the place", () => {
    const good = Rollout.encode(rollout([node(undefined, messages[1]!, []), node(0, messages[4]!, [-1, -2])])) as {
      readonly messages: ReadonlyArray<object>
      readonly tokens: ReadonlyArray<object>
    }
    const refused = (change: object) => Either.getOrThrow(Either.flip(Rollout.decode({ ...good, ...change }))).message
    expect(refused({ tokens: good.tokens.slice(1) })).toContain("2 messages and the tokens of 1")
    expect(refused({ messages: [{ ...good.messages[0], parent: 1 }, good.messages[1]] })).toContain(
      "message 0 has parent 1"
    )
    expect(refused({ tokens: [good.tokens[0], { ...good.tokens[1], mask: "AAA=" }] })).toContain(
      "message 1: 4 ids, 2 masks"
    )
    expect(refused({ tokens: [good.tokens[0], { ...good.tokens[1], logprobs: "" }] })).toContain(
      "message 1: 0 log-probabilities for 2 sampled tokens"
    )
    expect(refused({ tokens: [good.tokens[0], { ...good.tokens[1], tokenIds: "AAAA?" }] })).toContain("not base64")
    expect(refused({ tokens: [good.tokens[0], { ...good.tokens[1], tokenIds: "AAAA" }] })).toContain("3 bytes")
    expect(refused({ stopReason: "tired" })).toBe('not a rollout: stopReason: Expected "done", actual "tired"')
    expect(refused({ reward: null })).toBe("not a rollout: reward: Expected number, actual null")
    expect(Either.getOrThrow(Either.flip(Rollout.decode({ step: 1 }))).message).toBe("not a rollout: _tag: is missing")
    expect(Either.getOrThrow(Either.flip(Rollout.decode(5))).message).toBe("not a rollout: it is no object")
    expect(Either.getOrThrow(Either.flip(Rollout.parse('{"id": "r'))).message).toContain("not a rollout")
  })
})

describe("what counts", () => {
  it("ADV-12: a rollout without trainable tokens is not trainable, whatever its reward", () => {
    const none = rollout([node(undefined, messages[1]!, [])], { reward: 100 })
    expect(Rollout.trainableTokens(none)).toBe(0)
    expect(Rollout.isTrainable(none)).toBe(false)
    expect(Rollout.isTrainable(rollout([node(undefined, messages[4]!, [-1, -2])]))).toBe(true)
    expect(Rollout.isTrainable(Rollout.absent(planned, { _tag: "NothingTrainable" }))).toBe(false)
  })

  it("a token that branches share counts once, a first token not at all", () => {
    const shared = rollout([
      node(undefined, messages[4]!, [-1, -2], 0),
      node(0, messages[4]!, [-1], 0),
      node(0, messages[4]!, [-1, -1], 1)
    ])
    expect(Rollout.trainableTokens(shared)).toBe(1 + 1 + 2)
  })

  it("an absent rollout keeps its plan and nothing else", () => {
    const absent = Rollout.absent(rollout([node(undefined, messages[1]!, [])]), {
      _tag: "NoReward",
      reward: Number.NaN
    })
    expect(absent.planned).toStrictEqual(planned)
    expect(Rollout.isAbsent(absent)).toBe(true)
    expect(Rollout.isRollout(absent)).toBe(false)
  })
})
