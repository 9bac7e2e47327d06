import * as Either from "effect/Either"
import { describe, expect, it } from "vitest"
import { toRegExp } from "../../src/tokenizer/pattern.ts"

const matches = (source: string, text: string) =>
  Either.getOrThrow(toRegExp(source)) && [...text.matchAll(Either.getOrThrow(toRegExp(source)))].map(([match]) => match)

describe("patterns of tokenizer files", () => {
  it("white space is Unicode's: a next-line is, a byte order mark is not", () => {
    expect(matches("\\s", "a\u0085b\ufeffc\u00a0")).toEqual(["\u0085", "\u00a0"])
    expect(matches("[^\\s]+", "a\ufeff b")).toEqual(["a\ufeff", "b"])
  })

  it("(?i:…) ignores case inside the group only", () => {
    expect(matches("(?i:'ll|x[yz])q", "'LLq 'llQ XYq xZq")).toEqual(["'LLq", "XYq", "xZq"])
    expect(matches("(?i:'s)", "'S '\u017f")).toEqual(["'S", "'\u017f"])
  })

  it("scripts are properties, braces and identity escapes are literal", () => {
    expect(matches("\\p{Han}+", "日本 kana かな")).toEqual(["日本"])
    expect(matches("\\p{N}{1,3}", "12345")).toEqual(["123", "45"])
    expect(matches("\\'{", "'{")).toEqual(["'{"])
    expect(matches("[\\-']+", "-'-")).toEqual(["-'-"])
  })

  it.each(["a++", "(?>a)", "[a&&b]", "\\b", "^a", "a$", "(?i)a", "[[:alpha:]]", "\\1", "\\p{Nothing}", "(a"])(
    "%s is refused rather than read differently",
    (source) => {
      expect(Either.isLeft(toRegExp(source))).toBe(true)
    }
  )
})
