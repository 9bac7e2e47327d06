/** One row of `metrics.jsonl` per step. Columns under `time/` and `perf/` are the clock's; all others repeat bit for bit.
 * What is not finite or was not measured is null in the file. */
import type { SftReport, SourceReport, StepReport } from "../Report.ts"

const under = (prefix: string, values: Readonly<Record<string, number>>) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [`${prefix}/${name}`, value]))

/** A source's columns; a run of one source has none of its own, since the step's say it all. */
const ofSource = ({ absent, metrics, name, reward, rollouts, samples, zeroSignal }: SourceReport) =>
  under(`source/${name}`, {
    reward,
    rollouts,
    samples,
    zero_signal: zeroSignal,
    ...under("absent", absent),
    ...under("metrics", metrics)
  })

/** @category conversions */
export const row = (report: StepReport): Readonly<Record<string, number>> => ({
  step: report.step,
  reward: report.reward,
  "loss/total": report.loss.total,
  "loss/rl": report.loss.rl,
  "loss/ce": report.loss.ce,
  "loss/ref_kl": report.loss.refKl,
  ...under("loss", report.lossMetrics),
  mismatch_kl: report.mismatchKl,
  entropy: report.entropy,
  "optim/grad_norm": report.gradNorm,
  "optim/lr": report.learningRate,
  "optim/applied": report.optimizerApplied ? 1 : 0,
  trainable_share: report.trainableShare,
  "staleness/mean": report.staleness.mean,
  "staleness/max": report.staleness.max,
  "batch/rollouts": report.rollouts,
  "batch/samples": report.samples,
  "batch/tokens": report.tokens,
  "batch/truncated": report.truncated,
  "batch/dropped": report.dropped,
  "batch/zero_signal": report.zeroSignal,
  ...under("absent", report.absent),
  ...under("metrics", report.metrics),
  ...(report.sources.length > 1 ? Object.assign({}, ...report.sources.map(ofSource)) : {}),
  ...Object.fromEntries(report.evaluations.map(({ name, reward }) => [`eval/${name}/reward`, reward.mean])),
  "time/step": report.seconds,
  "perf/tokens_per_second": report.tokensPerSecond
})

/** The same for supervised fine-tuning. @category conversions */
export const sftRow = (report: SftReport): Readonly<Record<string, number>> => ({
  step: report.step,
  "loss/ce": report.loss,
  "optim/grad_norm": report.gradNorm,
  "optim/lr": report.learningRate,
  "optim/applied": report.optimizerApplied ? 1 : 0,
  "batch/tokens": report.tokens,
  "batch/truncated": report.truncated,
  "batch/untrained": report.untrained,
  "time/step": report.seconds,
  "perf/tokens_per_second": report.tokensPerSecond
})
