/**
 * Lines at the bottom of a terminal that are drawn over in place. The cursor rests at the end of the last one; every
 * change is one write that overwrites before it erases, so that nothing flickers.
 */
import { cut, width } from "./Style.ts"

const escape = "\u001b["

/** @category constants */
export const hideCursor = `${escape}?25l`
/** @category constants */
export const showCursor = `${escape}?25h`

/** The lines as they were last drawn. @category model */
export type Region = ReadonlyArray<string>

/** @category constants */
export const empty: Region = []

/** Rows that lines take now: a terminal that has become narrower has wrapped what was wider. */
const rowsOf = (region: Region, columns: number): number =>
  region.reduce((sum, line) => sum + Math.max(1, Math.ceil(width(line) / columns)), 0)

/**
 * Prints lines to stay above, then the region anew.
 *
 * @category rendering
 */
export const redraw = (
  before: Region,
  permanent: ReadonlyArray<string>,
  lines: ReadonlyArray<string>,
  columns: number
): { readonly text: string; readonly region: Region } => {
  const rows = rowsOf(before, columns)
  // one column stays free: a full last column would leave the cursor between two rows
  const region = lines.map((line) => cut(line, columns - 1))
  const up = rows > 1 ? `${escape}${rows - 1}A` : ""
  const above = permanent.map((line) => `${line}${escape}K\n`).join("")
  const drawn = region.map((line) => `${line}${escape}K`).join("\n")
  return { text: `${escape}?2026h\r${up}${above}${drawn}${escape}J${escape}?2026l`, region }
}
