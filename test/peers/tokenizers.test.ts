/** Ids and texts are those of the reference implementation, on real vocabularies and texts of every kind. */
import { Tokenizer as Reference } from "@huggingface/tokenizers"
import * as Either from "effect/Either"
import { describe, expect, it } from "vitest"
import type { Encoding, TokenizerService } from "../../src/Tokenizer.ts"
import * as HuggingFace from "../../src/tokenizer/HuggingFace.ts"
import { makeMixed } from "./corpus.ts"
import { byteLevel, type Peer, readJson, referenceArguments, sentencePiece } from "./tokenizers.ts"

/** One of each at a time, since they are large. */
const withBoth = (peer: Peer, check: (ours: TokenizerService, reference: Reference) => void) => {
  const json = readJson(peer)
  check(Either.getOrThrow(HuggingFace.fromJson(json)), new Reference(...referenceArguments(peer, json)))
}

const idsOf = (reference: Reference, text: string) => reference.encode(text, { add_special_tokens: false }).ids
/** both sides as text, since a difference among a hundred thousand ids is looked for much faster so */
const sameIds = (ours: Encoding, theirs: ReadonlyArray<number>) => expect(ours.ids.join(" ")).toBe(theirs.join(" "))

const tiles = ({ ends, ids, starts }: Encoding, length: number) => {
  let byte = 0
  for (let at = 0; at < ids.length; at++) {
    if (starts[at] !== byte || ends[at]! < byte) return false
    byte = ends[at]!
  }
  return byte === length
}

describe.each(byteLevel)("$name", (peer) => {
  it("a megabyte of prose, code, Chinese, emoji, chat and random Unicode: ids, offsets and text", () => {
    withBoth(peer, (ours, reference) => {
      let bytes = 0
      for (const { kind, text } of makeMixed(1, peer.specials)) {
        bytes += Buffer.byteLength(text)
        const encoding = ours.encodeWithSpecials(text)
        const theirs = idsOf(reference, text)
        sameIds(encoding, theirs)
        expect(tiles(encoding, Buffer.byteLength(ours.normalize(text)))).toBe(true)
        expect(ours.decode(encoding.ids)).toBe(ours.normalize(text))
        const ordinary = ours.encode(text)
        expect(ours.decode(ordinary.ids)).toBe(ours.normalize(text))
        expect(ordinary.ids.some(ours.isSpecial)).toBe(false)
        if (kind !== "chat") sameIds(ordinary, theirs)
        const some = [...encoding.ids.subarray(0, 5000)]
        expect(ours.decode(some)).toBe(reference.decode(some))
      }
      expect(bytes).toBeGreaterThan(1_000_000)
    })
  })
})

describe.each(sentencePiece)("$name", (peer) => {
  it("texts of all kinds: ids, offsets and text, whole and as it arrives", () => {
    withBoth(peer, (ours, reference) => {
      for (const { kind, text } of makeMixed(2, peer.specials, 0.1)) {
        const encoding = ours.encodeWithSpecials(text)
        const theirs = idsOf(reference, text)
        sameIds(encoding, theirs)
        const ordinary = ours.encode(text)
        expect(tiles(ordinary, Buffer.byteLength(ours.normalize(text)))).toBe(true)
        expect(ours.decode(ordinary.ids)).toBe(text)
        if (kind !== "chat") expect(reference.decode([...encoding.ids])).toBe(text)
        const decoder = ours.decoder()
        expect(Array.from(ordinary.ids, decoder.push).join("") + decoder.flush()).toBe(text)
      }
      for (const text of ["", " ", "  two", "\ttab", "a\u2581b", "<0x41>", "\u{1f600}\u0001\u{10ffff}"]) {
        sameIds(ours.encode(text), idsOf(reference, text))
      }
    })
  })
})
