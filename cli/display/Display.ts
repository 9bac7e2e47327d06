/** What is shown of a run that reports step by step: from its reports to lines, without any effect. */
import { bar } from "./Bar.ts"
import { chart } from "./Chart.ts"
import { type Column, fitting, header, row } from "./Columns.ts"
import { cut, paint, type Style, width } from "./Style.ts"

/** @category model */
export interface Step {
  readonly step: number
  readonly steps: number
  readonly seconds: number
}

/** @category model */
export interface Display<A extends Step> {
  /** the columns worth showing, given all reports so far */
  readonly columns: (reports: ReadonlyArray<A>) => ReadonlyArray<Column<A>>
  /** a step's parts, one line each: below its line in plain output, kept up to date where lines are drawn over */
  readonly parts?: ((report: A) => ReadonlyArray<string>) | undefined
  /** what is unusual of a step, in words after its line */
  readonly remark: (report: A) => string
  readonly curve: {
    readonly label: string
    readonly value: (report: A) => number
    /** values of the steps that were done before the first report */
    readonly before: ReadonlyArray<number>
  }
  /** printed last */
  readonly ending: (reports: ReadonlyArray<A>) => ReadonlyArray<string>
}

/** @category model */
export interface State<A extends Step> {
  readonly reports: ReadonlyArray<A>
  /** steps of the whole run, known before the first report */
  readonly steps: number
  readonly startedMs: number
  readonly nowMs: number
}

/** @category model */
export interface Size {
  readonly columns: number
  readonly rows: number
}

/** The header, and the newest report as a line; a remark without room beside it takes a line of its own. @category rendering */
export const stepLines = <A extends Step>(
  display: Display<A>,
  reports: ReadonlyArray<A>,
  columns: number,
  style: Style
): { readonly header: string; readonly lines: ReadonlyArray<string> } => {
  const report = reports.at(-1)!
  const shown = fitting(display.columns(reports), columns - 1)
  const line = row(shown, style, report)
  const text = display.remark(report)
  const remark = `  ${paint(style, "yellow", text)}`
  const beside = width(line) + width(remark) < columns
  const lines = text === "" ? [line] : beside ? [line + remark] : [line, remark]
  return { header: header(shown, style), lines: lines.map((line) => cut(line, columns - 1)) }
}

const curveOf = <A extends Step>(display: Display<A>, { reports, steps }: State<A>) => ({
  label: display.curve.label,
  points: [
    ...display.curve.before.map((value, index) => ({ step: index + 1, value })),
    ...reports.map((report) => ({ step: report.step, value: display.curve.value(report) }))
  ],
  steps: reports.at(-1)?.steps ?? steps
})

const chartRows = (rows: number): number => Math.min(9, rows - 8)

/** The chart alone, as it stays when the run has ended. @category rendering */
export const chartLines = <A extends Step>(
  display: Display<A>,
  state: State<A>,
  size: Size,
  style: Style
): ReadonlyArray<string> => {
  const columns = Math.min(size.columns - 1, 100)
  if (columns < 40 || chartRows(size.rows) < 3) return []
  return chart(curveOf(display, state), { columns, rows: chartRows(size.rows) }, style)
}

/** The lines that are drawn over while the run goes on. @category rendering */
export const liveLines = <A extends Step>(
  display: Display<A>,
  state: State<A>,
  size: Size,
  style: Style
): ReadonlyArray<string> => {
  const last = state.reports.at(-1)
  const progress = {
    done: last?.step ?? display.curve.before.length,
    of: last?.steps ?? state.steps,
    elapsedMs: state.nowMs - state.startedMs,
    stepsMs: state.reports.map(({ seconds }) => seconds * 1000)
  }
  const curve = chartLines(display, state, size, style)
  // As many as there is room for: what is drawn over must never be higher than the terminal.
  const room = Math.max(0, size.rows - 4 - curve.length)
  const parts = (last === undefined ? [] : (display.parts?.(last) ?? [])).slice(0, room)
  return [
    ...parts.map((line) => paint(style, "dim", cut(line, size.columns - 1))),
    ...(curve.length === 0 ? [] : ["", ...curve]),
    bar(progress, size.columns - 1, style)
  ]
}
