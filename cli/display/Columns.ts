/** A table printed line by line as its rows arrive: columns keep their place, and the least important give way first. */
import { type Colour, paint, type Style } from "./Style.ts"

/** @category model */
export interface Column<A> {
  readonly title: string
  /** characters, at least those of the title */
  readonly width: number
  readonly cell: (row: A) => string
  readonly colour?: ((row: A) => Colour | undefined) | undefined
  /** the column with the lowest rank is left out first when there is no room */
  readonly rank: number
}

const gap = "  "

const total = <A>(columns: ReadonlyArray<Column<A>>): number =>
  columns.reduce((sum, column) => sum + column.width, gap.length * Math.max(0, columns.length - 1))

/** The columns that fit, in their order. @category combinators */
export const fitting = <A>(columns: ReadonlyArray<Column<A>>, available: number): ReadonlyArray<Column<A>> => {
  let kept = columns
  while (kept.length > 1 && total(kept) > available) {
    const lowest = Math.min(...kept.map(({ rank }) => rank))
    kept = kept.filter(({ rank }) => rank !== lowest)
  }
  return kept
}

/** @category conversions */
export const header = <A>(columns: ReadonlyArray<Column<A>>, style: Style): string =>
  paint(style, "dim", columns.map(({ title, width }) => title.padStart(width)).join(gap))

/** @category conversions */
export const row = <A>(columns: ReadonlyArray<Column<A>>, style: Style, value: A): string =>
  columns.map(({ cell, colour, width }) => paint(style, colour?.(value), cell(value).padStart(width))).join(gap)
