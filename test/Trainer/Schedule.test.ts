import { describe, expect, it } from "vitest"
import { learningRate, type Schedule } from "../../src/Trainer/Schedule.ts"

const rates = (schedule: Schedule, peak: number, maxSteps: number) =>
  Array.from({ length: maxSteps }, (_, completed) => learningRate(schedule, { peak, maxSteps, completed }))

const close = (actual: ReadonlyArray<number>, expected: ReadonlyArray<number>) => {
  expect(actual).toHaveLength(expected.length)
  actual.forEach((rate, index) => {
    expect(Math.abs(rate - expected[index]!)).toBeLessThanOrEqual(1e-6 * Math.max(expected[index]!, 1e-12))
  })
}

describe("the learning rate", () => {
  it("constant stays", () => {
    expect(rates({ type: "constant" }, 3, 3)).toEqual([3, 3, 3])
  })

  it("linear warms up, holds and decays to its floor", () => {
    const schedule: Schedule = { type: "linear", warmupSteps: 2, decaySteps: 3, minLr: 1e-4 }
    close(rates(schedule, 1e-3, 8), [1e-4, 5.5e-4, 1e-3, 1e-3, 1e-3, 1e-3, 5.5e-4, 1e-4])
  })

  it("linear without a floor starts and ends at a hundred-millionth of the peak", () => {
    const all = rates({ type: "linear", warmupSteps: 10, decaySteps: 10, minLr: 0 }, 1e-6, 100)
    close(
      [0, 90, 99].map((k) => all[k]!),
      [1e-14, 1e-6, 1e-14]
    )
    expect(all[1]).toBeCloseTo(1e-7, 12)
    expect(all[9]).toBeCloseTo(9e-7, 12)
    expect(all[91]).toBeCloseTo(8.889e-7, 10)
  })

  it("a decay of one step never falls", () => {
    expect(rates({ type: "linear", warmupSteps: 0, decaySteps: 1, minLr: 0 }, 1, 3)).toEqual([1, 1, 1])
  })

  it("cosine follows half a wave and stops just above its floor", () => {
    close(rates({ type: "cosine", warmupSteps: 0, minLr: 0 }, 1, 4), [1, 0.853553390593, 0.5, 0.146446609407])
    const warm: Schedule = { type: "cosine", warmupSteps: 2, minLr: 0.1 }
    close(rates(warm, 1, 6), [0.1, 0.55, 1, 0.868198051534, 0.55, 0.231801948466])
  })

  it("CKPT-06: a run resumed at step 50 sees the rates of the run that was not interrupted", () => {
    const schedule: Schedule = { type: "cosine", warmupSteps: 10, minLr: 0 }
    const resumed = Array.from({ length: 50 }, (_, index) =>
      learningRate(schedule, { peak: 1, maxSteps: 100, completed: 50 + index })
    )
    expect(resumed).toEqual(rates(schedule, 1, 100).slice(50))
    expect(resumed[0]).toBeLessThan(1)
  })
})
