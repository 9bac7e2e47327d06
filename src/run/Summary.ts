/** What a finished run comes to, for people and programs. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { RunDirectory } from "./Directory.ts"
import * as MetricsFile from "./MetricsFile.ts"

const mean = (values: ReadonlyArray<number>) => values.reduce((a, b) => a + b, 0) / values.length

/** Writes `summary.json`; `begun` is when this part of the run began, in milliseconds. @category encoding */
export const write = (directory: RunDirectory, rewards: ReadonlyArray<number>, begun: number) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const rows = yield* MetricsFile.read(directory.metrics, Number.POSITIVE_INFINITY)
    const steps = rows.at(-1)?.step ?? 0
    // What was not finite is written as null: it is no number, and no 0.
    const last = rows.slice(-3).flatMap(({ mismatch_kl }) => (typeof mismatch_kl === "number" ? [mismatch_kl] : []))
    const summary = {
      steps,
      reward: { first_5: mean(rewards.slice(0, 5)), last_5: mean(rewards.slice(-5)) },
      mismatch_kl_last_3: last.length === 0 ? null : mean(last),
      seconds: ((yield* Clock.currentTimeMillis) - begun) / 1000,
      checkpoint: `${directory.checkpoints}/step_${steps}`,
      next: {
        evaluate: `npx primerl eval ${directory.config} --model ${directory.checkpoints}/step_${steps}`,
        metrics: directory.metrics,
        rollouts: directory.rollouts
      }
    }
    yield* fs.writeFileString(directory.summary, `${JSON.stringify(summary, null, 2)}\n`)
  })
