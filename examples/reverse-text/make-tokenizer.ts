/**
 * Writes the tokenizer of the example's policy: `npx jiti examples/reverse-text/make-tokenizer.ts`.
 *
 * One token per byte, so that reversing a text is reversing its tokens. Only the role words of the chat format are
 * single tokens, and they have no merges: a role word is one id when it stands alone (as after <|im_start|>), while
 * inside other words and after a space it stays bytes.
 */
import { writeFileSync } from "node:fs"
import { chatTemplate } from "../../src/renderers/ChatMl.ts"
import { makeByteLevelTokenizer } from "../../src/tokenizer/makeByteLevelTokenizer.ts"

const files = makeByteLevelTokenizer({
  words: ["system", "user", "assistant"],
  specials: ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
  eosToken: "<|im_end|>",
  padToken: "<|endoftext|>",
  chatTemplate,
  modelMaxLength: 4096
})

const write = (name: string, value: unknown) =>
  writeFileSync(new URL(`./policy/${name}`, import.meta.url), `${JSON.stringify(value, null, 2)}\n`)

write("tokenizer.json", files.tokenizer)
write("tokenizer_config.json", files.tokenizerConfig)
