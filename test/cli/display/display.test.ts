import { describe, expect, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { bar, restMs } from "../../../cli/display/Bar.ts"
import { chart } from "../../../cli/display/Chart.ts"
import { liveLines, type State, stepLines } from "../../../cli/display/Display.ts"
import * as LiveRegion from "../../../cli/display/LiveRegion.ts"
import { duration, large, short, signed } from "../../../cli/display/Numbers.ts"
import { rise } from "../../../cli/display/Rise.ts"
import { show } from "../../../cli/display/Show.ts"
import { cut, paint, plain, width } from "../../../cli/display/Style.ts"
import { display } from "../../../cli/display/TrainDisplay.ts"
import { abilities, Output } from "../../../cli/Output.ts"
import type { StepReport } from "../../../src/Report.ts"
import { row } from "../../../src/run/Metrics.ts"
import { type Kept, output, stepReport } from "../kit.ts"

const bare = { colour: false, unicode: true }
const ascii = { colour: false, unicode: false }
const coloured = { colour: true, unicode: true }
const train = display({ directory: "/runs/one", rewards: [] })

describe("numbers", () => {
  it("stay short and never turn what is not finite into a number", () => {
    expect([0, 0.0123, 1.5e-6, 12.5, 12345, Number.NaN, Number.POSITIVE_INFINITY].map(short)).toEqual([
      "0.0000",
      "0.0123",
      "1.5e-6",
      "12.5000",
      "1.2e+4",
      "nan",
      "inf"
    ])
    expect([950, 1234, 12345, 123456, 4.56e6].map(large)).toEqual(["950", "1.23k", "12.3k", "123k", "4.56M"])
    expect([0, -0.0001, 0.25, -0.25].map((x) => signed(x, 3))).toEqual(["+0.000", "+0.000", "+0.250", "-0.250"])
    expect([400, 67_000, 3_723_000].map(duration)).toEqual(["0:00", "1:07", "1:02:03"])
  })
})

describe("the sources of a mixed run", () => {
  const none = { samples: 0, zeroSignal: 0, absent: {}, metrics: {} }
  const mixed = (step: number) =>
    stepReport(step, {
      sources: [
        { ...none, name: "math-env", reward: step / 10, rollouts: 24 },
        { ...none, name: "code", reward: Number.NaN, rollouts: 0, absent: { "Failed/tools": 8 } }
      ]
    })
  const lines = ["    math-env  0.300  24 rollouts", "    code          -  0 rollouts; absent: Failed/tools 8"]

  it("have a line each, drawn over while the run goes on", () => {
    const state: State<StepReport> = { reports: [mixed(2), mixed(3)], steps: 8, startedMs: 0, nowMs: 0 }
    const shown = liveLines(train, state, { columns: 100, rows: 24 }, bare)
    expect(shown.slice(0, 2)).toEqual(lines)
    for (const rows of [3, 5, 8, 12]) {
      expect(liveLines(train, state, { columns: 100, rows }, bare).length).toBeLessThan(rows)
    }
    const one = stepReport(3, { sources: mixed(3).sources.slice(0, 1) })
    expect(liveLines(train, { ...state, reports: [one] }, { columns: 100, rows: 5 }, bare)).toHaveLength(1)
  })

  it.effect("stand below each step in plain output, and at the end with how they went", () =>
    Effect.gen(function* () {
      const kept: Kept = { out: "", error: "" }
      yield* show(train, 8, Stream.make(mixed(2), mixed(3))).pipe(Effect.provideService(Output, output(kept)))
      expect(kept.out).toContain(`${lines.join("\n")}\n`)
      expect(kept.out).toContain("reward of math-env: mean of 2 steps 0.250\n")
      expect(kept.out).not.toContain("reward of code")
    })
  )

  it("have columns of their own in the metrics", () => {
    const columns = Object.keys(row(mixed(3))).filter((name) => name.startsWith("source/"))
    expect(columns).toContain("source/math-env/reward")
    expect(columns).toContain("source/code/absent/Failed/tools")
    expect(Object.keys(row(stepReport(3, { sources: mixed(3).sources.slice(0, 1) }))).join()).not.toContain("source/")
  })
})

describe("a step's line", () => {
  it("stands under its header", () => {
    const { header, lines } = stepLines(train, [stepReport(3)], 120, bare)
    expect(header).toBe("step  reward  change      loss        rl  mismatch  entropy  trained   stale   tok/s     sec")
    expect(lines).toEqual([
      " 3/8   0.300  +0.100   -0.0123   -0.0123    1.5e-6    1.250      43%   0.5/1   12.3k    1.25"
    ])
    expect(header).toHaveLength(lines[0]!.length)
  })

  it("gives room to what matters when the terminal is narrow", () => {
    for (const columns of [20, 30, 40, 60, 80, 100]) {
      const { header, lines } = stepLines(train, [stepReport(3)], columns, bare)
      expect(width(lines[0]!)).toBeLessThan(columns)
      expect(header).toContain("reward")
      expect(header.includes("mismatch")).toBe(columns >= 40)
    }
  })

  it("shows a loss part once it was there", () => {
    const mixed = stepReport(1, { loss: { total: 1, rl: 0.5, ce: 0.5, refKl: 0 } })
    const { header } = stepLines(train, [mixed, stepReport(2)], 120, bare)
    expect(header).toContain(" ce ")
    expect(header).not.toContain("ref_kl")
  })

  it("says what was unusual, below when there is no room beside", () => {
    const odd = stepReport(1, { absent: { Failed: 2, Late: 0 }, gradNorm: Number.NaN, optimizerApplied: false })
    const remark = "weights unchanged: the gradient was not finite; absent: Failed 2"
    expect(stepLines(train, [odd], 200, bare).lines[0]).toMatch(new RegExp(`  ${remark}$`))
    expect(stepLines(train, [odd], 80, bare).lines[1]).toBe(`  ${remark}`)
    const idle = stepReport(1, { zeroSignal: 64, samples: 0, tokens: 0, optimizerApplied: false })
    expect(stepLines(train, [idle], 200, bare).lines[0]).toMatch(/ {2}weights unchanged: every credit is 0$/)
    const huge = stepReport(1, { learningRate: 1e300, optimizerApplied: false })
    expect(stepLines(train, [huge], 200, bare).lines[0]).toMatch(/ {2}weights unchanged: the step was not finite$/)
  })

  it("has no numbers of a training that did not take place", () => {
    const idle = stepReport(3, { zeroSignal: 64, samples: 0, tokens: 0, optimizerApplied: false, entropy: 0 })
    expect(stepLines(train, [idle], 200, bare).lines[0]).toMatch(/^ 3\/8 {3}0\.300 {2}\+0\.100( +-){5} {2}/)
  })
})

describe("the last line of training", () => {
  it("compares the first five steps with the last five, and of fewer says one mean", () => {
    expect(rise("reward", [0.1, 0.1, 0.1, 0.1, 0.1, 1, 1, 1, 1, 1], 3)).toEqual([
      "reward: first 5 steps 0.100, last 5 steps 1.000"
    ])
    expect(rise("reward", [0, 1, 1, 1, 1, 1], 3)).toEqual(["reward: first 5 steps 0.800, last 5 steps 1.000"])
    expect(rise("reward", [0.1, 0.2], 3)).toEqual(["reward: mean of 2 steps 0.150"])
    expect(rise("loss", [0.1], 4)).toEqual(["loss: 0.1000 in one step"])
    expect(rise("reward", [], 3)).toEqual([])
  })
})

describe("the chart", () => {
  const points = (values: ReadonlyArray<number>) => values.map((value, index) => ({ step: index + 1, value }))

  it("draws a rise from the lower left to the upper right on an axis from 0 to 1", () => {
    const curve = { label: "reward", points: points([0, 0.25, 0.5, 0.75, 1]), steps: 5 }
    const drawn = chart(curve, { columns: 18, rows: 5 }, ascii)
    expect(drawn.map((line) => line.slice(0, 6))).toEqual([
      "1.00 |",
      "     |",
      "0.50 |",
      "     |",
      "0.00 |",
      "     +",
      "      "
    ])
    const heights = Array.from({ length: 12 }, (_, column) =>
      drawn.slice(0, 5).findIndex((line) => line[6 + column] === "*")
    )
    expect(heights[0]).toBe(4)
    expect(heights[11]).toBe(0)
    expect(heights).toEqual(heights.toSorted((a, b) => b - a))
  })

  it("fills only the part of the axis that has been reached", () => {
    const [half] = chart({ label: "", points: points([1, 1]), steps: 4 }, { columns: 36, rows: 3 }, bare)
    expect(width(half!)).toBeLessThan(24)
  })

  it("leaves out what is not finite, and is nothing without points or room", () => {
    const size = { columns: 40, rows: 5 }
    expect(chart({ label: "", points: points([Number.NaN]), steps: 4 }, size, bare)).toEqual([])
    expect(chart({ label: "", points: points([1]), steps: 4 }, { columns: 12, rows: 5 }, bare)).toEqual([])
    const lines = chart({ label: "loss", points: points([3, Number.NaN, 5]), steps: 3 }, size, bare)
    expect(lines[0]).toContain("5.0000")
    expect(lines[4]).toContain("3.0000")
  })

  it("is as wide as it may be and no wider, for any number of steps", () => {
    for (const steps of [1, 2, 50, 1000]) {
      const curve = { label: "reward", points: points(Array.from({ length: steps }, (_, i) => i % 3)), steps }
      for (const line of chart(curve, { columns: 60, rows: 8 }, coloured)) expect(width(line)).toBeLessThanOrEqual(60)
    }
  })
})

describe("the bar", () => {
  const progress = { done: 5, of: 10, elapsedMs: 65_000, stepsMs: [100_000, ...Array<number>(10).fill(2000)] }

  it("estimates the rest from the latest steps", () => {
    expect(restMs(progress)).toBe(10_000)
    expect(restMs({ ...progress, stepsMs: [] })).toBeUndefined()
    expect(bar(progress, 80, ascii)).toBe(
      "[####################....................]  step  5/10  1:05 elapsed  0:10 left"
    )
  })

  it("shortens itself to any width", () => {
    for (let columns = 1; columns < 100; columns++) {
      expect(width(bar(progress, columns, coloured))).toBeLessThanOrEqual(columns)
    }
  })
})

describe("text on a terminal", () => {
  it("is cut by what is seen, with its colours closed", () => {
    const text = `${paint(coloured, "red", "abc")}def`
    expect(plain(cut(text, 4))).toBe("abcd")
    expect(cut(paint(coloured, "red", "abc"), 2)).toBe("\u001b[31mab\u001b[0m")
    expect(cut("abc", 3)).toBe("abc")
  })

  it("is drawn over row by row, in one write, also where a narrower terminal has wrapped it", () => {
    const first = LiveRegion.redraw(LiveRegion.empty, [], ["x".repeat(50), "bar"], 100)
    expect(first.text).toBe(`\u001b[?2026h\r${"x".repeat(50)}\u001b[K\nbar\u001b[K\u001b[J\u001b[?2026l`)
    expect(LiveRegion.redraw(first.region, ["line"], ["bar"], 100).text).toContain(
      "\r\u001b[1Aline\u001b[K\nbar\u001b[K\u001b[J"
    )
    expect(LiveRegion.redraw(first.region, [], [], 20).text).toContain("\r\u001b[3A")
  })

  it("follows the environment's conventions", () => {
    expect(abilities({ TERM: "xterm" }, true)).toEqual({ live: true, colour: true, unicode: true })
    expect(abilities({ TERM: "xterm", NO_COLOR: "1" }, true)).toMatchObject({ live: true, colour: false })
    expect(abilities({ TERM: "dumb" }, true)).toMatchObject({ live: false, colour: false })
    expect(abilities({ TERM: "xterm" }, false)).toMatchObject({ live: false, colour: false })
    expect(abilities({ TERM: "xterm", LC_ALL: "C" }, true)).toMatchObject({ unicode: false })
  })

  it("leaves the chart out of a low or narrow terminal", () => {
    const state: State<StepReport> = { reports: [stepReport(1), stepReport(2)], steps: 8, startedMs: 0, nowMs: 0 }
    expect(liveLines(train, state, { columns: 100, rows: 24 }, bare).length).toBeGreaterThan(5)
    expect(liveLines(train, state, { columns: 100, rows: 10 }, bare)).toHaveLength(1)
    expect(liveLines(train, state, { columns: 30, rows: 24 }, bare)).toHaveLength(1)
  })
})

describe("a run on a terminal", () => {
  /** The screen after text was written to it: enough of a terminal for what is used here. */
  const screen = (text: string): ReadonlyArray<string> => {
    const rows = [""]
    let [row, column] = [0, 0]
    // biome-ignore lint/suspicious/noControlCharactersInRegex: terminals speak ESC
    for (const [token, parameter, command] of text.matchAll(/\u001b\[(\??[\d;]*)([A-Za-z])|[\s\S]/g)) {
      if (command === "A") row -= Number(parameter)
      else if (command === "K") rows[row] = rows[row]!.slice(0, column)
      else if (command === "J") {
        rows[row] = rows[row]!.slice(0, column)
        rows.length = row + 1
      } else if (command !== undefined) continue
      else if (token === "\r") column = 0
      else if (token === "\n") {
        row++
        column = 0
        if (rows.length === row) rows.push("")
      } else {
        rows[row] = rows[row]!.slice(0, column).padEnd(column) + token + rows[row]!.slice(column + 1)
        column++
      }
    }
    return rows
  }

  const live = (kept: Kept) => output(kept, { live: true })

  it.effect("ends with its steps, its chart and its last line, and the cursor visible", () =>
    Effect.gen(function* () {
      const kept: Kept = { out: "", error: "" }
      const reports = Stream.range(1, 8).pipe(Stream.map((step) => stepReport(step)))
      yield* show(train, 8, reports).pipe(Effect.provideService(Output, live(kept)))
      const rows = screen(kept.out)
      expect(rows[0]).toContain("reward")
      expect(rows.slice(1, 9).map((row) => row.trim().slice(0, 3))).toEqual([
        "1/8",
        "2/8",
        "3/8",
        "4/8",
        "5/8",
        "6/8",
        "7/8",
        "8/8"
      ])
      expect(rows.at(-2)).toBe("reward: first 5 steps 0.300, last 5 steps 0.600")
      expect(rows.at(-1)).toBe("")
      expect(rows.filter((row) => row.includes("elapsed"))).toEqual([])
      expect(kept.out.endsWith(LiveRegion.showCursor)).toBe(true)
    })
  )

  it.effect("moves its clock between steps, and cleans up when it is interrupted", () =>
    Effect.gen(function* () {
      const kept: Kept = { out: "", error: "" }
      const begun = yield* Deferred.make<void>()
      const reports = Stream.concat(
        Stream.make(stepReport(1)),
        Stream.fromEffect(Effect.zipRight(Deferred.succeed(begun, undefined), Effect.never))
      )
      const fiber = yield* Effect.fork(show(train, 8, reports).pipe(Effect.provideService(Output, live(kept))))
      yield* Deferred.await(begun)
      yield* TestClock.adjust("65 seconds")
      expect(screen(kept.out).at(-1)).toContain("step 1/8  1:05 elapsed")
      yield* Fiber.interrupt(fiber)
      const rows = screen(kept.out)
      expect(rows.filter((row) => row !== "").at(-1)).toContain("1/8")
      expect(rows.join("\n")).not.toContain("elapsed")
      expect(kept.out.endsWith(LiveRegion.showCursor)).toBe(true)
    })
  )
})
