import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import { Grad } from "../../src/Trainer/Grad.ts"

const weights = [0.3, -1, 2, 0.5]

/** Compares the gradient of Σ weights·f(x) with central differences. */
const check = (f: (x: Grad) => Grad, x: ReadonlyArray<number>) => {
  const objective = (values: ReadonlyArray<number>) =>
    f(Grad.leaf(values)).value.reduce((total, value, i) => total + value * weights[i]!, 0)
  const leaf = Grad.leaf(x)
  const out = f(leaf)
  out.backward(weights.slice(0, out.value.length))
  const h = 1e-6
  for (const i of x.keys()) {
    const at = (by: number) => objective(x.map((value, j) => (j === i ? value + by : value)))
    expect(leaf.gradient[i]).toBeCloseTo((at(h) - at(-h)) / (2 * h), 6)
  }
}

const other = [0.7, -0.2, 1.5, 0.1]
const operations: Readonly<Record<string, (x: Grad) => Grad>> = {
  plus: (x) => x.plus(other).plus(x),
  minus: (x) => x.minus(other).minus(2).minus(x.square()),
  times: (x) => x.times(other).times(x).times(3),
  dividedBy: (x) => x.dividedBy(other).plus(x.square().plus(1).dividedBy(x.exp())),
  min: (x) => x.min(other),
  max: (x) => x.times(2).max(x.plus(0.05)),
  exp: (x) => x.exp(),
  log: (x) => x.square().plus(0.5).log(),
  square: (x) => x.square(),
  negate: (x) => x.negate(),
  clamp: (x) => x.clamp(-0.45, 0.55),
  keep: (x) => x.exp().keep((i) => i % 2 === 0),
  "sum, broadcast": (x) => x.sum().times(x),
  mean: (x) => x.mean().exp(),
  "detach, on one side": (x) => x.times(other).minus(x.detach().minus(x.detach())),
  "one per sequence": (x) => x.minus(other).mean().exp().times(other).min(1)
}

describe("gradients agree with finite differences", () => {
  it.each(Object.entries(operations))("%s", (_, f) => {
    // Away from the kinks of min, max and clamp.
    const coordinate = FastCheck.constantFrom(-1.3, -0.62, -0.31, 0.42, 0.83, 1.9)
    FastCheck.assert(
      FastCheck.property(FastCheck.tuple(coordinate, coordinate, coordinate, coordinate), (x) => check(f, x)),
      { numRuns: 30 }
    )
  })
})

describe("what is left out", () => {
  it("an overflow behind keep does not reach the gradient", () => {
    const x = Grad.leaf([800, 1])
    const out = x.exp().keep((i) => i === 1)
    out.backward([1, 1])
    expect([...out.value]).toEqual([0, Math.E])
    expect([...x.gradient]).toEqual([0, Math.E])
  })

  it("detached numbers have no gradient", () => {
    const x = Grad.leaf([2])
    x.detach().times(x).backward([1])
    expect([...x.gradient]).toEqual([2])
  })

  it("vectors of different length are refused with both lengths", () => {
    expect(() => Grad.leaf([1, 2]).plus([1, 2, 3])).toThrow("vectors of length 2 and 3")
  })
})
