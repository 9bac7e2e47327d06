import { describe, expect, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Seed from "../src/Seed.ts"

describe("seeds", () => {
  it("are the same for the same names, on every machine", () => {
    expect(Seed.of(1, "turn", "math", "train/7", 3, 0)).toBe(Seed.of(1, "turn", "math", "train/7", 3, 0))
    expect([Seed.of(), Seed.of(0), Seed.of("a"), Seed.of(1, 2, 3)]).toMatchInlineSnapshot(`
      [
        0,
        315987046,
        2691212054,
        3752073617,
      ]
    `)
    expect(Seed.of(-0)).toBe(Seed.of(0))
  })

  it("differ when any part, its kind, its place or its border differs", () => {
    const different = [
      Seed.of("ab", "c"),
      Seed.of("a", "bc"),
      Seed.of("abc"),
      Seed.of("c", "ab"),
      Seed.of("ab", "c", "")
    ]
    const numbers = [Seed.of(1), Seed.of("1"), Seed.of(1.5), Seed.of(2 ** 32 + 1), Seed.of(-1), Seed.of(1, 0)]
    expect(new Set([...different, ...numbers]).size).toBe(11)
  })

  it("are unsigned 32-bit integers", () => {
    const part = FastCheck.oneof(FastCheck.string(), FastCheck.double(), FastCheck.integer())
    FastCheck.assert(
      FastCheck.property(FastCheck.array(part), (parts) => {
        const seed = Seed.of(...parts)
        expect(seed).toBe(seed >>> 0)
      })
    )
  })

  it("of neighbouring calls collide no more than chance", () => {
    const seen = new Set<number>()
    for (let attempt = 0; attempt < 20_000; attempt++) {
      seen.add(Seed.ofTurn({ run: 1, source: "math", example: "train/7", attempt, turn: 0 }))
    }
    // 20,000 of 2³² values: 0.05 collisions are expected.
    expect(seen.size).toBeGreaterThanOrEqual(19_999)
  })

  it("make uniform numbers", () => {
    const bins = new Array<number>(10).fill(0)
    for (let i = 0; i < 10_000; i++) bins[Math.floor(Seed.unit("bins", i) * 10)]! += 1
    const random = Seed.generator(5)
    for (let i = 0; i < 10_000; i++) bins[Math.floor(random() * 10)]! += 1
    for (const count of bins) expect(Math.abs(count - 2_000)).toBeLessThan(200)
  })

  it("make permutations", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.nat(200), FastCheck.integer(), (size, seed) => {
        const order = Seed.permutation(size, seed)
        expect([...order].sort((a, b) => a - b)).toEqual(Array.from({ length: size }, (_, i) => i))
      })
    )
    expect(Seed.permutation(50, 1)).not.toEqual(Seed.permutation(50, 2))
  })
})
