/** Rewards below 0, for formulas that divide by the mean reward: there the quotient changes its sign, or has no bound. */
import * as Effect from "effect/Effect"
import * as Credit from "../../Credit.ts"
import type { Rollout } from "../../Rollout.ts"
import { once } from "./once.ts"

type Formula = (group: ReadonlyArray<Rollout>) => ReadonlyArray<Credit.Credit>

/**
 * A formula that sees no reward below 0: the credit of a group that has one is 0, its rollouts are counted as
 * `TYPE/negative_reward`, and one warning names the source.
 */
export const ofNonNegative = (type: string, formula: Formula) =>
  Effect.map(once, (warn) => (group: ReadonlyArray<Rollout>) => {
    const negative = group.find(({ reward }) => reward < 0)
    if (negative === undefined) return formula(group)
    const none = Credit.counted(Credit.uniform(0), `${type}/negative_reward`)
    const { id, reward, source } = negative
    const warning = `${type} needs rewards of 0 or more, and "${source}" gave ${reward} (rollout ${id}): such groups get no credit and are counted as ${type}/negative_reward; scale its rewards to [0, 1], or use grpo`
    return Effect.as(
      warn(warning),
      group.map(() => none)
    )
  })
