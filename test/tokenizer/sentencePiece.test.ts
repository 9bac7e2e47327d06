/** BPE over characters with byte fallback, as Llama 2 and Gemma have it, on vocabularies small enough to read. */
import { Tokenizer as Reference } from "@huggingface/tokenizers"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import * as HuggingFace from "../../src/tokenizer/HuggingFace.ts"
import { anyText } from "./files.ts"

const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`)
const words = [
  ["a", "b"],
  ["▁", "a"],
  ["▁a", "b"],
  ["▁", "▁"],
  ["▁▁", "▁▁"],
  ["b", "é"],
  ["bé", "b"]
] as const
const replaceSpaces = { type: "Replace", pattern: { String: " " }, content: "▁" }
const prepend = { type: "Prepend", prepend: "▁" }
const restoreSpaces = { type: "Replace", pattern: { String: "▁" }, content: " " }
const fallback = [{ type: "ByteFallback" }, { type: "Fuse" }]
const strip = { type: "Strip", content: " ", start: 1, stop: 0 }
const sequence = (decoders: ReadonlyArray<unknown>) => ({ type: "Sequence", decoders })

const llama = {
  normalizer: { type: "Sequence", normalizers: [prepend, replaceSpaces] },
  pre_tokenizer: null,
  decoder: sequence([restoreSpaces, ...fallback, strip])
}
const gemma = { normalizer: replaceSpaces, pre_tokenizer: null, decoder: sequence([restoreSpaces, ...fallback]) }
const metaspace = (options: Readonly<Record<string, unknown>>) => ({
  normalizer: null,
  pre_tokenizer: { type: "Metaspace", replacement: "▁", split: false, ...options },
  decoder: sequence([{ type: "Metaspace", replacement: "▁", ...options }, ...fallback])
})

const added = (content: string, more: Readonly<Record<string, unknown>> = {}) => ({
  content,
  special: true,
  normalized: false,
  lstrip: false,
  rstrip: false,
  single_word: false,
  ...more
})

const makeJson = (
  root: Readonly<Record<string, unknown>>,
  merges: ReadonlyArray<readonly [string, string]> = words,
  model: Readonly<Record<string, unknown>> = {}
) => {
  const tokens = [...bytes, "▁", "a", "b", "é", "c", ...new Set(merges.map(([left, right]) => left + right))]
  const contents = (root.added_tokens ?? [added("<s>")]) as ReadonlyArray<object>
  return {
    post_processor: null,
    ...root,
    added_tokens: contents.map((token, index) => ({ id: tokens.length + index, ...token })),
    model: {
      type: "BPE",
      byte_fallback: true,
      fuse_unk: true,
      unk_token: null,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges,
      ...model
    }
  }
}
const make = (json: unknown) => Either.getOrThrow(HuggingFace.fromJson(json))
const both = (json: object) => {
  const reference = new Reference(json as never, { clean_up_tokenization_spaces: false })
  return {
    ours: make(json),
    idsOf: (text: string) => reference.encode(text, { add_special_tokens: false }).ids
  }
}

const text = FastCheck.oneof(
  FastCheck.array(FastCheck.constantFrom("a", "b", "é", "c", " ", "  ", "▁", "\n", "x", "😀"), {
    maxLength: 12
  }).map((parts) => parts.join("")),
  anyText
)

describe("ids equal the reference", () => {
  const crossing = [...words, ["b", "▁"], ["b▁", "▁a"]] as const
  it.each([
    ["Llama 2", makeJson(llama)],
    ["Gemma", makeJson(gemma)],
    ["merges across spaces", makeJson(gemma, crossing)],
    ["whole pieces before merges", makeJson(gemma, crossing, { ignore_merges: true })],
    ["Metaspace before every stretch", makeJson(metaspace({ prepend_scheme: "always" }))],
    ["Metaspace before the first", makeJson(metaspace({ prepend_scheme: "first" }))],
    ["Metaspace before none", makeJson(metaspace({ prepend_scheme: "never" }))],
    [
      "Metaspace that cuts",
      makeJson(
        metaspace({ prepend_scheme: "always", split: true }),
        words.filter(([, right]) => !right.startsWith("▁"))
      )
    ]
  ])("%s", (_, json) => {
    const { idsOf, ours } = both(json)
    FastCheck.assert(
      FastCheck.property(text, text, (one, two) => {
        expect([...ours.encode(one).ids]).toEqual(idsOf(one))
        expect([...ours.encodeWithSpecials(`${one}<s>${two}`).ids]).toEqual(idsOf(`${one}<s>${two}`))
      }),
      { numRuns: 200 }
    )
  })

  it("where added tokens take white space with them, or are sought in normalised text", () => {
    const { idsOf, ours } = both(
      makeJson({
        ...gemma,
        added_tokens: [
          added("<s>"),
          added("<s>a"),
          added("<l>", { lstrip: true }),
          added("<r>", { rstrip: true }),
          added("b c", { normalized: true })
        ]
      })
    )
    const parts = FastCheck.constantFrom("<s>", "<l>", "<r>", "b c", " ", "\n", "a", "b", "<", "s>")
    FastCheck.assert(
      FastCheck.property(FastCheck.array(parts, { maxLength: 10 }), (list) => {
        expect([...ours.encodeWithSpecials(list.join("")).ids]).toEqual(idsOf(list.join("")))
      }),
      { numRuns: 500 }
    )
  })

  it("an added token that must be a word is none inside of one", () => {
    const tokenizer = make(makeJson({ ...gemma, added_tokens: [added("ba", { single_word: true })] }))
    const specials = (input: string) => tokenizer.encodeWithSpecials(input).ids.filter(tokenizer.isSpecial).length
    expect(["ba", " ba ", "(ba)", "cba", "baé", "ba ba"].map(specials)).toEqual([1, 1, 1, 0, 0, 2])
  })
})

describe("text again", () => {
  it("any text survives, the space that Llama 2 puts first is gone, and offsets tile the bytes", () => {
    for (const json of [makeJson(llama), makeJson(gemma)]) {
      const tokenizer = make(json)
      FastCheck.assert(
        FastCheck.property(text, (input) => {
          const { ends, ids, starts } = tokenizer.encode(input)
          expect(tokenizer.decode(ids)).toBe(input.replaceAll("▁", " "))
          expect([...starts]).toEqual([0, ...ends].slice(0, ids.length))
          expect(ends.at(-1) ?? 0).toBe(Buffer.byteLength(tokenizer.normalize(input)))
        })
      )
    }
  })

  it("TOK-12: a character of byte tokens comes out when it is whole, once, and the first space never", () => {
    const decoder = make(makeJson(llama)).decoder()
    const ids = [256, 0xf0, 0x9f, 0x98, 0x80, 257, 256]
    expect(ids.map(decoder.push)).toEqual(["", "", "", "", "\u{1f600}", "a", " "])
    expect(decoder.flush()).toBe("")
  })

  it("as ids arrive it is what decoding at once gives, for any ids, known or not", () => {
    for (const json of [makeJson(llama), makeJson(gemma)]) {
      const tokenizer = make(json)
      const id = FastCheck.integer({ min: -1, max: tokenizer.vocabularySize + 1 })
      FastCheck.assert(
        FastCheck.property(FastCheck.array(id), (ids) => {
          const decoder = tokenizer.decoder()
          expect(ids.map(decoder.push).join("") + decoder.flush()).toBe(tokenizer.decode(ids))
        })
      )
    }
  })

  it("text that spells a byte's token stays text, also where a whole piece is an entry", () => {
    const tokenizer = make(makeJson(gemma, words, { ignore_merges: true }))
    expect([...tokenizer.encode("<0x41>").ids]).toEqual([...Buffer.from("<0x41>")])
  })

  it("half of a surrogate pair is one replacement character", () => {
    const tokenizer = make(makeJson(gemma))
    expect(tokenizer.decode(tokenizer.encode("a\ud83d b\udc00").ids)).toBe("a\ufffd b\ufffd")
    expect(tokenizer.normalize("a\ud83d")).toBe("a\ufffd")
  })
})

describe("what cannot be read is refused, with its place", () => {
  const withoutByte = (byte: string, ...more: ReadonlyArray<string>) => {
    const json = makeJson(gemma)
    const tokens = [...Object.keys(json.model.vocab).filter((token) => token !== byte), ...more]
    return {
      ...json,
      added_tokens: [],
      model: { ...json.model, vocab: Object.fromEntries(tokens.map((t, id) => [t, id])) }
    }
  }
  it.each<[string, unknown, string]>([
    [
      "a strip of every token",
      makeJson({ ...gemma, decoder: sequence([restoreSpaces, strip]) }),
      "decoder.decoders[1]"
    ],
    [
      "an order that is another",
      makeJson({ ...gemma, decoder: sequence([...fallback, restoreSpaces]) }),
      "decoder.decoders[2].type"
    ],
    [
      "Metaspace after a cut",
      makeJson({
        ...gemma,
        pre_tokenizer: { type: "Sequence", pretokenizers: [{ type: "Digits" }, { type: "Metaspace" }] }
      }),
      "pre_tokenizer.pretokenizers[1]"
    ],
    ["a scheme of its own", makeJson(metaspace({ prepend_scheme: "last" })), "pre_tokenizer.prepend_scheme"],
    [
      "a replacement by pattern",
      makeJson({ ...gemma, normalizer: { ...replaceSpaces, pattern: { Regex: " " } } }),
      "normalizer.pattern.String"
    ],
    ["a byte that nothing stands for", withoutByte("<0x09>"), "model.vocab"],
    ["a merge with nothing", makeJson(gemma, [["a", ""]]), "model.merges[0]"]
  ])("%s", (_, json, where) => {
    const error = Either.getOrThrow(Either.flip(HuggingFace.fromJson(json)))
    expect(error.where).toBe(where)
  })

  it("a byte that is a character of the vocabulary needs no token of its own", () => {
    const tokenizer = make(withoutByte("<0x09>", "\t"))
    expect(tokenizer.decode(tokenizer.encode("a\tb").ids)).toBe("a\tb")
  })
})
