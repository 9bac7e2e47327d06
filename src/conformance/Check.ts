/** A quantity compared with its recorded value: the worst deviation is kept with the place where it was found. */
import * as Data from "effect/Data"

/** @category model */
export interface Check {
  readonly file: string
  readonly quantity: string
  /** how many numbers were compared */
  readonly count: number
  readonly worst: number
  readonly tolerance: number
  /** where the worst deviation was found */
  readonly at: string
}

/** Something in the folder is not in the format of a case. @category errors */
export class CaseError extends Data.TaggedError("CaseError")<{ readonly file: string; readonly reason: string }> {
  override get message() {
    return `${this.file}: ${this.reason}`
  }
}

/** @category checks */
export const passes = (check: Check): boolean => check.worst <= check.tolerance

/** Collects comparisons by quantity, in the order in which quantities first appear. @category checks */
export class Tally {
  readonly #file: string
  readonly #checks = new Map<string, Check>()
  constructor(file: string) {
    this.#file = file
  }

  /** A deviation that is not a number counts as infinite: it must never pass as small. */
  note(quantity: string, deviation: number, tolerance: number, at: string): void {
    const worst = Number.isNaN(deviation) ? Number.POSITIVE_INFINITY : deviation
    const before = this.#checks.get(quantity)
    const count = (before?.count ?? 0) + 1
    const kept = before !== undefined && before.worst >= worst ? before : { worst, at, tolerance }
    this.#checks.set(quantity, { file: this.#file, quantity, ...kept, count })
  }

  absolute(quantity: string, actual: number, expected: number, tolerance: number, at: string): void {
    this.note(quantity, Math.abs(actual - expected), tolerance, at)
  }

  /** Relative to the recorded value, or to `floor` where that is smaller: recorded numbers have nine digits. */
  relative(quantity: string, actual: number, expected: number, tolerance: number, at: string, floor = 1e-3): void {
    this.note(quantity, Math.abs(actual - expected) / Math.max(Math.abs(expected), floor), tolerance, at)
  }

  /** A recorded number or list against ours, as a whole: 0 when it holds, infinite when it does not. */
  holds(quantity: string, ok: boolean, at: string): void {
    this.note(quantity, ok ? 0 : Number.POSITIVE_INFINITY, 0, at)
  }

  get checks(): ReadonlyArray<Check> {
    return [...this.#checks.values()]
  }
}
