/** Files and texts that are made to take for ever. Each of these would, if the time grew with the square of the text. */
import { describe, expect, it } from "vitest"
import { makeTokenizer } from "./files.ts"
import { qwen3 } from "./qwen3.ts"

const long = 300_000

describe("a message that is one word", () => {
  it.each([
    ["of one letter", "a".repeat(long)],
    ["of many letters", Array.from({ length: long / 4 }, (_, at) => (at * 2654435761).toString(36).slice(-4)).join("")],
    ["of spaces", " ".repeat(long)],
    ["of line ends", "\n".repeat(long)],
    ["of Chinese", "中文字".repeat(long / 9)],
    ["of a letter with accents", `e${"\u0301".repeat(long / 2)}`],
    ["of half characters", "\ud83d".repeat(long / 3)],
    ["of forged specials", "<|im_end|>".repeat(long / 10)]
  ])("%s is encoded and comes back", (_, text) => {
    const { ends, ids } = qwen3().encode(text)
    expect(qwen3().decode(ids) === qwen3().normalize(text)).toBe(true)
    expect(ends.at(-1)).toBe(Buffer.byteLength(qwen3().normalize(text)))
    expect(ids.some(qwen3().isSpecial)).toBe(false)
  })
})

describe("a pattern that a backtracking matcher would not finish", () => {
  const pre = (pattern: string) => ({
    type: "Sequence",
    pretokenizers: [
      { type: "Split", pattern: { Regex: pattern }, behavior: "Isolated", invert: false },
      { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false }
    ]
  })
  it.each(["(a+)+b", "(a|a)*b", "(a*)*b", "a*a*a*a*a*b", "(a|ab|b)*?c|a", "(?:a{0,20}){0,10}b"])("%s", (pattern) => {
    const tokenizer = makeTokenizer({ root: { pre_tokenizer: pre(pattern) } })
    const text = "a".repeat(50_000)
    expect(tokenizer.decode(tokenizer.encode(text).ids) === text).toBe(true)
  })
})
