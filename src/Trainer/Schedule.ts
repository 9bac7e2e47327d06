/** The learning rate of a step as a function of how many steps are complete: no state, so a resumed run continues it. */

/** Steps are optimiser steps; `minLr` is the rate at both ends. @category model */
export type Schedule =
  | { readonly type: "constant" }
  | { readonly type: "linear"; readonly warmupSteps: number; readonly decaySteps: number; readonly minLr: number }
  | { readonly type: "cosine"; readonly warmupSteps: number; readonly minLr: number }

/**
 * Learning rate of the step that follows `completed` steps.
 *
 * With W warm-up steps, D decay steps, N = `maxSteps`, k = `completed`, f = minLr / peak (10⁻⁸ when minLr is 0):
 * warm-up (k < W) is peak·(f + (1 − f)·k/W); `linear` then holds the peak until k = N − D and falls to f·peak at
 * k = N − 1; `cosine` is minLr + (peak − minLr)·(1 + cos(π·(k − W)/(N − W)))/2.
 *
 * @category schedules
 */
export const learningRate = (
  schedule: Schedule,
  options: { readonly peak: number; readonly maxSteps: number; readonly completed: number }
): number => {
  const { peak, maxSteps, completed } = options
  if (schedule.type === "constant") return peak
  const { warmupSteps, minLr } = schedule
  const floor = minLr > 0 ? minLr / peak : 1e-8
  if (completed < warmupSteps) return peak * (floor + ((1 - floor) * completed) / warmupSteps)
  if (schedule.type === "cosine") {
    const progress = Math.min((completed - warmupSteps) / (maxSteps - warmupSteps), 1)
    return minLr + ((peak - minLr) * (1 + Math.cos(Math.PI * progress))) / 2
  }
  const decayed = completed - (maxSteps - schedule.decaySteps)
  const last = schedule.decaySteps - 1
  // a decay of one step is the step at the peak from which it would start
  if (decayed <= 0 || last <= 0) return peak
  return peak * (1 + ((floor - 1) * Math.min(decayed, last)) / last)
}
