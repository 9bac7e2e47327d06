/**
 * Writes the tokenizer of the terminal example's policy: `npx jiti examples/terminal/make-tokenizer.ts`.
 *
 * The world is small, and so is its vocabulary: whatever stands between two breaks in its demonstrations is one token, and
 * all else is bytes, one token each. Nothing is ever unknown.
 */
import { writeFileSync } from "node:fs"
import { chatTemplate } from "../../src/renderers/ChatMl.ts"
import { spec } from "../../src/tasksets/Terminal.ts"
import { demonstration } from "../../src/tasksets/terminal/demonstrations.ts"
import { words } from "../../src/tasksets/terminal/Tasks.ts"
import { makeByteLevelTokenizer } from "../../src/tokenizer/makeByteLevelTokenizer.ts"

/** How the byte-level pre-tokenizer breaks a text (GPT-2). */
const pieces = /'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu

/** The texts that the chat format writes around tools; the same as `render --json` shows. */
const scaffold = [
  "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>",
  JSON.stringify({ type: "function", function: spec }).replace(/([:,])(?=["{[])/g, "$1 "),
  '\n</tools>\n\nFor each function call, return a json object with function name and arguments within  XML tags:\n\n\n{"name": <function-name>, "arguments": <args-json-object>}\n',
  '\n{"name": "run", "arguments": {"command": "'
]

const said = Array.from({ length: 2000 }, (_, index) => demonstration(0, index))
  .flat()
  .flatMap((message) => [
    message.content ?? "",
    ...(message.role === "assistant"
      ? (message.toolCalls ?? []).map((call) => `{"name": "run", "arguments": ${call.arguments}}\n`)
      : [])
  ])
const found = [...scaffold, ...said, ...words, "system", "user", "assistant", "tool"].flatMap(
  (text) => text.match(pieces) ?? []
)
const spaced = words.flatMap((word) => [word, ` ${word}`])
const vocabulary = Array.from(new Set([...found, ...spaced]))
  .filter((piece) => piece.length > 1)
  .sort()

const files = makeByteLevelTokenizer({
  words: vocabulary,
  specials: ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"],
  eosToken: "<|im_end|>",
  padToken: "<|endoftext|>",
  chatTemplate,
  modelMaxLength: 4096
})

const write = (name: string, value: unknown) =>
  writeFileSync(new URL(`./policy/${name}`, import.meta.url), `${JSON.stringify(value, null, 2)}\n`)

write("tokenizer.json", files.tokenizer)
write("tokenizer_config.json", files.tokenizerConfig)
