/** A run is done when its last step has changed the weights: one that was skipped is a failure, though its files are there. */
import * as Data from "effect/Data"
import * as Stream from "effect/Stream"

/** @category errors */
export class LastStepSkipped extends Data.TaggedError("LastStepSkipped")<{
  readonly step: number
  readonly checkpoint: string
  readonly gradNorm: number
}> {
  override get message() {
    const what = Number.isFinite(this.gradNorm) ? "its step size" : "its gradient"
    return `step ${this.step}, the last one, was skipped: ${what} was not finite. ${this.checkpoint} holds the weights of the step before; lower the learning rate`
  }
}

interface Report {
  readonly step: number
  readonly steps: number
  readonly tokens: number
  readonly gradNorm: number
  readonly optimizerApplied: boolean
}

/** Fails behind the last step when it had something to train and was skipped. @category combinators */
export const check =
  (checkpoints: string) =>
  <A extends Report, E, R>(reports: Stream.Stream<A, E, R>): Stream.Stream<A, E | LastStepSkipped, R> =>
    Stream.flatMap(reports, (report) => {
      const { gradNorm, optimizerApplied, step, steps, tokens } = report
      return step === steps && tokens > 0 && !optimizerApplied
        ? Stream.concat(
            Stream.succeed(report),
            Stream.fail(new LastStepSkipped({ step, gradNorm, checkpoint: `${checkpoints}/step_${step}` }))
          )
        : Stream.succeed(report)
    })
