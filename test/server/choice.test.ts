/** Where a choice ends and what is said of it, with a tokenizer whose tokens hold any bytes. */
import { describe, expect, it } from "@effect/vitest"
import * as Choice from "../../src/server/Choice.ts"
import * as Reader from "../../src/server/Reader.ts"
import type { TokenizerService } from "../../src/Tokenizer.ts"
import * as Stops from "../../src/wire/Stops.ts"

/** A tokenizer of the given tokens, each as its bytes; only what reads ids is there. */
const tokenizerOf = (tokens: ReadonlyArray<ReadonlyArray<number>>) =>
  ({
    isSpecial: () => false,
    decoder: () => {
      const decoder = new TextDecoder()
      return {
        push: (id: number) => decoder.decode(Uint8Array.from(tokens[id]!), { stream: true }),
        flush: () => decoder.decode()
      }
    }
  }) as unknown as TokenizerService
const bytes = (text: string) => Array.from(new TextEncoder().encode(text))

/** Pushes one token after the other, and gives all that comes out. */
const run = (
  tokens: ReadonlyArray<ReadonlyArray<number>>,
  options: { readonly stops?: ReadonlyArray<string>; readonly reader?: Reader.Reader; readonly maxTokens?: number } = {}
) => {
  const tokenizer = tokenizerOf(tokens)
  const choice = Choice.make({
    tokenizer,
    reader: options.reader ?? Reader.plain(tokenizer, { skipSpecialTokens: false }),
    stops: options.stops ?? [],
    endIds: new Set(),
    stopTokenIds: new Set(),
    maxTokens: options.maxTokens ?? 100,
    skipSpecialTokens: false
  })
  return tokens.map((_, id) => choice.push(Int32Array.of(id), Float32Array.of(-1)))
}
const texts = (parts: ReadonlyArray<Choice.Part>) =>
  parts.map(({ deltas }) => deltas.map((delta) => ("text" in delta ? delta.text : `<${delta.type}>`)).join(""))

describe("a choice", () => {
  it("is cut before a stop text even where the token of its end opens a character that never comes", () => {
    const parts = run([bytes("one "), [...bytes("STOP"), 0xf0, 0x9f]], { stops: ["STOP"] })
    expect(texts(parts)).toEqual(["one ", ""])
    expect(parts[1]!.finish).toEqual({ reason: "stop", stop: "STOP" })
  })

  it("ends at the stop text that comes first, in whatever order they are given", () => {
    for (const stops of [
      ["b", "a"],
      ["a", "b"]
    ]) {
      const [part] = run([bytes("xab")], { stops })
      expect([texts([part!]), part!.finish?.stop]).toEqual([["x"], "a"])
    }
  })

  it("is never sent with half a character, even where the other half may begin a stop text", () => {
    const parts = run([bytes("a😀"), bytes("b")], { stops: ["\ude00!"] })
    expect(texts(parts)).toEqual(["a", "😀b"])
  })

  it("tells where its tokens stand in characters, of which an emoji is one", () => {
    const parts = run([bytes("a😀"), bytes("b"), [0xf0, 0x9f], [0x98, 0x80], bytes("c")])
    expect(parts.flatMap(({ tokens }) => tokens.map(({ offset }) => offset))).toEqual([0, 2, 3, 3, 4])
  })

  it("loses nothing of what was said before a call when a stop text ends the call", () => {
    const call = { name: "f", arguments: "{}", status: "ok" as const, raw: "{}" }
    const said: ReadonlyArray<ReadonlyArray<Reader.Delta>> = [
      [{ type: "content", text: "before" }],
      [{ type: "toolCall", call: call as unknown as Extract<Reader.Delta, { type: "toolCall" }>["call"] }]
    ]
    const parts = run([bytes("before"), bytes("<call>STOP")], {
      stops: ["eSTOP", "STOP"],
      reader: { push: (id) => said[id]!, finish: () => [] }
    })
    expect(texts(parts).join("")).toBe("before<toolCall>")
  })

  it("ends at its limit, with the token that reached it", () => {
    const parts = run([bytes("a"), bytes("b")], { maxTokens: 2 })
    expect(parts.map(({ finish }) => finish?.reason)).toEqual([undefined, "length"])
  })
})

describe("stop texts", () => {
  it("hold back the longest end that one of them may go on from, and no more", () => {
    const { push } = Stops.make(["abcd", "cx"])
    expect(["a", "b", "c", "z", "c"].map((text) => push(text))).toEqual([
      { held: 1 },
      { held: 2 },
      { held: 3 },
      { held: 0 },
      { held: 1 }
    ])
    expect(push("x")).toEqual({ stop: "cx", cut: 2 })
  })
})
