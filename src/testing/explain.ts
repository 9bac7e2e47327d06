/** Runs an algorithm's two hooks through the pipeline of a run, and says of every token what becomes of it and why. */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { Algorithm } from "../Algorithm.ts"
import * as Pipeline from "../Pipeline.ts"
import { type Absent, type Ended, isAbsent, plannedOf, type Reason, explain as reasonInWords } from "../Rollout.ts"
import type { TokenizerService } from "../Tokenizer.ts"
import { type ExplainedRollout, type Explanation, totalsOf } from "./Explanation.ts"
import * as Branches from "./internal/Branches.ts"
import { collect } from "./scoring.ts"

/** Rollouts that no run could have made. @category errors */
export class ExplainError extends Data.TaggedError("ExplainError")<{ readonly rollout: string }> {
  override get message() {
    return `rollout ${this.rollout} is given twice: every rollout ends once, and its credit would count twice`
  }
}

/** What is known beside the rollouts. @category model */
export interface ExplainOptions {
  /** reads the tokens; without it they have no text */
  readonly tokenizer?: Pick<TokenizerService, "decoder"> | undefined
  /** longest sequence that a micro-batch takes, in tokens; nothing is cut when absent */
  readonly maxSequenceLength?: number | undefined
}

const twice = (ended: ReadonlyArray<Ended>): string | undefined => {
  const seen = new Set<string>()
  return ended.map((one) => plannedOf(one).id).find((id) => seen.size === seen.add(id).size)
}

const absence = (reason: Reason | undefined) =>
  reason === undefined ? "it never came out of the pipeline" : reasonInWords(reason)

const described = (
  ended: Ended,
  outcome: Pipeline.Compiled | Absent | undefined,
  options: Branches.Options
): ExplainedRollout => {
  const { example, group, id, seat, source } = plannedOf(ended)
  const facts = { id, source, example, group: group.id, seat, reward: isAbsent(ended) ? undefined : ended.reward }
  const without = (absent: string): ExplainedRollout => ({
    ...facts,
    absent,
    counts: {},
    branches: isAbsent(ended) ? [] : Branches.ofAbsent(ended, absent, options)
  })
  if (outcome === undefined || outcome._tag === "Absent") return without(absence(outcome?.reason))
  return Either.match(Branches.ofScored(outcome, options), {
    onLeft: ({ message }) => without(message),
    onRight: (branches) => ({ ...facts, absent: undefined, counts: outcome.credit.counts ?? {}, branches })
  })
}

/**
 * What an algorithm does with every token of ended rollouts: the component, the weight, the credit and the reason. What
 * is trained comes from the samples that a run would train, not from a second reading of the credit. Fails with
 * `ExplainError` when a rollout is given twice.
 *
 * @category running
 */
export const explain = <E, R>(
  algorithm: Layer.Layer<Algorithm, E, R>,
  ended: Iterable<Ended>,
  { maxSequenceLength, tokenizer }: ExplainOptions = {}
): Effect.Effect<Explanation, E | ExplainError, R> =>
  Effect.gen(function* () {
    const all = Array.from(ended)
    const rollout = twice(all)
    if (rollout !== undefined) return yield* new ExplainError({ rollout })
    const { type } = yield* Algorithm
    const outcomes = yield* Stream.fromIterable(all).pipe(
      Pipeline.score,
      Pipeline.dependentSets,
      Pipeline.samples,
      collect
    )
    const byId = new Map(
      outcomes.map((outcome) => [outcome._tag === "Absent" ? outcome.planned.id : outcome.rollout.id, outcome])
    )
    const options = { maxSequenceLength, decoder: tokenizer?.decoder }
    const rollouts = all.map((one) => described(one, byId.get(plannedOf(one).id), options))
    return { algorithm: type, rollouts, ...totalsOf(rollouts) }
  }).pipe(Effect.provide(algorithm))
