/** A finished trace with who asked for it, and how a planned rollout can end. Pure data. */
import type { Trace } from "./Trace.ts"

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

/** Why a rollout stopped: the policy ended its turn, hit a limit, or the harness was done. @category model */
export type StopReason = "done" | "length" | "max_turns" | "prompt_too_long" | "timeout"

/** @category model */
export interface Rollout extends Planned {
  readonly _tag: "Rollout"
  readonly trace: Trace
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

/** @category model */
export type Reason =
  | { readonly _tag: "Cancelled"; readonly why: "stale" | "overload" | "shutdown" }
  | { readonly _tag: "Failed"; readonly blame: Blame; readonly message: string }
  | { readonly _tag: "NoReward"; readonly reward: number }
  | { readonly _tag: "NothingTrainable" }
  | { readonly _tag: "Late"; readonly set: string }
  | { readonly _tag: "Incomplete"; readonly set: string; readonly missing: number }

/** A planned rollout that does not count, and why. @category model */
export interface Absent {
  readonly _tag: "Absent"
  readonly planned: Planned
  readonly reason: Reason
}

/** How a planned rollout ended: every one ends exactly once. @category model */
export type Ended = Rollout | Absent
