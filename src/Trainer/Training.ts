/** One optimiser step over a packed batch, the same for the engine's weights and a mock's. */
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import type { MicroBatch, PackedBatch } from "../MicroBatch.ts"
import type { NativeLossReport, OptimizerReport, OptimizerStep, WeightSnapshot } from "./Native.ts"
import { PackedLoss } from "./PackedLoss.ts"
import type { RlLoss } from "./RlLoss.ts"
import * as Schedule from "./Schedule.ts"
import * as StepMetrics from "./StepMetrics.ts"
import { TrainerError, type TrainerService, type TrainReport } from "./Trainer.ts"

/** What a step does to the weights that it trains. @category model */
export interface Weights {
  readonly zeroGradients: Effect.Effect<void, Failure>
  readonly optimizerStep: (step: OptimizerStep) => Effect.Effect<OptimizerReport, Failure>
  readonly snapshot: Effect.Effect<WeightSnapshot, Failure>
  readonly save: (directory: string) => Effect.Effect<void, Failure>
  readonly restore: (directory: string) => Effect.Effect<void, Failure>
}
interface Failure {
  readonly message: string
}

/** @category model */
export interface Options {
  readonly loss: RlLoss
  /** peak of the schedule */
  readonly learningRate: number
  readonly schedule: Schedule.Schedule
  /** steps of the whole run */
  readonly steps: number
  readonly beta1: number
  readonly beta2: number
  readonly eps: number
  readonly weightDecay: number
  /** largest global norm of the gradient; undefined does not clip */
  readonly maxGradNorm: number | undefined
  /** skipped steps in a row after which training stops (3) */
  readonly maxSkippedSteps?: number | undefined
}

const failed = (operation: TrainerError["operation"]) => (cause: Failure) =>
  new TrainerError({ operation, reason: cause.message })

const why = ({ gradNorm }: OptimizerReport, learningRate: number) =>
  Number.isFinite(gradNorm)
    ? `a learning rate of ${learningRate} makes a step that float32 cannot hold`
    : "the gradient was not finite"

/** @category constructors */
export const make = (weights: Weights, options: Options): Effect.Effect<TrainerService, never, PackedLoss> =>
  Effect.gen(function* () {
    const { loss, maxSkippedSteps = 3, schedule, steps } = options
    const packedLoss = yield* PackedLoss
    const skipped = yield* Ref.make(0)

    const accumulate = (batches: ReadonlyArray<MicroBatch>, counts: PackedBatch["counts"]) =>
      Effect.gen(function* () {
        const sums = { rl: 0, ce: 0, refKl: 0 }
        const metrics = StepMetrics.empty()
        for (const batch of batches) {
          const report: NativeLossReport = yield* packedLoss.forwardBackward(batch, counts, loss)
          sums.rl += report.rl
          sums.ce += report.ce
          sums.refKl += report.refKl
          yield* StepMetrics.add(metrics, batch, loss, report)
        }
        return { sums, metrics }
      })

    const step = Effect.fn("Trainer.step")(function* (batch: PackedBatch, number: number) {
      // A step that was interrupted may have left part of its gradient.
      yield* weights.zeroGradients
      const { metrics, sums } = yield* accumulate(batch.microBatches.flat(), batch.counts)
      const learningRate = Schedule.learningRate(schedule, {
        peak: options.learningRate,
        maxSteps: steps,
        completed: number - 1
      })
      const { ce, refKl, rl } = batch.counts
      if (ce + refKl + rl === 0) {
        yield* Effect.logWarning(`step ${number} has no token to train: weights and optimiser are left as they are`)
        const loss = { total: 0, rl: 0, ce: 0, refKl: 0 }
        return { loss, ...StepMetrics.means(metrics), gradNorm: 0, learningRate, applied: false }
      }
      const { beta1, beta2, eps, maxGradNorm, weightDecay } = options
      const stepped = yield* weights.optimizerStep({ learningRate, beta1, beta2, eps, weightDecay, maxGradNorm })
      const inARow = yield* Ref.updateAndGet(skipped, (n) => (stepped.applied ? 0 : n + 1))
      if (inARow >= maxSkippedSteps) {
        return yield* new TrainerError({
          operation: "step",
          reason: `${inARow} steps in a row were skipped: ${why(stepped, learningRate)} (loss ${sums.rl + sums.ce + sums.refKl}); the weights are those before the first of them. Lower the learning rate or clip harder`
        })
      }
      const report: TrainReport = {
        loss: { total: sums.rl + sums.ce + sums.refKl, ...sums },
        ...StepMetrics.means(metrics),
        gradNorm: stepped.gradNorm,
        learningRate,
        applied: stepped.applied
      }
      return report
    })

    return {
      step: (batch, number) =>
        Effect.mapError(step(batch, number), (cause) =>
          cause instanceof TrainerError ? cause : failed("step")(cause)
        ),
      publish: (version) =>
        Effect.mapBoth(weights.snapshot, {
          onSuccess: (snapshot) => ({ version, snapshot }),
          onFailure: failed("publish")
        }),
      save: (directory) => Effect.mapError(weights.save(directory), failed("save")),
      restore: (directory) => Effect.mapError(weights.restore(directory), failed("restore"))
    }
  })
