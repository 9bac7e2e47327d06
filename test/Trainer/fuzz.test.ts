import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Seed from "../../src/Seed.ts"
import * as Addon from "../../src/Trainer/Addon.ts"
import type { ModelConfig } from "../../src/Trainer/Native.ts"
import { encodeHeader, headerLength, parseHeader } from "../../src/Trainer/SafetensorsHeader.ts"

const times = 4000
const pick = <A>(random: () => number, values: ReadonlyArray<A>): A => values[Math.floor(random() * values.length)]!

/** What a header may hold where it should not. */
const pieces = [
  "{",
  "}",
  "[",
  "]",
  '"',
  ",",
  ":",
  "-1",
  "1e400",
  "null",
  "\\u0000",
  "9007199254740993",
  '"F32"',
  "\ud800"
]

const mutated = (random: () => number, file: Uint8Array): Uint8Array => {
  const out = Uint8Array.from(file)
  for (let change = 0; change < 1 + random() * 4; change++) {
    const at = Math.floor(random() * out.length)
    if (random() < 0.5) out[at] = Math.floor(random() * 256)
    else out.set(new TextEncoder().encode(pick(random, pieces)).subarray(0, out.length - at), at)
  }
  return random() < 0.2 ? out.subarray(0, Math.floor(random() * out.length)) : out
}

it("whatever the bytes of a safetensors header are, they are tensors that tile the file or a problem in words", () => {
  const random = Seed.generator(11)
  const file = encodeHeader([
    { name: "a", shape: [3, 2] },
    { name: "b", shape: [] },
    { name: "c", shape: [0, 7] }
  ])
  let accepted = 0
  for (let i = 0; i < times; i++) {
    const bytes = i === 0 ? file : mutated(random, file)
    const fileBytes = bytes.length + 28
    const length = headerLength(bytes.subarray(0, 8), fileBytes)
    if (Either.isLeft(length)) continue
    const parsed = parseHeader(bytes.subarray(8, 8 + length.right), fileBytes)
    if (Either.isLeft(parsed)) {
      expect(parsed.left.length).toBeGreaterThan(0)
      continue
    }
    accepted++
    let at = 8 + Math.min(length.right, bytes.length - 8)
    for (const { begin, end } of parsed.right) {
      expect(begin).toBe(at)
      at = end
    }
    expect(at).toBe(fileBytes)
  }
  expect(accepted).toBeGreaterThan(0)
})

const sane: ModelConfig = {
  hiddenSize: 16,
  intermediateSize: 24,
  layers: 2,
  heads: 2,
  kvHeads: 1,
  headDim: 8,
  vocabSize: 31,
  maxPositionEmbeddings: 64,
  rmsNormEps: 1e-6,
  ropeTheta: 10_000,
  ropeScaling: undefined,
  tieWordEmbeddings: false,
  qkNorm: true,
  qkvBias: false,
  outputBias: false,
  mlpBias: false
}

const strange = [
  0,
  -1,
  1,
  3,
  7,
  0.5,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 53,
  1e308,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  "4",
  null,
  {}
]

it.effect(
  "whatever a model's configuration is, the engine has an error with a code for it or computes finite numbers",
  () =>
    Effect.gen(function* () {
      const addon = yield* Addon.load
      const random = Seed.generator(12)
      const limit = { threads: 2, trainable: true, memoryLimit: 64 * 2 ** 20 }
      let ran = 0
      for (let i = 0; i < 400; i++) {
        const config: Record<string, unknown> = { ...sane }
        for (let change = 0; i > 0 && change < 1 + random() * 3; change++) {
          const key = pick(random, Object.keys(sane))
          config[key] = random() < 0.7 ? pick(random, strange) : Math.ceil(random() * 64)
        }
        const made = Either.try({
          try: () => addon.createEngine(config as unknown as ModelConfig, limit),
          catch: (error) => error as { code?: string }
        })
        if (Either.isLeft(made)) {
          expect(made.left.code).toMatch(/^ERR_/)
          continue
        }
        const engine = made.right
        yield* Effect.promise(() => engine.initialise(1, 0.1).done)
        const scored = yield* Effect.either(
          Effect.tryPromise({
            try: () => engine.score(Int32Array.of(0, 0, 0), Int32Array.of(3), new Float32Array(3).fill(1)).done,
            catch: (error) => error as { code?: string }
          })
        )
        if (Either.isLeft(scored)) expect(scored.left.code).toMatch(/^ERR_/)
        else {
          ran++
          expect(scored.right.logprobs.every(Number.isFinite)).toBe(true)
        }
        engine.dispose()
      }
      expect(ran).toBeGreaterThan(10)
    }).pipe(Effect.provide(NodeFileSystem.layer))
)
