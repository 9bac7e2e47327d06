/** What a run says of each of its steps, as plain data: shown while it runs, written to the run's metrics. */

/**
 * One step of training. Means are over the step's rollouts unless a field says otherwise; what a step without anything to
 * train cannot measure is NaN, never 0.
 *
 * @category model
 */
export interface StepReport {
  /** counted from 1 */
  readonly step: number
  /** steps of the whole run */
  readonly steps: number
  readonly reward: number
  /** reward minus that of the step before */
  readonly rewardChange: number
  /** what was minimised, and its parts, each over its own members */
  readonly loss: { readonly total: number; readonly rl: number; readonly ce: number; readonly refKl: number }
  /** share of `rl` tokens whose policy term the loss left out (`is_masked`), and what else it measured, by name */
  readonly lossMetrics: Readonly<Record<string, number>>
  /** divergence of the trainer's log-probabilities from inference's, in nats per trained token */
  readonly mismatchKl: number
  /** of the policy, in nats per trained token */
  readonly entropy: number
  /** global norm before clipping */
  readonly gradNorm: number
  readonly learningRate: number
  /** trained tokens over packed tokens, from 0 to 1 */
  readonly trainableShare: number
  /** steps that the samples' weights were behind the trainer's */
  readonly staleness: { readonly mean: number; readonly max: number }
  readonly rollouts: number
  readonly samples: number
  /** packed tokens of real samples */
  readonly tokens: number
  /** samples that were cut to the length of a micro-batch */
  readonly truncated: number
  /** samples that the cut left without anything to train */
  readonly dropped: number
  /** rollouts whose credit was zero on every token */
  readonly zeroSignal: number
  /** rollouts that did not count, by reason */
  readonly absent: Readonly<Record<string, number>>
  /** the first of each reason, in words */
  readonly firstAbsences: Readonly<Record<string, string>>
  /** what environments and algorithms measured, by name */
  readonly metrics: Readonly<Record<string, number>>
  readonly tokensPerSecond: number
  readonly seconds: number
  /** false when the gradient was not finite and the weights were left alone */
  readonly optimizerApplied: boolean
  /** of the weights that this step made, where some were due */
  readonly evaluations: ReadonlyArray<EvalReport>
  /** the same rollouts by source, in the order of the sources */
  readonly sources: ReadonlyArray<SourceReport>
}

/** One source's part in a step of training. Means are over its rollouts that count. @category model */
export interface SourceReport {
  readonly name: string
  /** NaN when no rollout of it counts */
  readonly reward: number
  readonly rollouts: number
  readonly samples: number
  /** rollouts whose credit was zero on every token */
  readonly zeroSignal: number
  /** rollouts that did not count, by reason */
  readonly absent: Readonly<Record<string, number>>
  /** what environments and algorithms measured, by name */
  readonly metrics: Readonly<Record<string, number>>
}

/** One step of supervised fine-tuning. @category model */
export interface SftReport {
  /** counted from 1 */
  readonly step: number
  /** steps of the whole run */
  readonly steps: number
  /** negative log-likelihood in nats per trained token */
  readonly loss: number
  /** global norm before clipping */
  readonly gradNorm: number
  readonly learningRate: number
  readonly tokens: number
  /** conversations without an assistant's token to learn from */
  readonly untrained: number
  /** conversations that were cut to `seq_len` */
  readonly truncated: number
  readonly tokensPerSecond: number
  readonly seconds: number
  /** false when the gradient or the step was not finite and the weights were left alone */
  readonly optimizerApplied: boolean
}

/** One evaluation of one source. @category model */
export interface EvalReport {
  /** of the source */
  readonly name: string
  /** directory of the policy */
  readonly model: string
  readonly examples: number
  readonly rollouts: number
  readonly reward: {
    /** over the rollouts that count; NaN when none does */
    readonly mean: number
    /** of the mean, over examples; NaN when fewer than two have a rollout that counts */
    readonly standardError: number
  }
  /** what the environment measured, by name */
  readonly metrics: Readonly<Record<string, number>>
  /** rollouts that did not count, by reason */
  readonly absent: Readonly<Record<string, number>>
  /** the last attempt that failed, in words; "" when none did */
  readonly lastFailure: string
  readonly seconds: number
}
