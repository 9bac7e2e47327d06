/** What an evaluation found, as lines. */
import type { EvalReport } from "../../src/Report.ts"
import { counts, duration, fixed, short } from "./Numbers.ts"

/** A mean and its standard error, which takes two examples or more; in words where nothing counted. @category rendering */
export const score = ({ reward, rollouts }: Pick<EvalReport, "reward" | "rollouts">): string => {
  if (rollouts === 0) return "none of its attempts counts"
  const error = Number.isFinite(reward.standardError) ? ` ± ${fixed(reward.standardError, 3)}` : ""
  return `${fixed(reward.mean, 3)}${error}`
}

/** @category rendering */
export const lines = (report: EvalReport): ReadonlyArray<string> => {
  const { examples, rollouts, metrics, absent } = report
  const measured = Object.entries(metrics).map(([name, value]) => `  ${name}: ${short(value)}`)
  return [
    rollouts === 0
      ? `${report.name}: no reward: ${score(report)}; the last failure: ${report.lastFailure || "none"}`
      : `${report.name}: reward ${score(report)}`,
    `  ${examples} examples, ${rollouts} rollouts, ${duration(report.seconds * 1000)}`,
    ...measured,
    ...(counts(absent) === "" ? [] : [`  absent: ${counts(absent)}`]),
    `  policy: ${report.model}`
  ]
}
