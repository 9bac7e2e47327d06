/** Writes a model of the Llama family as one GGUF file of float32, the format that llama.cpp reads. */
import * as Fs from "node:fs"
import * as Effect from "effect/Effect"
import type { Engine } from "../../src/Trainer/Engine.ts"
import type { ModelConfig } from "../../src/Trainer/Native.ts"

const alignment = 32
const padding = (size: number) => (alignment - (size % alignment)) % alignment

const uint32 = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
const uint64 = (value: number) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}
const float32 = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeFloatLE(value)
  return bytes
}
const text = (value: string) => Buffer.concat([uint64(Buffer.byteLength(value)), Buffer.from(value)])

/** The numbers of the format's types. */
const types = { uint32: 4, int32: 5, float32: 6, string: 8, array: 9 } as const

const pair = (key: string, type: keyof typeof types, value: Buffer) =>
  Buffer.concat([text(key), uint32(types[type]), value])
const list = (key: string, type: keyof typeof types, values: ReadonlyArray<Buffer>) =>
  pair(key, "array", Buffer.concat([uint32(types[type]), uint64(values.length), ...values]))

const isByte = (id: number) => id >= 3 && id < 3 + 256
const tokenOf = (id: number) =>
  ["<unk>", "<s>", "</s>"][id] ??
  (isByte(id) ? `<0x${(id - 3).toString(16).toUpperCase().padStart(2, "0")}>` : `word${id}`)

/** Unknown, begin, end, the bytes, which llama.cpp looks for, and words that no text has. */
const vocabulary = (size: number) => {
  const ids = Array.from({ length: size }, (_, id) => id)
  return [
    pair("tokenizer.ggml.model", "string", text("llama")),
    list(
      "tokenizer.ggml.tokens",
      "string",
      ids.map((id) => text(tokenOf(id)))
    ),
    list(
      "tokenizer.ggml.scores",
      "float32",
      ids.map((id) => float32(-id))
    ),
    list(
      "tokenizer.ggml.token_type",
      "int32",
      ids.map((id) => uint32([2, 3, 3][id] ?? (isByte(id) ? 6 : 1)))
    )
  ]
}

const metadata = (config: ModelConfig) => [
  pair("general.architecture", "string", text("llama")),
  pair("llama.block_count", "uint32", uint32(config.layers)),
  pair("llama.context_length", "uint32", uint32(config.maxPositionEmbeddings)),
  pair("llama.embedding_length", "uint32", uint32(config.hiddenSize)),
  pair("llama.feed_forward_length", "uint32", uint32(config.intermediateSize)),
  pair("llama.attention.head_count", "uint32", uint32(config.heads)),
  pair("llama.attention.head_count_kv", "uint32", uint32(config.kvHeads)),
  pair("llama.attention.layer_norm_rms_epsilon", "float32", float32(config.rmsNormEps)),
  pair("llama.rope.dimension_count", "uint32", uint32(config.headDim)),
  pair("llama.rope.freq_base", "float32", float32(config.ropeTheta)),
  pair("llama.vocab_size", "uint32", uint32(config.vocabSize)),
  ...vocabulary(config.vocabSize)
]

const names: ReadonlyArray<readonly [RegExp, string]> = [
  [/^model\.embed_tokens\./, "token_embd."],
  [/^model\.norm\./, "output_norm."],
  [/^lm_head\./, "output."],
  [/^model\.layers\.(\d+)\.input_layernorm\./, "blk.$1.attn_norm."],
  [/^model\.layers\.(\d+)\.post_attention_layernorm\./, "blk.$1.ffn_norm."],
  [/^model\.layers\.(\d+)\.self_attn\.o_proj\./, "blk.$1.attn_output."],
  [/^model\.layers\.(\d+)\.self_attn\.(q|k|v)_proj\./, "blk.$1.attn_$2."],
  [/^model\.layers\.(\d+)\.mlp\.(gate|up|down)_proj\./, "blk.$1.ffn_$2."]
]

const nameOf = (name: string): string => {
  for (const [pattern, replacement] of names) if (pattern.test(name)) return name.replace(pattern, replacement)
  throw new Error(`no name in GGUF for the tensor ${name}`)
}

/** llama.cpp rotates neighbours, and Hugging Face's files the two halves of a head: their rows are interleaved. */
const interleaved = (values: Float32Array, headDim: number, width: number): Float32Array => {
  const out = new Float32Array(values.length)
  const half = headDim / 2
  for (let row = 0; row < values.length / width; row++) {
    const head = Math.floor(row / headDim)
    const place = row % headDim
    const to = head * headDim + (place % half) * 2 + Math.floor(place / half)
    out.set(values.subarray(row * width, (row + 1) * width), to * width)
  }
  return out
}

/** Writes the engine's weights to `path`. */
export const write = (engine: Engine, path: string) =>
  Effect.gen(function* () {
    const { config, tensors } = engine
    const pairs = metadata(config)
    const infos: Array<Buffer> = []
    let offset = 0
    for (const { name, shape } of tensors) {
      const size = shape.reduce((product, length) => product * length, 4)
      const sizes = shape.toReversed().map(uint64)
      infos.push(Buffer.concat([text(nameOf(name)), uint32(shape.length), ...sizes, uint32(0), uint64(offset)]))
      offset += size + padding(size)
    }
    const head = [Buffer.from("GGUF"), uint32(3), uint64(tensors.length), uint64(pairs.length), ...pairs, ...infos]
    const file = Fs.openSync(path, "w")
    yield* Effect.addFinalizer(() => Effect.sync(() => Fs.closeSync(file)))
    const header = Buffer.concat(head)
    Fs.writeSync(file, header)
    Fs.writeSync(file, Buffer.alloc(padding(header.length)))
    for (const { name, shape } of tensors) {
      const read = yield* engine.readTensor(name)
      const isRotated = /\.(q|k)_proj\.weight$/.test(name)
      const values = isRotated ? interleaved(read, config.headDim, shape[1]!) : read
      const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength)
      Fs.writeSync(file, bytes)
      Fs.writeSync(file, Buffer.alloc(padding(bytes.length)))
    }
  }).pipe(Effect.scoped)
