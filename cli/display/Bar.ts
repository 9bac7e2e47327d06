/** The progress bar: how much is done, for how long it has run, how long it will take. */
import { duration } from "./Numbers.ts"
import { paint, type Style } from "./Style.ts"

/** @category model */
export interface Progress {
  readonly done: number
  readonly of: number
  readonly elapsedMs: number
  /** how long the latest steps took, oldest first */
  readonly stepsMs: ReadonlyArray<number>
}

/** From the mean of the last ten steps, so that it follows a run that changes its pace. @category getters */
export const restMs = ({ done, of, stepsMs }: Progress): number | undefined => {
  const recent = stepsMs.slice(-10)
  if (recent.length === 0) return undefined
  return ((of - done) * recent.reduce((sum, ms) => sum + ms, 0)) / recent.length
}

const eighths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"]

const filled = (share: number, width: number, unicode: boolean): string => {
  if (!unicode) return "#".repeat(Math.floor(share * width)).padEnd(width, ".")
  const parts = Math.floor(share * width * 8)
  const text = `${"█".repeat(Math.floor(parts / 8))}${eighths[parts % 8]}`
  return text.padEnd(width, " ")
}

/** One line of at most `columns`. @category rendering */
export const bar = (progress: Progress, columns: number, style: Style): string => {
  const { done, of, elapsedMs } = progress
  const rest = restMs(progress)
  const share = of > 0 ? Math.min(1, done / of) : 0
  const steps = `step ${String(done).padStart(String(of).length)}/${of}`
  const times = [`${duration(elapsedMs)} elapsed`, ...(rest === undefined ? [] : [`${duration(rest)} left`])]
  const [open, close] = style.unicode ? ["▕", "▏"] : ["[", "]"]
  for (const words of [[steps, ...times], [steps, ...times.slice(0, 1)], [steps]]) {
    const text = words.join("  ")
    const width = Math.min(40, columns - text.length - 4)
    if (width < 8) continue
    return `${paint(style, "dim", open)}${paint(style, "green", filled(share, width, style.unicode))}${paint(style, "dim", close)}  ${text}`
  }
  return steps.slice(0, columns)
}
