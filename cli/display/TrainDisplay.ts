/** What a training step shows. */
import type { StepReport } from "../../src/Report.ts"
import type { Column } from "./Columns.ts"
import type { Display } from "./Display.ts"
import { score } from "./EvalText.ts"
import { counts, fixed, large, short, signed } from "./Numbers.ts"
import { quoted, shorter } from "./Place.ts"
import { rise } from "./Rise.ts"

type Reports = ReadonlyArray<StepReport>

const column = (
  title: string,
  width: number,
  rank: number,
  cell: (report: StepReport) => string,
  colour?: Column<StepReport>["colour"]
): Column<StepReport> => ({ title, width, rank, cell, colour })

/** A step without signal trains nothing: there is no number to show. */
const trained =
  (cell: (report: StepReport) => string) =>
  (report: StepReport): string =>
    report.tokens === 0 ? "-" : cell(report)

const part = (name: "rl" | "ce" | "refKl", title: string, rank: number) =>
  column(
    title,
    8,
    rank,
    trained(({ loss }) => short(loss[name]))
  )

const used = (reports: Reports, name: "rl" | "ce" | "refKl"): boolean =>
  reports.some(({ loss }) => loss[name] !== 0 && !Number.isNaN(loss[name]))

const columns = (reports: Reports): ReadonlyArray<Column<StepReport>> => {
  const steps = String(reports.at(-1)?.steps ?? 0)
  return [
    column("step", Math.max(4, 2 * steps.length + 1), 100, ({ step }) => `${step}/${steps}`),
    column("reward", 6, 99, ({ reward }) => fixed(reward, 3)),
    column(
      "change",
      6,
      90,
      ({ rewardChange }) => (Number.isNaN(rewardChange) ? "-" : signed(rewardChange, 3)),
      ({ rewardChange }) => (rewardChange > 0 ? "green" : rewardChange < 0 ? "red" : undefined)
    ),
    column(
      "loss",
      8,
      70,
      trained(({ loss }) => short(loss.total))
    ),
    part("rl", "rl", 20),
    ...(used(reports, "ce") ? [part("ce", "ce", 31)] : []),
    ...(used(reports, "refKl") ? [part("refKl", "ref_kl", 32)] : []),
    column(
      "mismatch",
      8,
      80,
      trained(({ mismatchKl }) => short(mismatchKl))
    ),
    column(
      "entropy",
      7,
      60,
      trained(({ entropy }) => fixed(entropy, 3))
    ),
    column(
      "trained",
      7,
      30,
      trained(({ trainableShare }) => `${fixed(100 * trainableShare, 0)}%`)
    ),
    column("stale", 6, 40, ({ staleness }) => `${fixed(staleness.mean, 1)}/${fixed(staleness.max, 0)}`),
    column("tok/s", 6, 50, ({ tokensPerSecond }) => large(tokensPerSecond)),
    column("sec", 6, 65, ({ seconds }) => fixed(seconds, seconds < 100 ? 2 : 0))
  ]
}

/** Why the first of them; the rest is in the run's rollouts. */
const because = (words: string): string => {
  const [line = ""] = words.split("\n")
  return line.length > 100 ? `${line.slice(0, 99)}…` : line
}

const remark = ({
  absent,
  evaluations,
  firstAbsences,
  gradNorm,
  optimizerApplied,
  tokens,
  zeroSignal,
  rollouts
}: StepReport): string =>
  [
    optimizerApplied || tokens === 0
      ? ""
      : `weights unchanged: ${Number.isFinite(gradNorm) ? "the step" : "the gradient"} was not finite`,
    rollouts > 0 && zeroSignal === rollouts ? "weights unchanged: every credit is 0" : "",
    ...evaluations.map((one) => `eval ${one.name}: ${score(one)}`),
    counts(absent) === "" ? "" : `absent: ${counts(absent)}`,
    ...Object.values(firstAbsences).map(because)
  ]
    .filter((text) => text !== "")
    .join("; ")

/** A line for each source, where there are several: the mean over all of them says little. */
const parts = ({ sources }: StepReport): ReadonlyArray<string> => {
  if (sources.length < 2) return []
  const names = Math.max(...sources.map(({ name }) => name.length))
  return sources.map(({ absent, name, reward, rollouts }) => {
    const gone = counts(absent)
    const many = `${rollouts} rollout${rollouts === 1 ? "" : "s"}`
    const value = Number.isNaN(reward) ? "    -" : fixed(reward, 3)
    return `    ${name.padEnd(names)}  ${value}  ${many}${gone === "" ? "" : `; absent: ${gone}`}`
  })
}

/** How each of several sources went. */
const bySource = (reports: Reports): ReadonlyArray<string> => {
  const sources = reports[0]?.sources ?? []
  if (sources.length < 2) return []
  return sources.flatMap(({ name }, index) => {
    const rewards = reports.flatMap(({ sources }) => {
      const reward = sources[index]?.reward ?? Number.NaN
      return Number.isNaN(reward) ? [] : [reward]
    })
    return rise(`reward of ${name}`, rewards, 3)
  })
}

/** Where to look next, once the last step is done. */
const next = (directory: string, last: StepReport | undefined): ReadonlyArray<string> => {
  if (last === undefined || last.step < last.steps) return []
  const at = (path: string) => quoted(shorter(`${directory}/${path}`))
  const policy = at(`checkpoints/step_${last.step}`)
  return [
    `policy:   ${policy}`,
    `evaluate: npx primerl eval ${at("config.toml")} --model ${policy}`,
    `rollouts: ${at("rollouts")}`
  ]
}

/** @category model */
export interface Past {
  /** the run's folder */
  readonly directory: string
  /** rewards of the steps that an earlier part of the run has done */
  readonly rewards: ReadonlyArray<number>
}

/** @category rendering */
export const display = ({ directory, rewards }: Past): Display<StepReport> => ({
  columns,
  remark,
  parts,
  curve: { label: "reward", value: ({ reward }) => reward, before: rewards },
  ending: (reports) => [
    ...next(directory, reports.at(-1)),
    ...bySource(reports),
    ...rise("reward", [...rewards, ...reports.map(({ reward }) => reward)], 3)
  ]
})
