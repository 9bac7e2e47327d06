/** What a step of supervised fine-tuning shows. */
import type { SftReport } from "../../src/Report.ts"
import type { Column } from "./Columns.ts"
import type { Display } from "./Display.ts"
import { fixed, large, short } from "./Numbers.ts"
import { rise } from "./Rise.ts"

type Reports = ReadonlyArray<SftReport>

const columns = (reports: Reports): ReadonlyArray<Column<SftReport>> => {
  const steps = String(reports.at(-1)?.steps ?? 0)
  return [
    { title: "step", width: Math.max(4, 2 * steps.length + 1), rank: 100, cell: ({ step }) => `${step}/${steps}` },
    { title: "loss", width: 8, rank: 99, cell: ({ loss }) => short(loss) },
    { title: "grad norm", width: 9, rank: 60, cell: ({ gradNorm }) => short(gradNorm) },
    { title: "lr", width: 8, rank: 50, cell: ({ learningRate }) => short(learningRate) },
    { title: "tokens", width: 7, rank: 40, cell: ({ tokens }) => large(tokens) },
    { title: "tok/s", width: 7, rank: 70, cell: ({ tokensPerSecond }) => large(tokensPerSecond) },
    { title: "sec", width: 6, rank: 80, cell: ({ seconds }) => fixed(seconds, seconds < 100 ? 2 : 0) }
  ]
}

const remark = ({ gradNorm, loss, optimizerApplied, truncated, untrained }: SftReport): string =>
  [
    Number.isFinite(loss) ? "" : "the loss is not finite",
    optimizerApplied
      ? ""
      : `weights unchanged: ${Number.isFinite(gradNorm) ? "the step" : "the gradient"} was not finite`,
    untrained === 0 ? "" : `${untrained} without an assistant's token`,
    truncated === 0 ? "" : `${truncated} cut at seq_len`
  ]
    .filter((text) => text !== "")
    .join("; ")

/** @category rendering */
export const display: Display<SftReport> = {
  columns,
  remark,
  curve: { label: "loss", value: ({ loss }) => loss, before: [] },
  ending: (reports) =>
    rise(
      "loss",
      reports.map(({ loss }) => loss),
      4
    )
}
