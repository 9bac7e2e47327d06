/** What flows through a pipeline's stages. From `Compiled` on it is all data: no stage needs an algorithm any more. */
import type { Credit } from "../Credit.ts"
import type { Scored } from "../DependentSet.ts"
import type { Absent, Planned, Rollout } from "../Rollout.ts"
import type { TrainingSample } from "../TrainingSample.ts"

/** A rollout with its final credit, laid out. @category model */
export interface Compiled {
  readonly _tag: "Compiled"
  readonly rollout: Rollout
  readonly credit: Credit
  /** one per branch that moves anything; empty when the rollout has no signal */
  readonly samples: ReadonlyArray<TrainingSample>
  /** tokens of all its branches, with or without signal */
  readonly tokens: number
  /** branches that training on would not move */
  readonly withoutSignal: number
  /** whether training on it moves anything; a rollout without signal still counts toward a batch */
  readonly signal: boolean
}

/** Where an item came from. @category model */
export const plannedOf = (item: Rollout | Scored | Compiled | Absent): Planned => {
  switch (item._tag) {
    case "Absent":
      return item.planned
    case "Rollout":
      return item
    default:
      return item.rollout
  }
}
