/** What an algorithm may be expected to keep, and what became of it when it was tried. */
import * as Data from "effect/Data"
import type * as Layer from "effect/Layer"
import type { Algorithm } from "../Algorithm.ts"
import type { Provided } from "../Registry.ts"
import type { Rollout } from "../Rollout.ts"
import type { Trace } from "../Trace.ts"
import type { RlLoss } from "../Trainer/RlLoss.ts"

/** An algorithm with all that a run would give it. @category model */
export type Subject = Layer.Layer<Algorithm, unknown, Provided>

/** One rollout of a case: what it earned, and what was said. @category model */
export interface Member {
  readonly reward: number
  readonly trace: Trace
}

/** Where a group of a case stands among all rollouts. @category model */
export interface GroupPlace {
  readonly group: string
  /** sequence number of its first rollout */
  readonly sequence: number
}

/** What is expected of an algorithm, and how it is tried. @category model */
export interface PropertyOptions {
  /** it remembers earlier rollouts, so that order matters and groups are not apart; false unless given */
  readonly stateful?: boolean | undefined
  /** a constant added to all rewards changes nothing; unless given, so for what waits for more than the rollout itself */
  readonly shiftInvariant?: boolean | undefined
  /** equal rewards give no `rl` signal; unless given, so for what waits for more than the rollout itself */
  readonly silentWhenEqual?: boolean | undefined
  /** who is which member of a group does not matter; so unless it is stateful */
  readonly exchangeable?: boolean | undefined
  /** the order in which rollouts end does not matter; so unless it is stateful */
  readonly orderFree?: boolean | undefined
  /** a group's credit does not depend on other groups; so unless it is stateful */
  readonly separateGroups?: boolean | undefined
  /** of two rollouts of a group that say the same, the better has no lower advantage; so unless it is stateful */
  readonly monotone?: boolean | undefined
  /** a step on its credit raises the expected reward; so wherever it trains with `rl`, unless told */
  readonly improves?: boolean | undefined
  /** lowest and highest reward that is tried; 0 and 1 unless given */
  readonly rewards?: readonly [lowest: number, highest: number] | undefined
  /** makes the rollouts of a group: seats, episodes, info; one seat and one episode each unless given */
  readonly group?: ((members: ReadonlyArray<Member>, place: GroupPlace) => ReadonlyArray<Rollout>) | undefined
  /** what the algorithm asks for; `layerProvided` unless given */
  readonly provided?: Layer.Layer<Provided, unknown> | undefined
  /** the loss that a step goes down on; DPPO unless given */
  readonly loss?: RlLoss | undefined
  /** cases of each property; 20 unless given */
  readonly runs?: number | undefined
  /** the cases follow from it; 0 unless given */
  readonly seed?: number | undefined
}

/** What became of a property. @category model */
export type Verdict = Data.TaggedEnum<{
  Holds: {}
  /** `why` says what is wrong and `example` with which rollouts */
  Fails: { readonly why: string; readonly example: string }
  /** nothing was there to be tried, or it is not expected */
  DoesNotApply: { readonly why: string }
}>

/** Verdicts. @category constructors */
export const Verdict = Data.taggedEnum<Verdict>()

/** A property that an algorithm does not keep. @category errors */
export class PropertyError extends Data.TaggedError("PropertyError")<{
  readonly property: string
  readonly why: string
  readonly example: string
}> {
  override get message() {
    return `${this.property}: ${this.why}\n  with ${this.example}`
  }
}
