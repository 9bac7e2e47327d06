/** An explanation as a table that people read: neighbours of one fate are one row. */
import {
  type Component,
  componentName,
  components,
  type ExplainedBranch,
  type ExplainedRollout,
  type ExplainedToken,
  type Explanation,
  type Term
} from "./Explanation.ts"

/** How a table is drawn. @category model */
export interface TableOptions {
  /** width of a line; what does not fit is cut from the text; 100 unless given */
  readonly columns?: number | undefined
  /** colours a row by its component; a row that is not trained has none */
  readonly paint?: ((component: Component | undefined, line: string) => string) | undefined
}

interface Row {
  readonly component: Component | undefined
  readonly tokens: string
  readonly role: string
  readonly sampled: string
  readonly text: string
  readonly loss: string
  readonly weight: string
  readonly credit: string
  readonly reason: string
}

type Cell = Exclude<keyof Row, "component">

const titles: Row = {
  component: undefined,
  tokens: "tokens",
  role: "role",
  sampled: "sampled",
  text: "text",
  loss: "loss",
  weight: "weight",
  credit: "credit",
  reason: "why"
}

const order: ReadonlyArray<Cell> = ["tokens", "role", "sampled", "text", "loss", "weight", "credit", "reason"]
const toTheRight: ReadonlyArray<Cell> = ["tokens", "weight", "credit"]

/** Four digits that count, as people write them. */
const short = (value: number): string => String(Number(value.toPrecision(4)))

const signed = (value: number): string => (value > 0 ? `+${short(value)}` : short(value))

/** A reference speaks of every token apart; everything else that differs begins a new row. */
const isSameTerm = (a: Term, b: Term | undefined): boolean =>
  a.component === b?.component &&
  a.weight === b.weight &&
  a.by === b.by &&
  (a.component === "refKl" || a.credit === b.credit)

const isSameFate = (a: ExplainedToken, b: ExplainedToken): boolean =>
  a.message === b.message &&
  a.sampled === b.sampled &&
  a.reason === b.reason &&
  a.terms.length === b.terms.length &&
  a.terms.every((term, i) => isSameTerm(term, b.terms[i]))

/** Neighbouring tokens of one message, one fate and one reason. */
const runs = ({ tokens }: ExplainedBranch): ReadonlyArray<ReadonlyArray<ExplainedToken>> => {
  const found: Array<Array<ExplainedToken>> = []
  for (const token of tokens) {
    const last = found.at(-1)
    if (last !== undefined && isSameFate(last.at(-1)!, token)) last.push(token)
    else found.push([token])
  }
  return found
}

/** What a terminal would act on, and line ends, as escapes. */
const visible = (text: string): string =>
  JSON.stringify(text).replace(/[\u007f-\u009f]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`)

const textOf = (run: ReadonlyArray<ExplainedToken>): string =>
  run[0]!.text === undefined
    ? run.map(({ tokenId }) => tokenId).join(" ")
    : visible(run.map(({ text }) => text).join(""))

const range = (first: number, last: number): string => (first === last ? `${first}` : `${first}-${last}`)

const creditOf = (run: ReadonlyArray<ExplainedToken>, at: number): string => {
  const credits = run.flatMap(({ terms }) => terms[at]?.credit ?? [])
  if (credits.length === 0) return ""
  const low = credits.reduce((a, b) => Math.min(a, b))
  const high = credits.reduce((a, b) => Math.max(a, b))
  return low === high ? signed(low) : `${signed(low)} to ${signed(high)}`
}

/** One row for each component that trains a run of tokens; one row, too, for a run that none trains. */
const rowsOf = (run: ReadonlyArray<ExplainedToken>): ReadonlyArray<Row> => {
  const [first] = run
  const { position, reason, role, sampled, terms } = first!
  const row: Row = {
    component: terms[0]?.component,
    tokens: range(position, run.at(-1)!.position),
    role,
    sampled: sampled ? "yes" : "no",
    text: textOf(run),
    loss: terms[0] === undefined ? "-" : componentName(terms[0].component),
    weight: terms[0] === undefined ? "" : short(terms[0].weight),
    credit: creditOf(run, 0),
    reason
  }
  const others = terms.slice(1).map(
    ({ component, weight }, i): Row => ({
      component,
      tokens: "",
      role: "",
      sampled: "",
      text: "",
      loss: componentName(component),
      weight: short(weight),
      credit: creditOf(run, i + 1),
      reason: ""
    })
  )
  return [row, ...others]
}

const cutTo = (text: string, width: number): string => {
  const letters = Array.from(text)
  return letters.length <= width ? text : `${letters.slice(0, Math.max(0, width - 1)).join("")}…`
}

const lengthOf = (text: string): number => Array.from(text).length

const drawn = (rows: ReadonlyArray<Row>, named: string, { columns = 100, paint = (_, line) => line }: TableOptions) => {
  const header: Row = { ...titles, text: named }
  const all = [header, ...rows]
  const widths = Object.fromEntries(order.map((name) => [name, Math.max(...all.map((row) => lengthOf(row[name])))]))
  const others = order.reduce((sum, name) => (name === "text" ? sum : sum + widths[name]!), 2 + 2 * (order.length - 1))
  widths.text = Math.max(12, Math.min(widths.text!, columns - others))
  const line = (row: Row) =>
    `  ${order
      .map((name) => {
        const cell = cutTo(row[name], widths[name]!)
        const space = " ".repeat(widths[name]! - lengthOf(cell))
        return toTheRight.includes(name) ? `${space}${cell}` : `${cell}${space}`
      })
      .join("  ")}`.trimEnd()
  return [line(header), ...rows.map((row) => paint(row.component, line(row)))]
}

/** One rollout, as lines. @category rendering */
export const rolloutTable = (rollout: ExplainedRollout, options: TableOptions = {}): ReadonlyArray<string> => {
  const { absent, branches, counts, group, id, reward, seat, source } = rollout
  const counted = Object.entries(counts).map(([name, count]) => `${name} ${short(count)}`)
  const facts = [
    `rollout ${id}`,
    ...(reward === undefined ? [] : [`reward ${short(reward)}`]),
    `group ${group}`,
    `source ${source}`,
    `seat ${seat}`,
    ...counted
  ]
  const lines = [facts.join("  ")]
  if (absent !== undefined) lines.push(`  does not count: ${absent}`)
  for (const branch of branches) {
    if (branches.length > 1) lines.push(`  branch ${branch.branch} of ${branches.length}`)
    const named = branch.tokens[0]?.text === undefined ? "ids" : "text"
    lines.push(...drawn(runs(branch).flatMap(rowsOf), named, options))
  }
  return lines
}

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`

/** What each component trains, as lines. @category rendering */
export const totalsTable = ({ algorithm, rollouts, tokens, totals }: Explanation): ReadonlyArray<string> => {
  const absent = rollouts.filter((rollout) => rollout.absent !== undefined).length
  const counting = `${counted(rollouts.length, "rollout")}${absent === 0 ? "" : `, of which ${absent} not counting`}`
  const used = components.filter((component) => totals[component].tokens > 0)
  const width = Math.max(0, ...used.map((component) => String(totals[component].tokens).length))
  return [
    `${algorithm}: ${counting}, ${counted(tokens, "token")}`,
    ...(used.length === 0 ? ["  nothing is trained"] : []),
    ...used.map((component) => {
      const { tokens, weight } = totals[component]
      return `  ${componentName(component).padEnd(6)}  ${String(tokens).padStart(width)} tokens, weights sum to ${short(weight)}`
    })
  ]
}

/** A whole explanation: every rollout, then the totals. @category rendering */
export const table = (explanation: Explanation, options: TableOptions = {}): string =>
  [
    ...explanation.rollouts.map((rollout) => rolloutTable(rollout, options).join("\n")),
    totalsTable(explanation).join("\n"),
    ""
  ].join("\n\n")
