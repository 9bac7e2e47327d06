/** Model directories for tests: the recorded ones, and a tiny one that is made on the spot. */
import { fileURLToPath } from "node:url"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Engine from "../../src/Trainer/Engine.ts"

export const recordedModels = ["qwen3-tied", "qwen2-untied", "llama-rope-scaled"] as const

export const recorded = (name: (typeof recordedModels)[number]) =>
  fileURLToPath(new URL(`../data/cases/models/${name}`, import.meta.url))

export const tinyConfig = {
  architectures: ["Qwen3ForCausalLM"],
  model_type: "qwen3",
  hidden_size: 32,
  intermediate_size: 48,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 8,
  vocab_size: 61,
  max_position_embeddings: 96,
  tie_word_embeddings: true
}

/** A directory that holds a config.json and nothing else; it goes with the scope. */
export const configOnly = (config: object = tinyConfig) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped()
    yield* fs.writeFileString(`${directory}/config.json`, JSON.stringify(config))
    return directory
  })

/** An engine with random weights. */
export const tinyEngine = (options: Partial<Engine.Options> = {}) =>
  Effect.flatMap(configOnly(), (directory) =>
    Engine.open(directory, { threads: 2, trainable: true, randomInit: { seed: 7, std: 0.4 }, ...options })
  )
