/**
 * Reward arithmetic that group-relative algorithms share. Invariant: rewards that are all equal are centred to exactly
 * 0, whatever floating point makes of their mean.
 */
import * as Data from "effect/Data"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import type { Problem, SourceDescription } from "../../Algorithm.ts"
import type { Rollout } from "../../Rollout.ts"
import * as Trace from "../../Trace.ts"

const Weight = (value: number) =>
  Schema.optionalWith(Schema.Number.pipe(Schema.finite(), Schema.nonNegative()), { exact: true, default: () => value })

/** Takes from each reward a share of the group's mean reward, by how long the rollout is beside the group's longest. */
export const LengthPenalty = Schema.Struct({
  type: Schema.Literal("linear"),
  num_output_tokens_weight: Weight(0.25),
  num_input_tokens_weight: Weight(0.1),
  num_turns_weight: Weight(0.1)
}).annotations({
  // what is wrong inside a table is told by its keys
  message: ({ actual }) => ({
    message: 'it must be a table such as { type = "linear" }',
    override: typeof actual !== "object" || actual === null || Array.isArray(actual)
  })
})
export type LengthPenalty = typeof LengthPenalty.Type

export const mean = (values: ReadonlyArray<number>): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length

const allEqual = (values: ReadonlyArray<number>): boolean => values.every((value) => value === values[0])

/** Values less their mean; all equal gives exactly 0. */
export const centred = (values: ReadonlyArray<number>): ReadonlyArray<number> => {
  if (allEqual(values)) return values.map(() => 0)
  const baseline = mean(values)
  return values.map((value) => value - baseline)
}

/** Each reward less the mean of those with the same key; a rollout alone with its key gets exactly 0. */
export const centredWithin = (
  group: ReadonlyArray<Rollout>,
  keyOf: (rollout: Rollout) => string
): ReadonlyArray<number> => {
  const keys = group.map(keyOf)
  const advantages = new Array<number>(group.length)
  for (const key of new Set(keys)) {
    const peers = keys.flatMap((own, i) => (own === key ? [i] : []))
    const values = centred(peers.map((i) => group[i]!.reward))
    for (const [at, i] of peers.entries()) advantages[i] = values[at]!
  }
  return advantages
}

/** Tokens the policy sampled, tokens it was given, and its turns. */
const lengthsOf = ({ trace }: Rollout) => {
  let output = 0
  let total = 0
  for (const { logprobs, tokenIds } of trace.nodes) {
    output += logprobs.length
    total += tokenIds.length
  }
  return { output, input: total - output, turns: Trace.turns(trace) }
}

/**
 * Rewards less a linear length penalty: reward − scale · Σ weight · length / longest of the group. The scale is the mean
 * reward held to [0, 1], so that longer is never preferred; the longest is at least 1.
 */
export const shapedRewards = (
  group: ReadonlyArray<Rollout>,
  penalty: LengthPenalty | undefined
): ReadonlyArray<number> => {
  const rewards = group.map(({ reward }) => reward)
  if (penalty === undefined) return rewards
  const lengths = group.map(lengthsOf)
  const longest = (of: "output" | "input" | "turns") => lengths.reduce((most, length) => Math.max(most, length[of]), 1)
  const perOutput = penalty.num_output_tokens_weight / longest("output")
  const perInput = penalty.num_input_tokens_weight / longest("input")
  const perTurn = penalty.num_turns_weight / longest("turns")
  const scale = Math.min(1, Math.max(0, mean(rewards)))
  return rewards.map((reward, i) => {
    const { input, output, turns } = lengths[i]!
    return reward - scale * (perOutput * output + perInput * input + perTurn * turns)
  })
}

const together = (seats: ReadonlyArray<string>) => `seats ${seats.join(", ")}`

/** Rollouts of several seats are not exchangeable: centred together, an advantage of the seat becomes one of the policy. */
export class SeveralSeats extends Data.TaggedError("SeveralSeats")<{ readonly seats: ReadonlyArray<string> }> {
  override get message() {
    return `${together(this.seats)} are in one group, and a baseline over several trainable seats is meaningless; give each seat its own algorithm, or train one of them`
  }
}

/** A formula over rollouts of one seat: refuses a group that holds several. */
export const ofOneSeat =
  <A>(formula: (group: ReadonlyArray<Rollout>) => A) =>
  (group: ReadonlyArray<Rollout>): A | Exit.Exit<never, SeveralSeats> => {
    const seats = Array.from(new Set(group.map(({ seat }) => seat))).sort()
    return seats.length > 1 ? Exit.fail(new SeveralSeats({ seats })) : formula(group)
  }

/** A group of one has nothing to be compared with. */
export const checkGroupSize = ({ groupSize, name }: SourceDescription): ReadonlyArray<Problem> =>
  groupSize < 2
    ? [
        {
          path: "group_size",
          message: `source "${name}" has groups of ${groupSize}: a rollout compared with itself alone has no advantage; use 2 or more`
        }
      ]
    : []

/** What makes a baseline over a group meaningless before anything has run. */
export const checkGroup = (_config: unknown, source: SourceDescription): ReadonlyArray<Problem> => {
  const { name, seats } = source
  const several =
    seats.length > 1 ? [{ path: "algo.type", message: `source "${name}": ${new SeveralSeats({ seats }).message}` }] : []
  return [...checkGroupSize(source), ...several]
}
