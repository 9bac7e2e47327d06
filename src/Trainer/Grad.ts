/**
 * Reverse-mode vectors in float64, small: enough to write a loss as its paper does. A vector of length 1 broadcasts. What
 * no gradient reaches is skipped on the way back, so that an overflow that a loss leaves out stays out of its gradient.
 */
type Operand = Grad | ArrayLike<number> | number

/** @category model */
export class Grad {
  readonly value: Float64Array
  /** filled by `backward` */
  readonly gradient: Float64Array
  private readonly tape: Array<() => void>

  private constructor(value: Float64Array, tape: Array<() => void>) {
    this.value = value
    this.gradient = new Float64Array(value.length)
    this.tape = tape
  }

  /** A vector whose gradient is wanted. */
  static leaf(values: ArrayLike<number>): Grad {
    return new Grad(Float64Array.from(values), [])
  }

  private lift(x: Operand): Grad {
    if (x instanceof Grad) return x
    return new Grad(typeof x === "number" ? Float64Array.of(x) : Float64Array.from(x), this.tape)
  }

  private record(value: Float64Array, back: (i: number, gradient: number) => void): Grad {
    const out = new Grad(value, this.tape)
    this.tape.push(() => {
      for (let i = 0; i < value.length; i++) if (out.gradient[i] !== 0) back(i, out.gradient[i]!)
    })
    return out
  }

  private unary(f: (x: number) => number, slope: (x: number, y: number) => number): Grad {
    const value = this.value.map(f)
    return this.record(value, (i, gradient) => {
      const s = slope(this.value[i]!, value[i]!)
      if (s !== 0) this.gradient[i]! += gradient * s
    })
  }

  private binary(
    x: Operand,
    f: (a: number, b: number) => number,
    slopes: (a: number, b: number) => readonly [number, number]
  ): Grad {
    const other = this.lift(x)
    const [n, m] = [this.value.length, other.value.length]
    if (n !== m && n !== 1 && m !== 1) throw new RangeError(`vectors of length ${n} and ${m}`)
    const [a, b] = [n === 1 ? 0 : 1, m === 1 ? 0 : 1]
    const length = n === 1 ? m : n
    const value = Float64Array.from({ length }, (_, i) => f(this.value[i * a]!, other.value[i * b]!))
    return this.record(value, (i, gradient) => {
      const [da, db] = slopes(this.value[i * a]!, other.value[i * b]!)
      if (da !== 0) this.gradient[i * a]! += gradient * da
      if (db !== 0) other.gradient[i * b]! += gradient * db
    })
  }

  plus(x: Operand): Grad {
    return this.binary(
      x,
      (a, b) => a + b,
      () => [1, 1]
    )
  }
  minus(x: Operand): Grad {
    return this.binary(
      x,
      (a, b) => a - b,
      () => [1, -1]
    )
  }
  times(x: Operand): Grad {
    return this.binary(
      x,
      (a, b) => a * b,
      (a, b) => [b, a]
    )
  }
  dividedBy(x: Operand): Grad {
    return this.binary(
      x,
      (a, b) => a / b,
      (a, b) => [1 / b, -a / (b * b)]
    )
  }
  /** The smaller; where they are equal the gradient goes to this one. */
  min(x: Operand): Grad {
    return this.binary(x, Math.min, (a, b) => (a <= b ? [1, 0] : [0, 1]))
  }
  /** The larger; where they are equal the gradient goes to this one. */
  max(x: Operand): Grad {
    return this.binary(x, Math.max, (a, b) => (a >= b ? [1, 0] : [0, 1]))
  }
  exp(): Grad {
    return this.unary(Math.exp, (_, y) => y)
  }
  log(): Grad {
    return this.unary(Math.log, (x) => 1 / x)
  }
  square(): Grad {
    return this.unary(
      (x) => x * x,
      (x) => 2 * x
    )
  }
  negate(): Grad {
    return this.unary(
      (x) => -x,
      () => -1
    )
  }
  /** Within [low, high]; no gradient outside. */
  clamp(low: number, high: number): Grad {
    return this.unary(
      (x) => Math.min(high, Math.max(low, x)),
      (x) => (x >= low && x <= high ? 1 : 0)
    )
  }
  /** Zero, in value and in gradient, where `keep` is false: skipped, never multiplied. */
  keep(keep: (i: number) => boolean): Grad {
    const kept = Uint8Array.from(this.value, (_, i) => (keep(i) ? 1 : 0))
    return this.record(
      this.value.map((x, i) => (kept[i] === 1 ? x : 0)),
      (i, gradient) => {
        if (kept[i] === 1) this.gradient[i]! += gradient
      }
    )
  }
  /** The sum, of length 1. */
  sum(): Grad {
    return this.record(Float64Array.of(this.value.reduce((a, b) => a + b, 0)), (_, gradient) => {
      for (let i = 0; i < this.gradient.length; i++) this.gradient[i]! += gradient
    })
  }
  /** The mean, of length 1. */
  mean(): Grad {
    return this.sum().times(1 / this.value.length)
  }
  /** The same numbers as constants. */
  detach(): Grad {
    return new Grad(this.value.slice(), this.tape)
  }
  /** Runs the tape backwards from this vector, once; leaves hold d(seed · this) afterwards. */
  backward(seed: ArrayLike<number>): void {
    for (let i = 0; i < this.gradient.length; i++) this.gradient[i]! += seed[i]!
    for (let i = this.tape.length - 1; i >= 0; i--) this.tape[i]!()
  }
}
