/** Explanations as a terminal shows them. */
import type { Component, ExplainedRollout, Explanation } from "../../src/testing/Explanation.ts"
import { rolloutTable, totalsTable } from "../../src/testing/table.ts"
import { type Colour, paint, type Style } from "./Style.ts"

const colours: Readonly<Record<Component, Colour>> = { rl: "green", ce: "yellow", refKl: "cyan" }

/** One rollout with an empty line behind it. @category rendering */
export const rollout = (one: ExplainedRollout, style: Style, columns: number): string => {
  const lines = rolloutTable(one, {
    columns,
    paint: (component, line) => paint(style, component === undefined ? "dim" : colours[component], line)
  })
  return `${[paint(style, "bold", lines[0]!), ...lines.slice(1)].join("\n")}\n\n`
}

/** What each component trains. @category rendering */
export const totals = (explanation: Explanation): string => `${totalsTable(explanation).join("\n")}\n`
