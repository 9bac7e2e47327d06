/** What may be expected of how credit follows rewards: within a group, between groups, and in any order. */
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import type { Member, PropertyOptions, Subject } from "../Property.ts"
import * as Cases from "./Cases.ts"
import * as Trial from "./Trial.ts"

type Groups = ReadonlyArray<ReadonlyArray<Member>>

const ids = (rollouts: ReadonlyArray<{ readonly id: string }>) => rollouts.map(({ id }) => id)

const signals = (outcomes: Trial.Outcomes, of: ReadonlyArray<string>) =>
  of.map((id) => Trial.signalOf(outcomes.get(id)))

/** The first of two lists of signals that differ, in words. */
const difference = (
  before: ReadonlyArray<Float64Array>,
  after: ReadonlyArray<Float64Array>,
  named: (i: number) => string
): string | undefined => {
  const at = before.findIndex((signal, i) => !Trial.isClose(signal, after[i]!))
  return at === -1
    ? undefined
    : `the credit of ${named(at)} is ${Trial.shown(before[at]!)} and becomes ${Trial.shown(after[at]!)}`
}

const any = (all: ReadonlyArray<Float64Array>) => all.some((signal) => signal.some((value) => value !== 0))

const seen = (why: string | undefined, all: ReadonlyArray<Float64Array>): Cases.Seen => ({ why, any: any(all) })

/** Adding a constant to all rewards changes nothing. */
export const shiftInvariant = (algorithm: Subject, options: PropertyOptions) =>
  Cases.all(
    options,
    FastCheck.record({ group: Cases.members(options), shift: FastCheck.constantFrom(-50, -1, -0.25, 0.5, 3, 40) }),
    ({ group, shift }) =>
      Effect.gen(function* () {
        const [rollouts] = Cases.rolloutsOf([group], options)
        const moved = rollouts!.map((one) => ({ ...one, reward: one.reward + shift }))
        const before = signals(yield* Trial.of(algorithm, rollouts!, options), ids(rollouts!))
        const after = signals(yield* Trial.of(algorithm, moved, options), ids(moved))
        return seen(
          difference(before, after, (i) => rollouts![i]!.id),
          before
        )
      }),
    ({ group, shift }) => `${Cases.shown([group])}, all moved by ${shift}`
  )

/** Who is which member of a group does not matter: credit goes with the rollout. */
export const exchangeable = (algorithm: Subject, options: PropertyOptions) =>
  Cases.all(
    options,
    Cases.members(options).chain((group) =>
      FastCheck.record({
        group: FastCheck.constant(group),
        order: FastCheck.shuffledSubarray(
          group.map((_, i) => i),
          { minLength: group.length }
        )
      })
    ),
    ({ group, order }) =>
      Effect.gen(function* () {
        const [rollouts] = Cases.rolloutsOf([group], options)
        const [permuted] = Cases.rolloutsOf([order.map((i) => group[i]!)], options)
        const before = signals(yield* Trial.of(algorithm, rollouts!, options), ids(rollouts!))
        const after = signals(yield* Trial.of(algorithm, permuted!, options), ids(permuted!))
        return seen(
          difference(
            order.map((i) => before[i]!),
            after,
            (i) => `the rollout of reward ${group[order[i]!]!.reward}, once number ${order[i]} and then ${i},`
          ),
          before
        )
      }),
    ({ group, order }) => `${Cases.shown([group])}, then in the order ${order.join(", ")}`
  )

const several = (options: PropertyOptions) =>
  FastCheck.array(Cases.members(options), { minLength: 2, maxLength: 3 }).chain((groups) => {
    const size = groups.flat().length
    return FastCheck.record({
      groups: FastCheck.constant<Groups>(groups),
      order: FastCheck.shuffledSubarray(
        Array.from({ length: size }, (_, i) => i),
        { minLength: size }
      )
    })
  })

/** The order in which rollouts end does not matter. */
export const orderFree = (algorithm: Subject, options: PropertyOptions) =>
  Cases.all(
    options,
    several(options),
    ({ groups, order }) =>
      Effect.gen(function* () {
        const rollouts = Cases.rolloutsOf(groups, options).flat()
        const arriving = order.map((i) => rollouts[i]!)
        const before = signals(yield* Trial.of(algorithm, rollouts, options), ids(rollouts))
        const after = signals(yield* Trial.of(algorithm, arriving, options), ids(rollouts))
        return seen(
          difference(before, after, (i) => rollouts[i]!.id),
          before
        )
      }),
    ({ groups, order }) => `${Cases.shown(groups)}, then ending in the order ${order.join(", ")}`
  )

/** A group's credit is what it would be alone. */
export const separateGroups = (algorithm: Subject, options: PropertyOptions) =>
  Cases.all(
    options,
    FastCheck.array(Cases.members(options), { minLength: 2, maxLength: 3 }),
    (groups) =>
      Effect.gen(function* () {
        const made = Cases.rolloutsOf(groups, options)
        const together = yield* Trial.of(algorithm, made.flat(), options)
        const alone = yield* Effect.forEach(made, (rollouts) =>
          Effect.map(Trial.of(algorithm, rollouts, options), (outcomes) => signals(outcomes, ids(rollouts)))
        )
        const all = ids(made.flat())
        const why = difference(alone.flat(), signals(together, all), (i) => `${all[i]} alone`)
        return seen(why === undefined ? undefined : `${why} beside other groups`, alone.flat())
      }),
    Cases.shown
  )

/** Of two rollouts of a group that say the same, the better has no lower advantage on any token. */
export const monotone = (algorithm: Subject, options: PropertyOptions) =>
  Cases.all(
    options,
    FastCheck.constantFrom(...Cases.traces).chain((trace) => Cases.members(options, trace)),
    (group) =>
      Effect.gen(function* () {
        const [rollouts] = Cases.rolloutsOf([group], options)
        const outcomes = yield* Trial.of(algorithm, rollouts!, options)
        const rl = signals(outcomes, ids(rollouts!)).map(Trial.rlOf)
        for (const [a, better] of rollouts!.entries()) {
          for (const [b, worse] of rollouts!.entries()) {
            if (better.reward <= worse.reward || rl[a]!.length === 0 || rl[b]!.length === 0) continue
            if (rl[a]!.every((value, i) => value >= rl[b]![i]! - 1e-6)) continue
            return Cases.wrong(
              `reward ${better.reward} gets ${Trial.shown(rl[a]!)} and reward ${worse.reward}, which is less, gets ${Trial.shown(rl[b]!)}`
            )
          }
        }
        return Cases.fine(any(rl))
      }),
    (group) => Cases.shown([group])
  )

/** Equal rewards say nothing of which answer is better: no token is trained by `rl`. */
export const silentWhenEqual = (algorithm: Subject, options: PropertyOptions) =>
  Cases.all(
    options,
    FastCheck.record({
      reward: FastCheck.constantFrom(...[0, 0.1, 0.2, 0.3, 0.7, 0.95, 1]),
      size: FastCheck.integer({ min: 2, max: 10 })
    }),
    ({ reward, size }) =>
      Effect.gen(function* () {
        const group = Array.from({ length: size }, () => ({ reward, trace: Cases.plain }))
        const [rollouts] = Cases.rolloutsOf([group], options)
        const outcomes = yield* Trial.of(algorithm, rollouts!, options)
        const loud = signals(outcomes, ids(rollouts!)).findIndex((signal) => Trial.rlOf(signal).some((v) => v !== 0))
        return loud === -1
          ? Cases.fine()
          : Cases.wrong(`${rollouts![loud]!.id} gets ${Trial.shown(Trial.signalOf(outcomes.get(rollouts![loud]!.id)))}`)
      }),
    ({ reward, size }) => `${size} rewards of ${reward}`
  )
