/** Small tokenizer.json contents for tests. */
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as HuggingFace from "../../src/tokenizer/HuggingFace.ts"
import { makeByteLevelTokenizer } from "../../src/tokenizer/makeByteLevelTokenizer.ts"

export const specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
export const thinkingSpecials = [...specials, "<think>", "</think>", "<tool_call>", "</tool_call>"]

export const makeFiles = (options: {
  readonly specials?: ReadonlyArray<string>
  readonly merges?: ReadonlyArray<readonly [string, string]>
  readonly words?: ReadonlyArray<string>
}) =>
  makeByteLevelTokenizer({
    specials: options.specials ?? specials,
    merges: options.merges,
    words: options.words,
    eosToken: "<|im_end|>",
    padToken: "<|endoftext|>",
    chatTemplate: "",
    modelMaxLength: 64
  })

/** The file as parsed JSON, with top-level keys and model keys replaced. */
export const makeJson = (
  options: Parameters<typeof makeFiles>[0] & {
    readonly root?: Readonly<Record<string, unknown>>
    readonly model?: Readonly<Record<string, unknown>>
  }
): unknown => {
  const { tokenizer } = makeFiles(options)
  return { ...tokenizer, ...options.root, model: { ...tokenizer.model, ...options.model } }
}

export const makeTokenizer = (options: Parameters<typeof makeJson>[0]) =>
  Either.getOrThrow(HuggingFace.fromJson(makeJson(options)))

/** Texts of any code points, assigned or not. */
export const anyText = FastCheck.array(FastCheck.integer({ min: 0, max: 0x10ffff }), { maxLength: 12 }).map((points) =>
  String.fromCodePoint(...points.filter((point) => point < 0xd800 || point > 0xdfff))
)
