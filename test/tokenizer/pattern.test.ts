import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import * as Automaton from "../../src/tokenizer/Automaton.ts"
import * as Pattern from "../../src/tokenizer/Pattern.ts"
import * as Program from "../../src/tokenizer/Program.ts"

const automaton = (source: string) =>
  Either.getOrThrow(Pattern.parse(source).pipe(Either.flatMap(Program.make), Either.map(Automaton.make)))

/** All matches from left to right, as `String.matchAll` finds them. */
const find = ({ forget, match }: Automaton.Automaton, text: string): ReadonlyArray<string> => {
  const units = Uint16Array.from({ length: text.length }, (_, at) => text.charCodeAt(at))
  forget()
  const found: Array<string> = []
  for (let at = 0; at <= text.length; ) {
    const end = match(units, at, text.length)
    if (end >= 0) found.push(text.slice(at, end))
    at = end > at ? end : at + (text.codePointAt(at)! > 0xffff ? 2 : 1)
  }
  return found
}
const matches = (source: string, text: string) => find(automaton(source), text)

describe("patterns of tokenizer files", () => {
  it("white space is Unicode's: a next-line is, a byte order mark is not", () => {
    expect(matches("\\s", "a\u0085b\ufeffc\u00a0")).toEqual(["\u0085", "\u00a0"])
    expect(matches("[^\\s]+", "a\ufeff b")).toEqual(["a\ufeff", "b"])
  })

  it("(?i:…) ignores case inside the group only", () => {
    expect(matches("(?i:'ll|x[yz])q", "'LLq 'llQ XYq xZq")).toEqual(["'LLq", "XYq", "xZq"])
    expect(matches("(?i:'s)", "'S '\u017f")).toEqual(["'S", "'\u017f"])
    expect(matches("(?i:[^a-c])", "AbxZ")).toEqual(["x", "Z"])
  })

  it("scripts are properties, braces and identity escapes are literal", () => {
    expect(matches("\\p{Han}+", "日本 kana かな")).toEqual(["日本"])
    expect(matches("\\p{N}{1,3}", "12345")).toEqual(["123", "45"])
    expect(matches("\\'{", "'{")).toEqual(["'{"])
    expect(matches("[\\-']+", "-'-")).toEqual(["-'-"])
  })

  it("classes intersect and nest; what holds on to all that it can take gives nothing back", () => {
    expect(matches("[\\p{L}&&[^\\p{Han}]]+", "ab日c")).toEqual(["ab", "c"])
    expect(matches("[a-z&&[^c]&&[^d]]+", "abcde")).toEqual(["ab", "e"])
    expect(matches("a++b", "aaab aaa")).toEqual(["aaab"])
    expect(matches("a++a", "aaaa")).toEqual([])
    expect(matches("[ab]?+\\w+", "bc b")).toEqual(["bc"])
    expect(matches("\\s+$", "a \n b ")).toEqual([" ", " "])
  })

  it.each([
    "(?>a)",
    "\\b",
    "^a",
    "(?i)a",
    "[[:alpha:]]",
    "\\1",
    "\\p{Nothing}",
    "(a",
    "a)",
    "[a",
    "a**",
    "(?<=a)b",
    "(?!ab)c",
    "(ab)++",
    "[]"
  ])("%s is refused rather than read differently", (source) => {
    expect(Either.isLeft(Pattern.parse(source))).toBe(true)
  })

  it("a pattern that would need more memory than a file has letters is refused", () => {
    const huge = Either.flatMap(Pattern.parse("((a{1000}){1000}){1000}"), Program.make)
    expect(Either.isLeft(huge)).toBe(true)
    expect(Either.isLeft(Pattern.parse("(".repeat(100_000)))).toBe(true)
    expect(Either.isLeft(Pattern.parse("[".repeat(100_000)))).toBe(true)
  })
})

// JavaScript spells these the same; alternatives of few letters, so that they often match
const pattern = FastCheck.letrec<{ node: string; leaf: string }>((tie) => ({
  leaf: FastCheck.constantFrom("a", "b", "c", "[ab]", "[^a]", "\\p{N}", ".", "(?!a)", "(?![bc])", "(?=b)"),
  node: FastCheck.oneof(
    { maxDepth: 4 },
    tie("leaf"),
    FastCheck.tuple(tie("node"), tie("node")).map(([a, b]) => a + b),
    FastCheck.tuple(tie("node"), tie("node")).map(([a, b]) => `(?:${a}|${b})`),
    FastCheck.tuple(
      tie("node"),
      FastCheck.constantFrom("?", "*", "+", "??", "*?", "+?", "{2}", "{1,2}", "{0,2}?", "{2,}")
    ).map(([a, quantifier]) => `(?:(?:${a})b)${quantifier}`),
    FastCheck.tuple(FastCheck.constantFrom("a", "[ab]", "."), FastCheck.constantFrom("?", "*", "+", "+?")).map(
      ([a, quantifier]) => a + quantifier
    )
  )
})).node

it("any pattern matches what JavaScript's matcher finds", () => {
  const texts = FastCheck.array(FastCheck.constantFrom("a", "b", "c", "1", "\n", "😀"), { maxLength: 14 })
  FastCheck.assert(
    FastCheck.property(pattern, FastCheck.array(texts, { minLength: 1, maxLength: 4 }), (source, inputs) => {
      const made = automaton(source)
      for (const input of inputs) {
        const text = input.join("")
        expect(find(made, text)).toEqual([...text.matchAll(new RegExp(source, "gu"))].map(([match]) => match))
      }
    }),
    { numRuns: 1000 }
  )
})

it("patterns that make a backtracking matcher take exponential or quadratic time take linear time", () => {
  const many = "a".repeat(200_000)
  expect(matches("(a+)+b", `${"a".repeat(40)}c`)).toEqual([])
  expect(matches("(?:a|a)*?b|a", many.slice(0, 20_000)).length).toBe(20_000)
  expect(matches("a*b|a", many).length).toBe(200_000)
  expect(matches("a*a*a*a*b", many)).toEqual([])
  expect(matches("[ab]*a[ab]{12}c", many)).toEqual([])
})
