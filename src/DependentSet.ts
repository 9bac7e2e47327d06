/**
 * For which rollouts does a rollout's credit wait? A rule names the sets of a planned rollout; a set opens once, when
 * all of its members have ended, and is then scored. Invariant: the sets of a rollout follow from what is planned, never
 * from the order in which rollouts end.
 */
import * as Data from "effect/Data"
import * as Either from "effect/Either"
import type { Credit } from "./Credit.ts"
import { inWords } from "./internal/inWords.ts"
import type { Planned, Rollout } from "./Rollout.ts"

/** A set that a rollout belongs to, and how many rollouts were planned for it. @category model */
export interface Membership {
  readonly key: string
  readonly size: number
}

/** How far a set has come. `arrived + absent` is less than `size` only in a set that opens early. @category model */
export interface Progress extends Membership {
  /** members with a reward and something to train */
  readonly arrived: number
  /** members that ended without: cancelled, failed, unscored */
  readonly absent: number
}

/** Which sets a rollout belongs to, as an algorithm declares it. @category model */
export interface Rule {
  readonly name: string
  readonly of: (member: Planned) => ReadonlyArray<Membership>
  /** Lets a set open early, as a quorum does. A set always opens when every member has ended. */
  readonly opens?: ((set: Progress) => boolean) | undefined
}

/** A rule that threw, or that named no sets. It costs the rollouts concerned, never the run. @category errors */
export class RuleError extends Data.TaggedError("RuleError")<{ readonly rule: string; readonly reason: string }> {
  override get message() {
    return `rule "${this.rule}": ${this.reason}`
  }
}

const asked = <A>(rule: Rule, ask: () => A): Either.Either<A, RuleError> =>
  Either.try({ try: ask, catch: (cause) => new RuleError({ rule: rule.name, reason: inWords(cause) }) })

const isMembership = (value: Partial<Membership> | null | undefined): value is Membership =>
  typeof value?.key === "string" && Number.isInteger(value.size) && value.size! >= 1

/** The sets of a planned rollout, as its rule names them; the rule may be plain JavaScript of the user's. @category rules */
export const membershipsOf = (rule: Rule, member: Planned): Either.Either<ReadonlyArray<Membership>, RuleError> =>
  Either.filterOrLeft(
    asked(rule, () => rule.of(member)),
    (found) => Array.isArray(found) && found.every(isMembership),
    () => new RuleError({ rule: rule.name, reason: "`of` gave no list of sets { key: text, size: whole number ≥ 1 }" })
  )

/** Whether a set opens before all of its members have ended. @category rules */
export const opensEarly = (rule: Rule, set: Progress): Either.Either<boolean, RuleError> =>
  asked(rule, () => rule.opens?.(set) === true)

/** A rollout with its credit so far. @category model */
export interface Scored {
  readonly _tag: "Scored"
  readonly rollout: Rollout
  readonly credit: Credit
}

/** A rule of the user's own. @category constructors */
export const make = (rule: Rule): Rule => rule

/** The rollout alone. @category rules */
export const self: Rule = { name: "self", of: ({ id }) => [{ key: id, size: 1 }] }

/** All rollouts of one example that were planned together. @category rules */
export const group: Rule = { name: "group", of: ({ group }) => [{ key: group.id, size: group.size }] }

/** All rollouts of one episode, whatever their seats. @category rules */
export const episode: Rule = { name: "episode", of: ({ episode }) => [{ key: episode.id, size: episode.size }] }

/** `size` rollouts with the same key. @category rules */
export const count = (size: number, key: (member: Planned) => string): Rule => ({
  name: `count of ${size}`,
  of: (member) => [{ key: key(member), size }]
})

/** The first `n` of a set are enough; those that end later are `Absent` as `Late`. @category rules */
export const quorum = (rule: Rule, n: number): Rule => ({
  ...rule,
  name: `first ${n} of ${rule.name}`,
  opens: (set) => set.arrived >= n
})

/**
 * A live view of a stage's open sets, for `primerl doctor` and for tests. Hand a fresh one to `Pipeline.dependentSets`.
 *
 * @category observation
 */
export interface Watch {
  /** sets with a member that has not ended, in the order in which they were first seen */
  sets: () => ReadonlyArray<Progress>
  /** rollouts whose credit is not final */
  pending: () => number
  /** fibers now, and at most so far */
  fibers: number
  maxFibers: number
}

/** A view that no stage has filled yet. @category observation */
export const watch = (): Watch => ({ sets: () => [], pending: () => 0, fibers: 0, maxFibers: 0 })
