/** A curve in characters: two by four dots in each, so that eight rows show 32 levels. */
import { fixed, short } from "./Numbers.ts"
import { paint, type Style } from "./Style.ts"

/** @category model */
export interface Curve {
  readonly label: string
  /** in the order of their steps; what is not finite is left out */
  readonly points: ReadonlyArray<{ readonly step: number; readonly value: number }>
  /** last step of the axis */
  readonly steps: number
}

/** bit of each dot of a braille character, by row and column */
const bits = [
  [0x01, 0x08],
  [0x02, 0x10],
  [0x04, 0x20],
  [0x40, 0x80]
]

/** From 0 to 1 for what lies there, so that the axis of a reward never jumps; else what the values span. */
const rangeOf = (values: ReadonlyArray<number>): readonly [number, number] => {
  const low = Math.min(...values)
  const high = Math.max(...values)
  if (low >= 0 && high <= 1) return [0, 1]
  return low === high ? [low - 1, high + 1] : [low, high]
}

/** The mean value of the points in each of `slots` equal parts of the axis. */
const resample = (curve: Curve, slots: number): ReadonlyArray<number | undefined> => {
  const sums = Array.from({ length: slots }, () => ({ sum: 0, count: 0 }))
  for (const { step, value } of curve.points) {
    const slot = curve.steps <= 1 ? 0 : Math.round(((step - 1) / (curve.steps - 1)) * (slots - 1))
    const into = sums[Math.min(Math.max(slot, 0), slots - 1)]!
    into.sum += value
    into.count++
  }
  return sums.map(({ sum, count }) => (count === 0 ? undefined : sum / count))
}

/** Joins neighbouring points by straight lines, so that few steps still make a curve. */
const joined = (values: ReadonlyArray<number | undefined>): ReadonlyArray<number | undefined> => {
  const out = [...values]
  let last = -1
  values.forEach((value, slot) => {
    if (value === undefined) return
    const from = last < 0 ? undefined : values[last]
    if (from !== undefined) {
      for (let between = last + 1; between < slot; between++) {
        out[between] = from + ((value - from) * (between - last)) / (slot - last)
      }
    }
    last = slot
  })
  return out
}

/**
 * The chart as `rows` lines of curve and two of axis, or nothing when there is no room or no point to show.
 *
 * @category rendering
 */
export const chart = (
  input: Curve,
  size: { readonly columns: number; readonly rows: number },
  style: Style
): ReadonlyArray<string> => {
  const curve = { ...input, points: input.points.filter(({ value }) => Number.isFinite(value)) }
  if (curve.points.length === 0 || size.rows < 2) return []
  const [low, high] = rangeOf(curve.points.map(({ value }) => value))
  const write = low === 0 && high === 1 ? (value: number) => fixed(value, 2) : short
  const labels = new Map([
    [0, write(high)],
    [size.rows - 1, write(low)]
  ])
  if (size.rows >= 5 && size.rows % 2 === 1) labels.set((size.rows - 1) / 2, write((low + high) / 2))
  const margin = Math.max(...Array.from(labels.values(), (label) => label.length))
  const width = size.columns - margin - 2
  if (width < 10) return []

  const [across, down] = style.unicode ? [2, 4] : [1, 1]
  const slots = width * across
  const levels = size.rows * down
  const cells = Array.from({ length: size.rows }, () => new Array<number>(width).fill(0))
  joined(resample(curve, slots)).forEach((value, slot) => {
    if (value === undefined) return
    const level = Math.round((1 - (value - low) / (high - low)) * (levels - 1))
    const cell = cells[Math.floor(level / down)]!
    cell[Math.floor(slot / across)]! |= bits[level % down]![slot % across]!
  })
  const draw = (cell: number): string => {
    if (cell === 0) return " "
    return style.unicode ? String.fromCodePoint(0x2800 + cell) : "*"
  }
  const [wall, corner, floor] = style.unicode ? ["┤", "└", "─"] : ["|", "+", "-"]
  const lines = cells.map((row, index) => {
    const label = (labels.get(index) ?? "").padStart(margin)
    return `${paint(style, "dim", `${label} ${wall}`)}${paint(style, "cyan", row.map(draw).join("").trimEnd())}`
  })
  const last = `step ${curve.steps}`
  const under = `1 ${curve.label}`.slice(0, Math.max(1, width - last.length - 1))
  const axis = `${" ".repeat(margin + 1)}${corner}${floor.repeat(width)}`
  const names = `${" ".repeat(margin + 2)}${under}${last.padStart(width - under.length)}`
  return [...lines, paint(style, "dim", axis), paint(style, "dim", names)]
}
