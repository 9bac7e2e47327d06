/** What an evaluation found, as lines. */
import type { EvalReport } from "../../src/Report.ts"
import { counts, duration, fixed, short } from "./Numbers.ts"

/** @category rendering */
export const lines = (report: EvalReport): ReadonlyArray<string> => {
  const { reward, examples, rollouts, metrics, absent } = report
  const measured = Object.entries(metrics).map(([name, value]) => `  ${name}: ${short(value)}`)
  return [
    rollouts === 0
      ? `${report.name}: no reward: none of its attempts counts; the last failure: ${report.lastFailure || "none"}`
      : `${report.name}: reward ${fixed(reward.mean, 3)} ± ${fixed(reward.standardError, 3)}`,
    `  ${examples} examples, ${rollouts} rollouts, ${duration(report.seconds * 1000)}`,
    ...measured,
    ...(counts(absent) === "" ? [] : [`  absent: ${counts(absent)}`]),
    `  policy: ${report.model}`
  ]
}
