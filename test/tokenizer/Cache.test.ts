import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as HuggingFace from "../../src/tokenizer/HuggingFace.ts"
import { makeJson } from "./files.ts"

const merges = [
  ["h", "e"],
  ["l", "l"],
  ["he", "ll"]
] as const
// large enough to be worth keeping
const padding = "x".repeat(1 << 20)
const text = "hello <|im_end|> hello é \u{1f600}"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "cache-"))),
  (made) => Effect.sync(() => rmSync(made, { recursive: true }))
)

/** A model's folder and a cache's, and reading the one with the other. */
const folders = Effect.gen(function* () {
  const model = yield* folder
  const cache = yield* folder
  const file = join(model, "tokenizer.json")
  writeFileSync(file, JSON.stringify(makeJson({ merges, root: { padding } })))
  const kept = () => readdirSync(join(cache, "tokenizers")).map((name) => join(cache, "tokenizers", name))
  const read = (at = cache) =>
    HuggingFace.fromDirectory(model).pipe(
      Effect.withConfigProvider(ConfigProvider.fromMap(new Map([["PRIMERL_CACHE", at]])))
    )
  return { file, kept, read }
})

it.scoped("what was kept gives the same tokenizer, and is what is read", () =>
  Effect.gen(function* () {
    const { kept, read } = yield* folders
    const made = yield* read()
    expect(kept()).toHaveLength(1)
    const before = readFileSync(kept()[0]!)
    const again = yield* read()
    expect(readFileSync(kept()[0]!)).toEqual(before)
    expect(again.encode(text)).toEqual(made.encode(text))
    expect(again.encodeWithSpecials(text)).toEqual(made.encodeWithSpecials(text))
    expect(again.decode(again.encode(text).ids)).toBe(text)
    expect(again.vocabularySize).toBe(made.vocabularySize)
    expect(again.special("<|im_end|>")).toBe(made.special("<|im_end|>"))
    expect(again.decode([97, made.special("<|im_end|>")!], { skipSpecialTokens: true })).toBe("a")
  })
)

it.scoped("a file that changed is read anew", () =>
  Effect.gen(function* () {
    const { file, kept, read } = yield* folders
    const before = yield* read()
    const [old] = kept() as [string]
    writeFileSync(file, JSON.stringify(makeJson({ merges: merges.slice(0, 2), root: { padding } })))
    const after = yield* read()
    expect([...before.encode("hell").ids]).toEqual([258])
    expect([...after.encode("hell").ids]).toEqual([256, 257])
    // not even under its name is the old one taken for the new
    writeFileSync(kept().find((name) => name !== old)!, readFileSync(old))
    expect([...(yield* read()).encode("hell").ids]).toEqual([256, 257])
  })
)

it.scoped("what is damaged, cut short, from another version or from another file is made anew", () =>
  Effect.gen(function* () {
    const { kept, read } = yield* folders
    const expected = (yield* read()).encode(text)
    const [file] = kept() as [string]
    const whole = readFileSync(file)
    const flipped = (at: number) => {
      const bytes = Buffer.from(whole)
      bytes[at]! ^= 1
      return bytes
    }
    const damages = [
      Buffer.alloc(0),
      whole.subarray(0, 40),
      whole.subarray(0, whole.length - 4),
      Buffer.from("not at all"),
      ...[0, 4, 8, 20, 60, 300, whole.length - 9].map(flipped)
    ]
    for (const damaged of damages) {
      writeFileSync(file, damaged)
      expect((yield* read()).encode(text)).toEqual(expected)
      expect(readFileSync(file)).toEqual(whole)
    }
  })
)

it.scoped("where nothing can be written, and with an empty name, nothing is kept and nothing fails", () =>
  Effect.gen(function* () {
    const { kept, read } = yield* folders
    const closed = yield* folder
    writeFileSync(join(closed, "file"), "")
    chmodSync(closed, 0o500)
    expect((yield* read(join(closed, "file", "below"))).decode([97])).toBe("a")
    expect((yield* read("")).decode([97])).toBe("a")
    expect(readdirSync(closed)).toEqual(["file"])
    expect(kept).toThrow()
  })
)
