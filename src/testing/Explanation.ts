/** What an algorithm does with every token of its rollouts, and why, as plain data. */
import type { Role } from "../Message.ts"

/** A component of the loss. @category model */
export type Component = "rl" | "ce" | "refKl"

/** Every component, in the order in which they are shown. @category model */
export const components: ReadonlyArray<Component> = ["rl", "ce", "refKl"]

/** A component as configurations and metrics spell it. @category getters */
export const componentName = (component: Component): string => (component === "refKl" ? "ref_kl" : component)

/** What one component of the loss does with a token. @category model */
export interface Term {
  readonly component: Component
  readonly weight: number
  /** the advantage in `rl`, the reference's log-probability in nats in `refKl`, nothing in `ce` */
  readonly credit: number | undefined
  /** who said so, such as "grpo.scoreGroup" */
  readonly by: string
}

/** One token of a branch. @category model */
export interface ExplainedToken {
  /** in its branch, from 0 */
  readonly position: number
  /** index of its message in the trace */
  readonly message: number
  readonly role: Role
  readonly tokenId: number
  /** what it adds to the text; undefined where no tokenizer is known */
  readonly text: string | undefined
  /** the policy sampled it */
  readonly sampled: boolean
  /** of a sampled token, in nats, under the policy that sampled it */
  readonly logprob: number | undefined
  /** the components that train it; none when it is not trained */
  readonly terms: ReadonlyArray<Term>
  /** why it is trained, or why not, in words */
  readonly reason: string
}

/** One root-to-leaf path of a trace. @category model */
export interface ExplainedBranch {
  /** in the order of `Trace.branches`, from 0 */
  readonly branch: number
  readonly tokens: ReadonlyArray<ExplainedToken>
}

/** One rollout; without branches when there is no trace of it. @category model */
export interface ExplainedRollout {
  readonly id: string
  readonly source: string
  readonly example: string
  readonly group: string
  readonly seat: string
  readonly reward: number | undefined
  /** why it does not count, in words; undefined when it does */
  readonly absent: string | undefined
  /** what the algorithm counts about it, by name */
  readonly counts: Readonly<Record<string, number>>
  readonly branches: ReadonlyArray<ExplainedBranch>
}

/** What one component trains in all. @category model */
export interface Total {
  /** tokens that are members: what the component's sum is divided by */
  readonly tokens: number
  /** sum of their weights */
  readonly weight: number
}

/** An algorithm over rollouts, token by token. @category model */
export interface Explanation {
  readonly algorithm: string
  /** in the order in which they were given */
  readonly rollouts: ReadonlyArray<ExplainedRollout>
  readonly totals: Readonly<Record<Component, Total>>
  /** tokens of all branches, trained or not */
  readonly tokens: number
}

/** What each component trains in all of some rollouts, and the number of tokens in their branches. @category getters */
export const totalsOf = (rollouts: Iterable<ExplainedRollout>): Pick<Explanation, "totals" | "tokens"> => {
  const totals = { rl: { tokens: 0, weight: 0 }, ce: { tokens: 0, weight: 0 }, refKl: { tokens: 0, weight: 0 } }
  let count = 0
  for (const { branches } of rollouts) {
    for (const { tokens } of branches) {
      count += tokens.length
      for (const { terms } of tokens) {
        for (const { component, weight } of terms) {
          totals[component].tokens++
          totals[component].weight += weight
        }
      }
    }
  }
  return { totals, tokens: count }
}
