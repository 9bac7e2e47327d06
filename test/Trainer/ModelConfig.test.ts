import { readFileSync } from "node:fs"
import { SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ModelConfig from "../../src/Trainer/ModelConfig.ts"

const recorded = (name: string) =>
  JSON.parse(readFileSync(new URL(`../data/cases/models/${name}/config.json`, import.meta.url), "utf8")) as Record<
    string,
    unknown
  >
const qwen3 = recorded("qwen3-tied")
const decode = (json: unknown) => ModelConfig.decode("m/config.json", json)
const problem = (json: unknown) => Either.getOrThrow(Either.flip(decode(json))).message
const without = (json: Record<string, unknown>, ...names: ReadonlyArray<string>) =>
  Object.fromEntries(Object.entries(json).filter(([name]) => !names.includes(name)))

describe("what the three families compute", () => {
  it("Qwen3 norms its heads and has no biases", () => {
    expect(Either.getOrThrow(decode(qwen3))).toEqual({
      hiddenSize: 64,
      intermediateSize: 112,
      layers: 2,
      heads: 4,
      kvHeads: 2,
      headDim: 16,
      vocabSize: 131,
      maxPositionEmbeddings: 2048,
      rmsNormEps: 1e-6,
      ropeTheta: 1_000_000,
      ropeScaling: undefined,
      tieWordEmbeddings: true,
      qkNorm: true,
      qkvBias: false,
      outputBias: false,
      mlpBias: false
    })
  })

  it("Qwen2 has biases on q, k and v only", () => {
    const { outputBias, qkNorm, qkvBias, tieWordEmbeddings } = Either.getOrThrow(decode(recorded("qwen2-untied")))
    expect({ outputBias, qkNorm, qkvBias, tieWordEmbeddings }).toEqual({
      outputBias: false,
      qkNorm: false,
      qkvBias: true,
      tieWordEmbeddings: false
    })
  })

  it("Llama scales its rotary frequencies, under the old key and the new one", () => {
    const llama = recorded("llama-rope-scaled")
    const { rope_scaling, rope_theta } = llama
    const scaling = { factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalMaxPositionEmbeddings: 64 }
    const old = Either.getOrThrow(decode(llama))
    expect(old.ropeScaling).toEqual(scaling)
    const renamed = {
      ...without(llama, "rope_scaling", "rope_theta"),
      rope_parameters: { ...(rope_scaling as object), rope_theta }
    }
    expect(Either.getOrThrow(decode(renamed))).toEqual(old)
  })

  it("biases of Llama and Qwen3 follow attention_bias and mlp_bias", () => {
    const llama = Either.getOrThrow(decode({ ...recorded("llama-rope-scaled"), attention_bias: true, mlp_bias: true }))
    expect([llama.qkvBias, llama.outputBias, llama.mlpBias]).toEqual([true, true, true])
    const biased = Either.getOrThrow(decode({ ...qwen3, attention_bias: true, mlp_bias: true }))
    expect([biased.qkvBias, biased.outputBias, biased.mlpBias]).toEqual([true, true, false])
  })

  it("what is left out has the library's default", () => {
    const config = Either.getOrThrow(
      decode(
        without(
          qwen3,
          "head_dim",
          "num_key_value_heads",
          "rope_theta",
          "rms_norm_eps",
          "hidden_act",
          "tie_word_embeddings"
        )
      )
    )
    expect(config).toMatchObject({
      headDim: 16,
      kvHeads: 4,
      ropeTheta: 10_000,
      rmsNormEps: 1e-6,
      tieWordEmbeddings: false
    })
  })

  it("a window that no layer uses is no window", () => {
    expect(
      Either.isRight(decode({ ...qwen3, use_sliding_window: false, sliding_window: 4096, max_window_layers: 0 }))
    ).toBe(true)
    expect(
      Either.isRight(decode({ ...qwen3, use_sliding_window: true, sliding_window: 4096, max_window_layers: 2 }))
    ).toBe(true)
    expect(Either.isRight(decode({ ...qwen3, layer_types: ["full_attention", "full_attention"] }))).toBe(true)
  })
})

describe("a config.json that is damaged or not one is an error in words", () => {
  it.each<[unknown, string]>([
    [[], "it is a list, and no table of settings"],
    [null, "it is null, and no table of settings"],
    [{ ...qwen3, hidden_size: "big" }, 'hidden_size: found "big", allowed is a whole number from 1 to 16777215'],
    [
      { ...qwen3, vocab_size: 1e15 },
      "vocab_size: found 1000000000000000, allowed is a whole number from 1 to 16777215"
    ],
    [{ ...qwen3, num_hidden_layers: 5000 }, "num_hidden_layers: found 5000, allowed is a whole number from 1 to 1000"],
    [{ ...qwen3, rope_scaling: "x" }, 'rope_scaling: found "x", allowed is a table'],
    [{ ...qwen3, rope_scaling: { factor: -1 } }, "rope_scaling.factor: found -1, allowed is a number above 0"],
    [{ ...qwen3, layer_types: [5] }, "layer_types.0: found 5, allowed is text"],
    [{ ...qwen3, head_dim: 0 }, "head_dim: found 0, allowed is a whole number from 1 to 16777215"]
  ])("%#", (json, words) => {
    expect(problem(json)).toBe(`model m/config.json: ${words}`)
  })
})

describe("what cannot be computed is an error that names the field and what is supported", () => {
  it.each<[string, unknown, RegExp]>([
    [
      "architecture",
      { ...qwen3, architectures: ["GemmaForCausalLM"] },
      /architectures: "GemmaForCausalLM".*Qwen3ForCausalLM/
    ],
    ["model type", { ...without(qwen3, "architectures"), model_type: "gpt2" }, /model_type: "gpt2"/],
    ["a name that every object has", { ...qwen3, architectures: ["constructor"] }, /architectures: "constructor"/],
    ["activation", { ...qwen3, hidden_act: "gelu" }, /hidden_act: "gelu".*"silu"/],
    [
      "rope type",
      { ...qwen3, rope_scaling: { rope_type: "yarn", factor: 4 } },
      /rope_scaling: rope_type "yarn".*"llama3"/
    ],
    [
      "incomplete scaling",
      { ...qwen3, rope_parameters: { rope_type: "llama3", factor: 4 } },
      /rope_parameters.*low_freq_factor/
    ],
    [
      "sliding window",
      { ...qwen3, use_sliding_window: true, sliding_window: 128, max_window_layers: 1 },
      /use_sliding_window/
    ],
    [
      "layer types",
      { ...qwen3, layer_types: ["full_attention", "sliding_attention"] },
      /layer_types\[1\]: "sliding_attention"/
    ],
    ["quantisation", { ...qwen3, quantization_config: { bits: 4 } }, /quantization_config/],
    [
      "head sizes",
      { ...qwen3, num_key_value_heads: 3 },
      /num_key_value_heads: 3 does not divide num_attention_heads 4/
    ],
    ["odd head", { ...qwen3, head_dim: 15 }, /head_dim: 15 is odd/],
    ["partial rotation", { ...qwen3, partial_rotary_factor: 0.5 }, /partial_rotary_factor: 0.5/]
  ])("%s", (_, json, message) => {
    expect(problem(json)).toMatch(message)
    expect(problem(json)).toMatch(/^model m\/config\.json: /)
  })

  it("all missing and mistyped fields are named at once", () => {
    const message = problem({ ...without(qwen3, "hidden_size"), vocab_size: "131", num_hidden_layers: 0 })
    expect(message).toMatch(/hidden_size/)
    expect(message).toMatch(/vocab_size/)
    expect(message).toMatch(/num_hidden_layers/)
  })
})

describe("what cannot be read", () => {
  it.effect("a directory that may not be looked into is not said to be missing", () =>
    Effect.gen(function* () {
      const denied = new SystemError({ reason: "PermissionDenied", module: "FileSystem", method: "access" })
      const files = FileSystem.layerNoop({ exists: () => Effect.fail(denied) })
      const error = yield* Effect.flip(Effect.provide(ModelConfig.read("/locked/model"), files))
      expect(error.message).toMatch(/^model \/locked\/model: cannot be read \(.*PermissionDenied/)
    })
  )
})
