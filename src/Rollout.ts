/** A finished trace with who asked for it, and how a planned rollout can end. Pure data. */
import * as Data from "effect/Data"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Wire from "./internal/RolloutWire.ts"
import type { Trace } from "./Trace.ts"
import { graphOf, graphParts, placeOf } from "./trace/wire.ts"

/** What is known before a rollout runs: enough to key dependent sets and to derive its seed. @category model */
export interface Planned {
  readonly id: string
  /** place in the order of dispatch, counted within its source from 0 */
  readonly sequence: number
  readonly source: string
  readonly example: string
  readonly group: { readonly id: string; readonly size: number }
  readonly episode: { readonly id: string; readonly size: number }
  readonly seat: string
  /** version of the weights it is dispatched on */
  readonly policyVersion: number
  /** what the sampler or environment says of it, for rules of the user's own */
  readonly labels: Readonly<Record<string, string>>
}

/**
 * Why a rollout stopped: the policy ended its turn, hit a limit, the harness was done, or a condition of the task held,
 * which `trace.stop` names.
 *
 * @category model
 */
export type StopReason = "done" | "length" | "max_turns" | "max_tokens" | "prompt_too_long" | "timeout" | "task"

/** A planned rollout that came to its end, with what it is worth. @category model */
export interface Rollout extends Planned {
  readonly _tag: "Rollout"
  readonly trace: Trace
  /** what the task says of the example beside its prompt, by name: a reference answer, a demonstration */
  readonly info: Readonly<Record<string, string>>
  /** sampling temperature of the policy, the same for the whole rollout */
  readonly temperature: number
  readonly reward: number
  /** weighted parts of the reward by name */
  readonly rewards: Readonly<Record<string, number>>
  readonly metrics: Readonly<Record<string, number>>
  readonly stopReason: StopReason
}

/** Who is to blame for a failure. @category model */
export type Blame = "task" | "harness" | "tools" | "runtime" | "provider" | "interception" | "environment" | "algorithm"

/** Why a planned rollout does not count. @category model */
export type Reason =
  | { readonly _tag: "Cancelled"; readonly why: "stale" | "overload" | "shutdown" }
  | { readonly _tag: "Failed"; readonly blame: Blame; readonly message: string }
  | { readonly _tag: "NoReward"; readonly reward: number }
  | {
      readonly _tag: "NothingTrainable"
      /** why the rollout had stopped */
      readonly stopReason?: StopReason | undefined
    }
  | { readonly _tag: "Late"; readonly set: string }
  | { readonly _tag: "Incomplete"; readonly set: string; readonly missing: number }
  | { readonly _tag: "NotAdmitted"; readonly gate: string }

/** A planned rollout that does not count, and why. @category model */
export interface Absent {
  readonly _tag: "Absent"
  readonly planned: Planned
  readonly reason: Reason
}

/** How a planned rollout ended: every one ends exactly once. @category model */
export type Ended = Rollout | Absent

/** The plan alone, without what came of it. @category guards */
export const plannedOf = (ended: Ended | Planned): Planned => {
  const { episode, example, group, id, labels, policyVersion, seat, sequence, source } =
    "_tag" in ended && ended._tag === "Absent" ? ended.planned : (ended as Planned)
  return { id, sequence, source, example, group, episode, seat, policyVersion, labels }
}

/** A planned rollout that does not count; of a rollout that had ended only the plan is kept. @category constructors */
export const absent = (planned: Planned, reason: Reason): Absent => ({
  _tag: "Absent",
  planned: plannedOf(planned),
  reason
})

/** Whether it ended as a rollout. @category guards */
export const isRollout = (ended: Ended): ended is Rollout => ended._tag === "Rollout"

/** Whether it ended without counting. @category guards */
export const isAbsent = (ended: Ended): ended is Absent => ended._tag === "Absent"

/** Number of sampled tokens that can be trained: each once, and none without a token before it. @category guards */
export const trainableTokens = ({ trace: { nodes } }: Pick<Rollout, "trace">): number => {
  const ends: Array<number> = []
  let count = 0
  for (const [index, { mask, parent, tokenIds }] of nodes.entries()) {
    const start = parent === undefined ? 0 : ends[parent]!
    ends[index] = start + tokenIds.length
    for (let i = start === 0 ? 1 : 0; i < mask.length; i++) count += mask[i] === 1 ? 1 : 0
  }
  return count
}

/** Whether a rollout holds anything to train: only then it takes part in a baseline and counts toward a batch. @category guards */
export const isTrainable = (ended: Ended): ended is Rollout => isRollout(ended) && trainableTokens(ended) > 0

/** A reason in words. @category reasons */
export const explain = (reason: Reason): string => {
  switch (reason._tag) {
    case "Cancelled":
      return `cancelled: ${reason.why}`
    case "Failed":
      return `${reason.blame} failed: ${reason.message}`
    case "NoReward":
      return `its reward is ${reason.reward}`
    case "NothingTrainable":
      if (reason.stopReason === "prompt_too_long") {
        return "its prompt leaves no room for a token to be sampled (prompt_too_long): raise seq_len, or shorten the prompt"
      }
      return `the policy sampled no token in it${reason.stopReason === undefined ? "" : ` (${reason.stopReason})`}`
    case "Late":
      return `it ended after its set ${reason.set} had closed`
    case "Incomplete":
      return `${reason.missing} members of its set ${reason.set} never ended`
    case "NotAdmitted":
      return `the gate ${reason.gate} did not admit its group`
  }
}

/** What was read is not a rollout that this package wrote. @category errors */
export class DecodeError extends Data.TaggedError("DecodeError")<{ readonly reason: string }> {
  override get message() {
    return `not a rollout: ${this.reason}`
  }
}

const encodeRollout = Schema.encodeSync(Wire.Rollout)
const encodeAbsent = Schema.encodeSync(Wire.Absent)
const decodeEnded = Schema.decodeUnknownEither(Wire.Ended)

/**
 * JSON of an ended rollout; every typed array and every number comes back bit for bit. Text comes first, then tokens.
 *
 * @category codec
 */
export const encode = (ended: Ended): unknown => {
  if (isAbsent(ended)) return encodeAbsent({ ...ended, planned: plannedOf(ended) })
  const { trace, ...rest } = ended
  // How long things took is no part of what a run repeats.
  return encodeRollout({ ...rest, ...graphParts(trace) })
}

/** Reads what `encode` wrote. Fails with `DecodeError`, which names the place, also on log-probabilities that are not finite. @category codec */
export const decode = (json: unknown): Either.Either<Ended, DecodeError> =>
  Either.gen(function* () {
    const ended = yield* Either.mapLeft(decodeEnded(json), (error) => new DecodeError({ reason: placeOf(error) }))
    if (ended._tag === "Absent") return ended
    const { calls, messages, stop, tokens, ...rest } = ended
    const trace = yield* Either.mapLeft(
      graphOf({ calls, messages, stop, tokens }),
      (reason) => new DecodeError({ reason })
    )
    return { ...rest, trace }
  })

/** One line of JSON. @category codec */
export const stringify = (ended: Ended): string => JSON.stringify(encode(ended))

/** Reads one line of JSON. @category codec */
export const parse = (line: string): Either.Either<Ended, DecodeError> =>
  Either.flatMap(
    Either.try({
      try: () => JSON.parse(line) as unknown,
      catch: (cause) => new DecodeError({ reason: String(cause) })
    }),
    decode
  )
