import * as Either from "effect/Either"
import { describe, expect, it } from "vitest"
import * as Credit from "../src/Credit.ts"
import type { Role } from "../src/Message.ts"
import type { Rollout } from "../src/Rollout.ts"
import type { Node } from "../src/Trace.ts"
import * as TrainingSample from "../src/TrainingSample.ts"

const node = (
  parent: number | undefined,
  role: Role,
  tokenIds: ReadonlyArray<number>,
  mask: ReadonlyArray<number> = tokenIds.map(() => 0),
  isContent: ReadonlyArray<number> = tokenIds.map(() => 1)
): Node => ({
  parent,
  message: role === "tool" ? { role, toolCallId: "c", content: "" } : { role, content: "" },
  sampled: mask.includes(1),
  tokenIds: Int32Array.from(tokenIds),
  mask: Uint8Array.from(mask),
  isContent: Uint8Array.from(isContent),
  logprobs: Float32Array.from(
    tokenIds.filter((_, i) => mask[i] === 1),
    (id) => -id
  )
})
const rollout = (...nodes: ReadonlyArray<Node>): Rollout => ({
  _tag: "Rollout",
  id: "r1",
  sequence: 0,
  source: "s",
  example: "e",
  group: { id: "g", size: 1 },
  episode: { id: "r1", size: 1 },
  seat: "policy",
  policyVersion: 3,
  labels: {},
  trace: { nodes },
  info: {},
  temperature: 0.5,
  reward: 1,
  rewards: {},
  metrics: {},
  stopReason: "done"
})
const make = (rollout: Rollout, ...credits: ReadonlyArray<Credit.Credit>) =>
  TrainingSample.make({ rollout, credit: credits.reduce(Credit.combine, Credit.empty) })
const all = (rollout: Rollout, ...credits: ReadonlyArray<Credit.Credit>) => Either.getOrThrow(make(rollout, ...credits))
const one = (rollout: Rollout, ...credits: ReadonlyArray<Credit.Credit>) => {
  const samples = all(rollout, ...credits)
  expect(samples.length).toBe(1)
  return samples[0]!
}
const message = (rollout: Rollout, ...credits: ReadonlyArray<Credit.Credit>) =>
  Either.getOrThrow(Either.flip(make(rollout, ...credits))).message
const list = (stream: ArrayLike<number> | undefined) => (stream === undefined ? undefined : Array.from(stream))
const tenths = (stream: Float32Array | undefined) => list(stream)?.map((value) => Math.round(value * 1000) / 1000)

/** prompt [1, 2] · action [3, 4] · observation [5] · action [6] */
const turns = rollout(
  node(undefined, "user", [1, 2]),
  node(0, "assistant", [3, 4], [1, 1]),
  node(1, "tool", [5]),
  node(2, "assistant", [6], [1])
)
/** prompt [1, 2] · action [3, 4] · tool [5, 6] · action [7, 8] */
const echo = (isContent?: ReadonlyArray<number>) =>
  rollout(
    node(undefined, "user", [1, 2]),
    node(0, "assistant", [3, 4], [1, 1]),
    node(1, "tool", [5, 6], undefined, isContent),
    node(2, "assistant", [7, 8], [1, 1])
  )

describe("one branch", () => {
  it("has every stream on the tokens it belongs to", () => {
    const sample = one(turns, Credit.perTurn(turns, [0.5, 1]))
    expect(list(sample.tokenIds)).toEqual([1, 2, 3, 4, 5, 6])
    expect(list(sample.mask)).toEqual([0, 0, 1, 1, 0, 1])
    expect(list(sample.logprobs)).toEqual([0, 0, -3, -4, 0, -6])
    expect(list(sample.advantages)).toEqual([0, 0, 0.5, 0.5, 0, 1])
    expect(list(sample.temperatures)).toEqual([0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    expect(sample).toMatchObject({
      rollout: "r1",
      source: "s",
      policyVersion: 3,
      rlWeights: undefined,
      ceWeights: undefined
    })
  })

  it("takes one advantage for all, one per turn, or one per sampled token", () => {
    expect(list(one(turns, Credit.uniform(1)).advantages)).toEqual([0, 0, 1, 1, 0, 1])
    const perToken: Credit.Credit = {
      claims: [{ stream: "advantages", over: "sampled", values: Float32Array.of(0.5, -0.5, 1), writer: "a" }]
    }
    expect(list(one(turns, perToken).advantages)).toEqual([0, 0, 0.5, -0.5, 0, 1])
  })

  it("routes the actions to the component that an algorithm names", () => {
    const rl = one(turns, Credit.actions("rl"), Credit.uniform(1))
    expect([rl.rlWeights, rl.ceWeights, rl.refKlWeights]).toEqual([undefined, undefined, undefined])
    const ce = one(turns, Credit.actions("ce"))
    expect(list(ce.rlWeights)).toEqual([0, 0, 0, 0, 0, 0])
    expect(list(ce.ceWeights)).toEqual([0, 0, 1, 1, 0, 1])
    const reference = Float32Array.of(-1, -2, -3, -4, -5, -6)
    const refKl = one(turns, Credit.actions("refKl"), Credit.reference(turns, reference))
    expect(list(refKl.rlWeights)).toEqual([0, 0, 0, 0, 0, 0])
    expect(list(refKl.refKlWeights)).toEqual([0, 0, 1, 1, 0, 1])
    expect(list(refKl.referenceLogprobs)).toEqual([-1, -2, -3, -4, -5, -6])
    const both = one(turns, Credit.actions("ce"), Credit.onRoles(turns, { tool: 0.1 }))
    expect(tenths(both.ceWeights)).toEqual([0, 0, 1, 1, 0.1, 1])
  })

  it("weighs observations by role, on body tokens, after the first response", () => {
    const ce = (weights: Partial<Record<Role, number>>, isContent?: ReadonlyArray<number>) => {
      const seen = echo(isContent)
      return tenths(one(seen, Credit.uniform(1), Credit.onRoles(seen, weights)).ceWeights)
    }
    expect(ce({ tool: 0.1, user: 0.05 })).toEqual([0, 0, 0, 0, 0.1, 0.1, 0, 0])
    expect(ce({ tool: 0.1 }, [0, 1])).toEqual([0, 0, 0, 0, 0, 0.1, 0, 0])
    expect(ce({ user: 0.05 })).toBeUndefined()
    expect(ce({ tool: 0.1, assistant: 0.3 })).toEqual([0, 0, 0, 0, 0.1, 0.1, 0, 0])
  })

  it("weighs every observation between two actions, not the one after the action alone", () => {
    const twoAnswers = rollout(
      node(undefined, "user", [1]),
      node(0, "tool", [2]),
      node(1, "assistant", [3], [1]),
      node(2, "tool", [4]),
      node(3, "tool", [5]),
      node(4, "tool", [6]),
      node(5, "assistant", [7], [1])
    )
    const { ceWeights } = one(twoAnswers, Credit.uniform(1), Credit.onRoles(twoAnswers, { tool: 0.1 }))
    expect(tenths(ceWeights)).toEqual([0, 0, 0, 0.1, 0.1, 0.1, 0])
  })

  it("takes advantages token by token, and none where nothing was sampled", () => {
    const closed = rollout(node(undefined, "user", [1, 2]), node(0, "assistant", [3, 4, 5], [0, 1, 0]))
    const perToken: Credit.Credit = {
      claims: [{ stream: "advantages", over: 1, values: Float32Array.of(7, 0.5, 9), writer: "a" }]
    }
    expect(list(one(closed, perToken).advantages)).toEqual([0, 0, 0, 0.5, 0])
  })

  it("never trains the first token, which has no context", () => {
    const bare = rollout(node(undefined, "assistant", [1, 2], [1, 1]))
    const sample = one(bare, Credit.uniform(1), Credit.actions("ce"))
    expect(list(sample.mask)).toEqual([0, 1])
    expect(list(sample.ceWeights)).toEqual([0, 1])
    expect(all(rollout(node(undefined, "assistant", [1], [1])), Credit.uniform(1))).toEqual([])
  })

  it("ADV-12, ADV-21: a rollout without trainable tokens gives no sample", () => {
    expect(all(rollout(node(undefined, "user", [1, 2]), node(0, "assistant", [3])), Credit.uniform(100))).toEqual([])
  })
})

describe("several branches", () => {
  /** root [1, 2, 3] · action [4, 5, 6, 7], and from there twice an observation of 2 and an action of 3 */
  const forked = rollout(
    node(undefined, "user", [1, 2, 3]),
    node(0, "assistant", [4, 5, 6, 7], [1, 1, 1, 1]),
    node(1, "tool", [8, 9]),
    node(2, "assistant", [10, 11, 12], [1, 1, 1]),
    node(1, "tool", [13, 14]),
    node(4, "assistant", [15, 16, 17], [1, 1, 1])
  )
  const trained = (samples: ReadonlyArray<TrainingSample.TrainingSample>) =>
    samples.map(({ mask }) => mask.reduce((sum, bit) => sum + bit, 0))

  it("TOK-05: a token that lies on several is trained by the first, and context in the others", () => {
    const samples = all(forked, Credit.uniform(1), Credit.onRoles(forked, { tool: 0.5 }))
    expect(trained(samples)).toEqual([7, 3])
    expect(list(samples[1]!.tokenIds)).toEqual([1, 2, 3, 4, 5, 6, 7, 13, 14, 15, 16, 17])
    expect(list(samples[1]!.mask.subarray(3, 7))).toEqual([0, 0, 0, 0])
    expect(samples.map(({ ceWeights }) => list(ceWeights)?.filter((weight) => weight !== 0).length)).toEqual([2, 2])
  })

  it("applies weights of a shared node once", () => {
    const shared: Credit.Credit = {
      claims: [
        ...Credit.actions("ce").claims,
        { stream: "ce", over: 0, values: Float32Array.of(0, 1, 1), writer: "prompt" }
      ]
    }
    const samples = all(forked, shared)
    expect(samples.map(({ ceWeights }) => list(ceWeights))).toEqual([
      [0, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1],
      [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1]
    ])
  })

  it("takes reference log-probabilities per branch, and refuses a wrong number of them", () => {
    const a = Float32Array.from({ length: 12 }, (_, i) => -i)
    const b = a.map((value) => value - 100)
    const samples = all(forked, Credit.actions("refKl"), Credit.reference(forked, [a, b]))
    expect(list(samples[0]!.referenceLogprobs)).toEqual(list(a))
    expect(list(samples[1]!.referenceLogprobs)).toEqual([...a.subarray(0, 7), ...b.subarray(7)])
    expect(() => Credit.reference(forked, a)).toThrow("log-probabilities of 1 for the 2 branches of rollout r1")
    expect(() => Credit.reference(forked, [a, b.subarray(1)])).toThrow("11 log-probabilities for 12 tokens of branch 1")
  })
})

describe("what is refused", () => {
  it("two values for one token, naming both writers; the same value twice is no conflict", () => {
    const a = Credit.by(Credit.uniform(1), "grpo")
    expect(message(turns, a, Credit.by(Credit.perTurn(turns, [1, 0.5]), "bonus"))).toBe(
      "rollout r1, message 3, token 0: grpo and bonus both set advantages (1 and 0.5); let one of them own it"
    )
    expect(list(one(turns, a, Credit.by(Credit.perTurn(turns, [1, 1]), "bonus")).advantages)).toEqual([
      0, 0, 1, 1, 0, 1
    ])
    const error = Either.getOrThrow(Either.flip(make(turns, a, Credit.by(Credit.uniform(2), "other"))))
    expect(error).toMatchObject({ _tag: "CreditConflict", writers: ["grpo", "other"], values: [1, 2] })
  })

  it("an rl token without an advantage, a refKl token without a reference", () => {
    expect(message(turns)).toContain("stream advantages: token 2 is trained by rl and has no advantage")
    const firstTurn: Credit.Credit = { claims: [{ stream: "advantages", over: 1, values: 1, writer: "a" }] }
    expect(message(turns, firstTurn)).toContain("token 5 is trained by rl")
    expect(message(turns, Credit.actions("refKl"))).toContain("stream referenceLogprobs: token 2 is trained by refKl")
  })

  it("a value that is not finite, a claim that does not fit", () => {
    expect(message(turns, Credit.by(Credit.uniform(Number.NaN), "grpo"))).toContain(
      "stream advantages: grpo: a value is NaN"
    )
    const logprobs = Float32Array.of(-1, -1, Number.NEGATIVE_INFINITY, -1, -1, -1)
    expect(message(turns, Credit.reference(turns, logprobs))).toContain("a value is -Infinity")
    const over = (over: number, values: number | Float32Array): Credit.Credit => ({
      claims: [{ stream: "ce", over, values, writer: "me" }]
    })
    expect(message(turns, over(9, 1))).toContain("me: there is no message 9; the trace has 4")
    expect(message(turns, over(1, new Float32Array(3)))).toContain("3 values for the 2 tokens of message 1")
    const short = { stream: "advantages", over: "sampled", values: new Float32Array(2), writer: "me" } as const
    expect(message(turns, { claims: [short] })).toContain("stream advantages: me: 2 values for 3 sampled tokens")
  })

  it("PACK-06: a sample with one short stream, by the stream's name; all streams are padded and cut together", () => {
    const float = () => Float32Array.of(1, 2, 3, 4, 5)
    const sample: TrainingSample.TrainingSample = {
      rollout: "r",
      source: "s",
      policyVersion: 0,
      tokenIds: Int32Array.of(1, 2, 3, 4, 5),
      mask: new Uint8Array(5).fill(1),
      logprobs: float(),
      temperatures: float(),
      advantages: float(),
      referenceLogprobs: float(),
      rlWeights: float(),
      ceWeights: float(),
      refKlWeights: float()
    }
    expect(Either.isRight(TrainingSample.check(sample))).toBe(true)
    const padded = TrainingSample.pad(sample, 8)
    const cut = TrainingSample.truncate(padded, 3)
    for (const name of TrainingSample.streamNames) {
      expect(padded[name]!.length, name).toBe(8)
      expect(list(padded[name]!.subarray(5)), name).toEqual(new Array(3).fill(TrainingSample.padding[name]))
      expect(list(cut[name]), name).toEqual(list(sample[name]!.subarray(0, 3)))
      const short = { ...sample, [name]: sample[name]!.subarray(0, 4) }
      const error = Either.getOrThrow(Either.flip(TrainingSample.check(short)))
      expect(error.message).toContain(name === "tokenIds" ? "stream mask" : `stream ${name}: 4 entries for 5 tokens`)
    }
  })
})

describe("signal", () => {
  type Weights = Partial<
    Record<"rlWeights" | "ceWeights" | "refKlWeights" | "referenceLogprobs", ReadonlyArray<number>>
  >
  const sample = (
    advantages: ReadonlyArray<number> | undefined,
    weights: Weights = {}
  ): TrainingSample.TrainingSample => {
    const { advantages: _, ...rest } = one(
      rollout(node(undefined, "user", [1]), node(0, "assistant", [2, 3], [1, 1])),
      Credit.uniform(0)
    )
    const streams = Object.entries(weights).map(([name, values]) => [name, Float32Array.from(values)] as const)
    return {
      ...rest,
      advantages: advantages === undefined ? undefined : Float32Array.from(advantages),
      ...Object.fromEntries(streams)
    }
  }

  it.each<[string, ReadonlyArray<number> | undefined, Weights, "drop" | ReadonlyArray<number> | undefined]>([
    ["nothing but zeros", [0, 0, 0], {}, "drop"],
    ["a zero among others", [0, 0, 0.5], {}, [0, 0, 1]],
    ["no zero", [0, 0.5, 0.5], {}, undefined],
    ["zeros beside ce", [0, 0, 0], { ceWeights: [0, 0.1, 0] }, [0, 0, 0]],
    ["no advantages", undefined, {}, undefined],
    ["zeros beside refKl", [0, 0, 0], { refKlWeights: [0, 1, 0] }, [0, 0, 0]],
    ["a zero among weights", [0, 0, 0.5], { rlWeights: [0, 2, 0.25] }, [0, 0, 0.25]],
    ["rl switched off", [0, 0, 1], { rlWeights: [0, 0, 0], refKlWeights: [0, 1, 1] }, [0, 0, 0]]
  ])("zero-advantage members leave rl: %s", (_, advantages, weights, expected) => {
    const before = sample(advantages, weights)
    const after = TrainingSample.pruneZeroAdvantage(before)
    if (expected === "drop") expect(after).toBeUndefined()
    else expect(list(after!.rlWeights)).toEqual(expected)
    if (expected === undefined) expect(after).toBe(before)
  })

  it("ADV-20: equal rewards leave no signal in rl, and what ce trains still ships", () => {
    const seen = echo()
    const flat = one(seen, Credit.uniform(0))
    expect(TrainingSample.hasSignal(flat)).toBe(false)
    const observed = one(seen, Credit.uniform(0), Credit.onRoles(seen, { tool: 0.1 }))
    expect(TrainingSample.hasSignal(observed)).toBe(true)
    const pruned = TrainingSample.pruneZeroAdvantage(observed)!
    expect(list(pruned.rlWeights)).toEqual(new Array(8).fill(0))
    expect(tenths(pruned.ceWeights)).toEqual([0, 0, 0, 0, 0.1, 0.1, 0, 0])
    expect(TrainingSample.hasSignal(one(seen, Credit.uniform(1e-9)))).toBe(true)
    const distilled = sample([0, 0, 0], { refKlWeights: [0, 1, 0], referenceLogprobs: [0, -1, 0] })
    expect(TrainingSample.hasSignal(distilled)).toBe(true)
  })
})
