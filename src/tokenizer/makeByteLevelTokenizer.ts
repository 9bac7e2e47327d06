/**
 * Makes the two tokenizer files of a small byte-level policy. Ids in order: the 256 bytes (id = byte), one per merge,
 * one per word, then the special tokens; any text can be encoded and nothing is ever unknown.
 */
import { symbolOfByte, toSymbols } from "./byteLevel.ts"

/** @category model */
export interface ByteLevelTokenizerOptions {
  /** spellings of the control tokens, in id order; they take the highest ids */
  readonly specials: ReadonlyArray<string>
  /** pairs of text in rank order; both sides are bytes or results of earlier merges */
  readonly merges?: ReadonlyArray<readonly [string, string]> | undefined
  /**
   * Texts that are one token when they are a whole pre-token and never otherwise (`ignore_merges`). "user" is then one
   * id after `<|im_start|>`, while " user" and "users" stay bytes: no partial merge can fire inside other words.
   */
  readonly words?: ReadonlyArray<string> | undefined
  readonly eosToken: string
  readonly padToken: string
  /** Jinja source, for programs that render with the template */
  readonly chatTemplate: string
  /** longest sequence of the model, in tokens */
  readonly modelMaxLength: number
}

const addedToken = (content: string) => ({
  content,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  special: true
})

/**
 * The contents of `tokenizer.json` and `tokenizer_config.json` in Hugging Face layout, as plain objects.
 *
 * @category constructors
 */
export const makeByteLevelTokenizer = (options: ByteLevelTokenizerOptions) => {
  const vocabulary = new Map(symbolOfByte.map((symbol, byte) => [symbol, byte]))
  const add = (symbols: string) => {
    if (!vocabulary.has(symbols)) vocabulary.set(symbols, vocabulary.size)
  }
  const merges = (options.merges ?? []).map(([left, right]) => [toSymbols(left), toSymbols(right)] as const)
  for (const [left, right] of merges) add(left + right)
  for (const word of options.words ?? []) add(toSymbols(word))
  const first = vocabulary.size
  const addedTokens = options.specials.map((content, index) => ({ id: first + index, ...addedToken(content) }))
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: true }
  return {
    tokenizer: {
      version: "1.0",
      truncation: null,
      padding: null,
      added_tokens: addedTokens,
      normalizer: null,
      pre_tokenizer: byteLevel,
      post_processor: null,
      decoder: byteLevel,
      model: {
        type: "BPE",
        dropout: null,
        unk_token: null,
        continuing_subword_prefix: null,
        end_of_word_suffix: null,
        fuse_unk: false,
        byte_fallback: false,
        ignore_merges: true,
        vocab: Object.fromEntries(vocabulary),
        merges
      }
    },
    tokenizerConfig: {
      tokenizer_class: "PreTrainedTokenizerFast",
      model_max_length: options.modelMaxLength,
      bos_token: null,
      eos_token: options.eosToken,
      pad_token: options.padToken,
      unk_token: null,
      add_bos_token: false,
      add_prefix_space: false,
      clean_up_tokenization_spaces: false,
      added_tokens_decoder: Object.fromEntries(addedTokens.map(({ id, ...token }) => [String(id), token])),
      chat_template: options.chatTemplate
    }
  }
}
