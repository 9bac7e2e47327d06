/** What a step's rollouts and its training add up to. Pure; every number has its numerator and denominator here. */

import * as Credit from "../Credit.ts"
import type { PackedBatch } from "../MicroBatch.ts"
import type { Compiled } from "../Pipeline.ts"
import { plannedOf } from "../pipeline/items.ts"
import type { EvalReport, SourceReport, StepReport } from "../Report.ts"
import { explain, type Reason } from "../Rollout.ts"
import type { TrainReport } from "../Trainer/Trainer.ts"
import { isCe, isRefKl, isRl, type TrainingSample } from "../TrainingSample.ts"
import type { Item } from "./Dispatcher.ts"

/** @category guards */
export const isCompiled = (item: Item): item is Compiled => item._tag !== "Absent"

/** The samples that say something: those of rollouts with a signal in some component. @category getters */
export const samples = (items: ReadonlyArray<Item>): ReadonlyArray<TrainingSample> =>
  items.flatMap((item) => (isCompiled(item) && item.signal ? item.samples : []))

const mean = (values: ReadonlyArray<number>) =>
  values.length === 0 ? 0 : values.reduce((a, b) => a + b, 0) / values.length

const kindOf = (reason: Reason) => (reason._tag === "Failed" ? `Failed/${reason.blame}` : reason._tag)

/** Absences by reason, failures with who is to blame. @category getters */
export const absent = (items: ReadonlyArray<Item>): Readonly<Record<string, number>> => {
  const counts: Record<string, number> = {}
  for (const item of items) {
    if (isCompiled(item)) continue
    const kind = kindOf(item.reason)
    counts[kind] = (counts[kind] ?? 0) + 1
  }
  return counts
}

/** The first absence of each reason, in words, with the rollout that it befell. @category getters */
const firstAbsences = (items: ReadonlyArray<Item>): Readonly<Record<string, string>> => {
  const first: Record<string, string> = {}
  for (const item of items) {
    if (!isCompiled(item)) first[kindOf(item.reason)] ??= `${item.planned.id}: ${explain(item.reason)}`
  }
  return first
}

/** One of the absences, in words. @category getters */
export const example = (items: ReadonlyArray<Item>): string => Object.values(firstAbsences(items))[0] ?? "none"

/** The same as one phrase. @category getters */
export const absences = (items: ReadonlyArray<Item>): string =>
  Object.entries(absent(items))
    .map(([reason, count]) => `${count} ${reason}`)
    .join(", ")

/** A sentence about the first source whose share of failures is above `rate`, or undefined. @category getters */
export const failing = (items: ReadonlyArray<Item>, rate: number): string | undefined => {
  const sources = new Map<string, { ended: number; failed: number; last: string }>()
  for (const item of items) {
    const planned = isCompiled(item) ? item.rollout : item.planned
    const of = sources.get(planned.source) ?? { ended: 0, failed: 0, last: "" }
    sources.set(planned.source, of)
    of.ended++
    if (isCompiled(item) || (item.reason._tag !== "Failed" && item.reason._tag !== "NoReward")) continue
    of.failed++
    of.last =
      item.reason._tag === "Failed"
        ? `${item.reason.blame}: ${item.reason.message}`
        : `the reward is ${item.reason.reward}`
  }
  for (const [source, { ended, failed, last }] of sources) {
    if (failed / ended > rate) {
      const tally = absences(items.filter((item) => plannedOf(item).source === source))
      return `${failed} of ${ended} rollouts of "${source}" failed, more than max_error_rate ${rate} allows (${tally}); the last one: ${last}`
    }
  }
  return undefined
}

const meanMetrics = (rollouts: ReadonlyArray<Compiled>): Readonly<Record<string, number>> => {
  const all: Record<string, Array<number>> = {}
  for (const { rollout } of rollouts) {
    for (const [name, value] of Object.entries(rollout.metrics)) {
      all[name] ??= []
      all[name].push(value)
    }
  }
  return Object.fromEntries(Object.entries(all).map(([name, values]) => [name, mean(values)]))
}

/** What algorithms counted, summed over the step's rollouts. */
const counts = (rollouts: ReadonlyArray<Compiled>): Readonly<Record<string, number>> =>
  rollouts.reduce<Credit.Credit>(
    (sum, { credit: { counts } }) => Credit.combine(sum, { claims: [], counts }),
    Credit.empty
  ).counts ?? {}

/** Tokens that are members of some component. */
const memberTokens = (packed: PackedBatch): number => {
  let members = 0
  for (const { samples } of packed.microBatches.flat()) {
    for (const s of samples) {
      for (let i = 1; i < s.tokenIds.length; i++) if (isRl(s, i) || isCe(s, i) || isRefKl(s, i)) members++
    }
  }
  return members
}

type Measured = Pick<
  StepReport,
  "loss" | "lossMetrics" | "mismatchKl" | "entropy" | "gradNorm" | "learningRate" | "optimizerApplied"
>

const measured = (trained: TrainReport): Measured => {
  const { applied, entropy, gradNorm, learningRate, loss, lossMetrics, maskedShare, mismatchKl } = trained
  return {
    loss,
    lossMetrics: { is_masked: maskedShare, ...lossMetrics },
    mismatchKl,
    entropy,
    gradNorm,
    learningRate,
    optimizerApplied: applied
  }
}

const unmeasured: Measured = {
  loss: { total: Number.NaN, rl: Number.NaN, ce: Number.NaN, refKl: Number.NaN },
  lossMetrics: {},
  mismatchKl: Number.NaN,
  entropy: Number.NaN,
  gradNorm: Number.NaN,
  learningRate: Number.NaN,
  optimizerApplied: false
}

/** Why a step had nothing to train. @category getters */
export const idle = (items: ReadonlyArray<Item>, packed: PackedBatch, maxSequenceLength: number): string =>
  packed.dropped > 0
    ? `the ${packed.dropped} samples that were left had nothing to train within a length of ${maxSequenceLength} tokens; raise the sequence length of the trainer`
    : `the rewards of no group differ (groups of ${groupSizes(items)}); the tasks are too easy or too hard for this policy, or groups of one are compared with themselves`

const groupSizes = (items: ReadonlyArray<Item>) =>
  Array.from(new Set(items.map((item) => plannedOf(item).group.size))).join(", ")

/** A source, as a step's report needs it. @category model */
export interface Source {
  readonly name: string
  /** the model that its rollouts come from, where that is not the policy */
  readonly model?: { readonly name: string } | undefined
  /** what leaves tokens out of the distribution that it samples from */
  readonly restrictions?: ReadonlyArray<string> | undefined
}

/**
 * What a frozen model sampled, or the policy from a part of its distribution, can only be imitated: the log-probabilities
 * are not those that it was drawn with, so that no ratio to them means anything. The first source whose credit says
 * otherwise, in words.
 *
 * @category getters
 */
export const misused = (items: ReadonlyArray<Item>, sources: ReadonlyArray<Source>): string | undefined => {
  for (const { model, name, restrictions = [] } of sources) {
    if (model === undefined && restrictions.length === 0) continue
    const sample = samples(items).find(
      (one) => one.source === name && one.mask.some((_, i) => i > 0 && (isRl(one, i) || isRefKl(one, i)))
    )
    if (sample === undefined) continue
    const training = `and its algorithm trains rollout ${sample.rollout} by rl or refKl, which need`
    return model === undefined
      ? `source "${name}" samples with ${restrictions.join(" and ")}, ${training} samples of the whole distribution; leave that out, or use an algorithm whose loss is ce, such as sft`
      : `source "${name}" samples from the frozen model ${model.name}, ${training} the policy's own samples; use an algorithm whose loss is ce, such as sft, or sample from the policy`
  }
  return undefined
}

const outcome = (items: ReadonlyArray<Item>): Omit<SourceReport, "name"> => {
  const compiled = items.filter(isCompiled)
  return {
    reward: compiled.length === 0 ? Number.NaN : mean(compiled.map(({ rollout }) => rollout.reward)),
    rollouts: compiled.length,
    samples: samples(items).length,
    zeroSignal: compiled.filter((item) => !item.signal).length,
    absent: absent(items),
    metrics: { ...meanMetrics(compiled), ...counts(compiled) }
  }
}

/** @category constructors */
export const report = (of: {
  readonly step: number
  readonly steps: number
  readonly items: ReadonlyArray<Item>
  readonly sources: ReadonlyArray<Source>
  readonly packed: PackedBatch
  /** undefined when there was nothing to train */
  readonly trained: TrainReport | undefined
  readonly seconds: number
  /** reward of the step before */
  readonly previous: number | undefined
  readonly evaluations: ReadonlyArray<EvalReport>
}): StepReport => {
  const { packed, seconds, step, steps, trained } = of
  // A model that never changes is never stale.
  const frozen = new Set(of.sources.flatMap(({ model, name }) => (model === undefined ? [] : [name])))
  const ages = samples(of.items).flatMap(({ policyVersion, source }) =>
    frozen.has(source) ? [] : [step - 1 - policyVersion]
  )
  const whole = outcome(of.items)
  return {
    ...whole,
    step,
    steps,
    rewardChange: of.previous === undefined ? Number.NaN : whole.reward - of.previous,
    ...(trained === undefined ? unmeasured : measured(trained)),
    trainableShare: packed.tokens === 0 ? 0 : memberTokens(packed) / packed.tokens,
    staleness: { mean: mean(ages), max: ages.reduce((oldest, age) => Math.max(oldest, age), 0) },
    tokens: packed.tokens,
    truncated: packed.truncated,
    dropped: packed.dropped,
    firstAbsences: firstAbsences(of.items),
    tokensPerSecond: seconds > 0 ? packed.tokens / seconds : 0,
    seconds,
    evaluations: of.evaluations,
    sources: of.sources.map(({ name }) => ({
      name,
      ...outcome(of.items.filter((item) => plannedOf(item).source === name))
    }))
  }
}
