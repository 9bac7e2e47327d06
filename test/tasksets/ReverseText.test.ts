import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Environment from "../../src/Environment.ts"
import type { Message } from "../../src/Message.ts"
import { Renderer } from "../../src/Renderer.ts"
import type { Ended } from "../../src/Rollout.ts"
import * as ChatMl from "../../src/renderers/ChatMl.ts"
import * as ReverseText from "../../src/tasksets/ReverseText.ts"
import * as HuggingFace from "../../src/tokenizer/HuggingFace.ts"
import { bytes, layerPolicy, layerRenderer, type Request, textOf } from "../doubles/byteChat.ts"

describe("similarity", () => {
  it("is twice the longest common subsequence over both lengths", () => {
    expect(ReverseText.longestCommonSubsequence("AGGTAB", "GXTXAYB")).toBe(4)
    expect(ReverseText.similarity("abcd", "abcd")).toBe(1)
    expect(ReverseText.similarity("abcd", "bd")).toBeCloseTo(2 / 3, 12)
    expect(ReverseText.similarity("abc", "xyz")).toBe(0)
    expect(ReverseText.similarity("", "abc")).toBe(0)
    expect(ReverseText.similarity("", "")).toBe(0)
    expect(ReverseText.similarity("ab".repeat(16), "ba".repeat(16))).toBeCloseTo(31 / 32, 12)
  })

  it("lies in [0, 1], is symmetric, and is 1 for equal texts only", () => {
    const text = FastCheck.string({ unit: FastCheck.constantFrom(..."abcé🙂"), maxLength: 24 })
    FastCheck.assert(
      FastCheck.property(text, text, (a, b) => {
        const value = ReverseText.similarity(a, b)
        expect(value).toBeGreaterThanOrEqual(0)
        expect(value).toBeLessThanOrEqual(1)
        expect(value).toBe(ReverseText.similarity(b, a))
        expect(value === 1).toBe(a === b && a !== "")
      })
    )
  })

  it("reverses whole characters", () => {
    expect(ReverseText.reversed("sail on 🙂")).toBe("🙂 no lias")
  })
})

describe("the sentences", () => {
  it.effect("are many, distinct, short and plain", () =>
    Effect.gen(function* () {
      const lines = yield* ReverseText.sentences
      expect(lines.length).toBeGreaterThan(6_000)
      expect(new Set(lines.map((line) => line.toLowerCase())).size).toBe(lines.length)
      for (const line of lines) expect(line).toMatch(/^(?=.{8,32}$)[A-Za-z][A-Za-z ,.'!?-]* [A-Za-z ,.'!?-]*$/)
    })
  )

  it.effect("are split: the last tenth is held out", () =>
    Effect.gen(function* () {
      const lines = yield* ReverseText.sentences
      const taskset = yield* ReverseText.taskset
      expect(taskset.size("eval")).toBe(Math.floor(lines.length / 10))
      expect(taskset.size("train") + taskset.size("eval")).toBe(lines.length)
      expect(taskset.find(taskset.keyAt("train", 0))).toBe(lines[0])
      expect(taskset.find(taskset.keyAt("eval", 0))).toBe(lines[taskset.size("train")])
    })
  )
})

describe("the environment", () => {
  const attempt = (reply: (sentence: string) => string, split: "train" | "eval" = "train") =>
    Effect.gen(function* () {
      const environment = yield* ReverseText.environment({ seed: 1 })
      const policy = ({ promptIds }: Request) => reply(textOf(promptIds))
      return yield* Environment.rollout(
        environment,
        {
          id: "0",
          sequence: 0,
          source: environment.name,
          example: Environment.exampleKey(environment, 0, split),
          group: { id: "0", size: 1 },
          episode: { id: "0", size: 1 },
          seat: "policy",
          policyVersion: 0,
          labels: {}
        },
        { seed: 1 }
      ).pipe(Effect.provide([layerRenderer, layerPolicy(policy)]))
    })
  const measured = (ended: Ended) =>
    ended._tag === "Rollout" ? { reward: ended.reward, ...ended.metrics } : ended.reason

  it.effect("pays the right answer fully and others by likeness", () =>
    Effect.gen(function* () {
      const right = measured(yield* attempt(ReverseText.reversed, "eval"))
      expect(right).toEqual({ reward: 1, drift: 0, exact: 1, length_ratio: 1 })
      const empty = measured(yield* attempt(() => ""))
      expect(empty).toEqual({ reward: 0, drift: 0, exact: 0, length_ratio: 0 })
      const doubled = measured(yield* attempt((sentence) => ReverseText.reversed(sentence).repeat(2)))
      expect(doubled).toMatchObject({ exact: 0, length_ratio: 2, reward: expect.closeTo(2 / 3, 12) })
    })
  )
})

const withoutHint = (conversation: ReadonlyArray<Message>) => conversation.filter(({ role }) => role !== "system")

describe("the shipped tokenizer and chat format", () => {
  const directory = fileURLToPath(new URL("../../examples/reverse-text/policy", import.meta.url))
  const layer = ChatMl.layer.pipe(Layer.provideMerge(HuggingFace.layerFromDirectory(directory)))

  it.effect("make one token of each character, and a demonstration begins with the rollout's prompt", () =>
    Effect.gen(function* () {
      const renderer = yield* Renderer
      const [user, assistant] = withoutHint(ReverseText.demonstration(yield* ReverseText.sentences, 0, 0))
      const prompt = renderer.render([user!], { addGenerationPrompt: true }).tokenIds
      const whole = renderer.render([user!, assistant!])
      expect([...whole.tokenIds.subarray(0, prompt.length)]).toEqual([...prompt])
      expect(prompt.length).toBe(user!.content!.length + 8)
      const trained = whole.tokenIds.filter((_, i) => whole.sampledMask[i] === 1)
      expect([...trained.subarray(0, -1)]).toEqual(bytes(assistant!.content!))
      expect(renderer.stopTokenIds).toContain(trained.at(-1))
    }).pipe(Effect.provide(layer))
  )
})

describe("demonstrations", () => {
  const take = (seed: number, count: number, first = 0) =>
    Effect.map(Stream.runCollect(Stream.take(ReverseText.demonstrations(seed, first), count)), Chunk.toReadonlyArray)

  it.effect("follow from the seed and the place alone", () =>
    Effect.gen(function* () {
      const all = yield* take(3, 200)
      expect(yield* take(3, 100, 100)).toEqual(all.slice(100))
      expect(yield* take(4, 200)).not.toEqual(all)
    })
  )

  it.effect("never show a held-out sentence", () =>
    Effect.gen(function* () {
      const lines = yield* ReverseText.sentences
      const held = new Set(lines.slice(ReverseText.firstHeldOut(lines.length)))
      for (const [user] of (yield* take(0, 20_000)).map(withoutHint)) expect(held.has(user!.content!)).toBe(false)
    })
  )

  it.effect("tell the answer beforehand in a quarter of all cases, whatever the answer is", () =>
    Effect.gen(function* () {
      const all = yield* take(0, 5_000)
      const hinted = all.filter((conversation) => conversation[0]!.role === "system")
      expect(hinted.length / all.length).toBeCloseTo(0.25, 1)
      for (const [hint, , assistant] of hinted) expect(assistant!.content).toBe(hint!.content)
    })
  )

  it.effect("are right in about a quarter of all cases, and worth a third on average", () =>
    Effect.gen(function* () {
      const shown = (yield* take(0, 5_000))
        .map(withoutHint)
        .map(([user, assistant]) => ReverseText.similarity(assistant!.content!, ReverseText.reversed(user!.content!)))
      expect(shown.filter((value) => value === 1).length / shown.length).toBeCloseTo(0.25, 1)
      const mean = shown.reduce((a, b) => a + b, 0) / shown.length
      expect(mean).toBeGreaterThan(0.25)
      expect(mean).toBeLessThan(0.45)
    })
  )
})
