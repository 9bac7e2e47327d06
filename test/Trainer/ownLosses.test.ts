/** Losses of a user's own, as docs/losses.md shows them: named by path, given by value, and broken in the usual ways. */
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { describe, expect, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import dualClip from "../../examples/dual-clip.ts"
import proximal from "../../examples/proximal.ts"
import * as MicroBatch from "../../src/MicroBatch.ts"
import * as Losses from "../../src/run/Losses.ts"
import * as PackedLossNative from "../../src/Trainer/PackedLossNative.ts"
import * as RlLoss from "../../src/Trainer/RlLoss.ts"
import type { TrainingSample } from "../../src/TrainingSample.ts"
import { tinyEngine } from "./models.ts"

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8")
const page = read("docs/losses.md")
const pathOf = (example: string) => fileURLToPath(new URL(`../../examples/${example}`, import.meta.url))

describe("docs/losses.md", () => {
  it("shows the examples as they are in the repository", () => {
    const blocks = Array.from(page.matchAll(/```ts\n(.*?)```/gs), ([, code]) => code)
    expect(blocks).toEqual([read("examples/dual-clip.ts"), read("examples/proximal.ts")])
  })

  it("names every built-in loss with its keys and their defaults", () => {
    for (const [type, decode] of Object.entries(Losses.builtIn)) {
      if (type === "default") continue
      const row = page.split("\n").find((line) => line.startsWith(`| \`${type}\` `))
      expect(row, type).toBeDefined()
      const keys = Array.from(row!.matchAll(/`(\w+)` (\d[\d.]*)/g), ([, key, value]) => [key!, Number(value)] as const)
      const named = Either.getOrThrow(decode(Object.fromEntries(keys)))
      const plain = Either.getOrThrow(decode({}))
      expect(named.native, type).toEqual(plain.native)
    }
  })
})

const members = {
  trainer: Float64Array.of(-1, -1, -0.3, -2, -1.5),
  inference: Float64Array.of(-1.1, -3, -2, -1.2, -1.5),
  advantages: Float64Array.of(1, -0.5, -2, 1.5, 0),
  reference: undefined,
  weights: Float64Array.of(1, 2, 0.5, 0.3, 1)
}

describe("the examples", () => {
  it.effect.each([
    ["dual-clip.ts", RlLoss.make(dualClip, {})],
    ["proximal.ts", RlLoss.make(proximal, {})]
  ] as const)(
    "%s: named by its path it is the loss that is given by value, and its gradient is its slope",
    ([example, given]) =>
      Effect.gen(function* () {
        const named = yield* Losses.resolve({ type: pathOf(example) })
        expect(named.type).toBe(given.type)
        const evaluate = (loss: RlLoss.RlLoss, trainer = members.trainer) =>
          Either.getOrThrow(RlLoss.evaluate(loss, "r", { ...members, trainer }))
        expect(evaluate(named)).toEqual(evaluate(given))
        const h = 1e-6
        for (const i of members.trainer.keys()) {
          const at = (by: number) =>
            evaluate(
              given,
              members.trainer.map((x, j) => (i === j ? x + by : x))
            ).total
          expect(evaluate(given).gradient[i]).toBeCloseTo((at(h) - at(-h)) / (2 * h), 7)
        }
      })
  )

  it("dual_clip bounds what ppo_clip does not", () => {
    const loss = RlLoss.make(dualClip, { cap: 3 })
    const far = {
      trainer: Float64Array.of(-1),
      inference: Float64Array.of(-1000),
      advantages: Float64Array.of(-2),
      reference: undefined,
      weights: Float64Array.of(1)
    }
    const { gradient, total } = Either.getOrThrow(RlLoss.evaluate(loss, "r", far))
    expect([total, gradient[0]]).toEqual([6, 0])
  })

  it.effect("their keys are checked", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(Losses.resolve({ type: pathOf("dual-clip.ts"), cap: -1, clp: 1 }))
      expect(new Set(error.problems.map(({ path }) => path))).toEqual(new Set(["cap", "clp"]))
    })
  )
})

const sample: TrainingSample = {
  rollout: "math/3/1",
  source: "math",
  policyVersion: 0,
  tokenIds: Int32Array.of(1, 2, 3, 4),
  mask: Uint8Array.of(0, 1, 1, 1),
  logprobs: new Float32Array(4).fill(-3),
  temperatures: new Float32Array(4).fill(1),
  advantages: new Float32Array(4).fill(1),
  referenceLogprobs: undefined,
  rlWeights: undefined,
  ceWeights: undefined,
  refKlWeights: undefined
}

const mine = (loss: (sequence: RlLoss.Sequence) => RlLoss.PerMember) =>
  RlLoss.make(RlLoss.define({ type: "mine", Config: Schema.Struct({}), loss: () => loss }), {})

layer(NodeFileSystem.layer)("a mistake of two lines, on an engine", (it) => {
  it.scoped.each([
    ["a sum in place of one value each", mine(({ trainer }) => trainer.sum()), "1 losses for 3 members"],
    [
      "a short gradient",
      mine(({ advantages }) => ({ loss: advantages, gradient: [1] })),
      "a gradient of length 1 for 3 members"
    ],
    ["NaN", mine(({ trainer }) => trainer.plus(1000).log().times(Number.NaN)), "member 0 .* has loss NaN"],
    ["a logarithm of what is negative", mine(({ trainer }) => trainer.log()), "member 0 .* has loss NaN"],
    [
      "a gradient that is not finite",
      mine(({ advantages }) => ({ loss: advantages, gradient: advantages.map(() => Number.POSITIVE_INFINITY) })),
      "member 0 .* gradient Infinity"
    ]
  ] as const)("%s: names the loss and the rollout", ([, loss, words]) =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      const [batch] = MicroBatch.pack([sample], { maxSequenceLength: 8 }).microBatches.flat()
      const pass = PackedLossNative.make(engine).forwardBackward(batch!, { rl: 3, ce: 0, refKl: 0 }, loss)
      expect((yield* Effect.flip(pass)).message).toMatch(new RegExp(`^loss mine, rollout math/3/1: ${words}`))
    })
  )
})
