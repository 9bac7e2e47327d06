/** What algorithms are tried on: groups of rollouts, drawn from a seed and made small when one of them fails. */
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import type { Rollout } from "../../Rollout.ts"
import type { Trace } from "../../Trace.ts"
import { type GroupPlace, type Member, type PropertyOptions, Verdict } from "../Property.ts"
import { rollout } from "../rollouts.ts"
import { conversation, forked, node, toolUse } from "../traces.ts"

/** One turn of two tokens. */
export const plain: Trace = conversation(node("user", [1, 2]), node("assistant", [3, 4]))

/** One turn of a single token. */
export const oneToken: Trace = conversation(node("user", [1]), node("assistant", [3]))

/** Two answers to one prompt. */
export const twoBranches: Trace = forked(plain, 0, node("assistant", [5, 6, 7]))

/** What can have been said: a turn, a tool's answer in between, a second answer. */
export const traces: ReadonlyArray<Trace> = [plain, toolUse, twoBranches]

const one: NonNullable<PropertyOptions["group"]> = (members, { group, sequence }) =>
  members.map(({ reward, trace }, i) =>
    rollout({
      id: `${group}/${i}`,
      example: group,
      sequence: sequence + i,
      group: { id: group, size: members.length },
      info: { demonstration: "like this" },
      reward,
      trace
    })
  )

/** Groups one after the other, as they would be dispatched; traces of their own, whatever is done to them. */
export const rolloutsOf = (
  groups: ReadonlyArray<ReadonlyArray<Member>>,
  { group = one }: PropertyOptions
): ReadonlyArray<ReadonlyArray<Rollout>> => {
  let sequence = 0
  return groups.map((members, i) => {
    const place: GroupPlace = { group: `g${i}`, sequence }
    const made = group(structuredClone(members), place)
    sequence += made.length
    return made
  })
}

/** Rewards on a grid of eighths between the lowest and the highest, so that ties are common. */
const rewardIn = ([low, high]: readonly [number, number]) =>
  FastCheck.integer({ min: 0, max: 8 }).map((step) => low + ((high - low) * step) / 8)

const range = ({ rewards = [0, 1] }: PropertyOptions) => rewards

/** A group of two to six; of one trace each, or all of the same. */
export const members = (options: PropertyOptions, only?: Trace) =>
  FastCheck.array(
    FastCheck.record({
      reward: rewardIn(range(options)),
      trace: only === undefined ? FastCheck.constantFrom(...traces) : FastCheck.constant(only)
    }),
    { minLength: 2, maxLength: 6 }
  )

/** How a case is named in a counterexample. */
export const shown = (groups: ReadonlyArray<ReadonlyArray<Member>>): string =>
  groups
    .map(
      (members, i) =>
        `rewards [${members.map(({ reward }) => reward).join(", ")}]${groups.length > 1 ? ` in g${i}` : ""}`
    )
    .join(" and ")

/** What one case showed: `why` when it is wrong, and whether there was anything to be wrong. */
export interface Seen {
  readonly why?: string | undefined
  readonly any: boolean
}

/** A case that is as it should be. */
export const fine = (any = true): Seen => ({ any })
/** A case that is not. */
export const wrong = (why: string): Seen => ({ why, any: true })

/** Tries a property on drawn cases; one that fails is made as small as it still fails. */
export const all = <A>(
  { runs = 20, seed = 0 }: PropertyOptions,
  arbitrary: FastCheck.Arbitrary<A>,
  test: (value: A) => Effect.Effect<Seen, string>,
  show: (value: A) => string
): Effect.Effect<Verdict> =>
  Effect.gen(function* () {
    let any = false
    const tried = (value: A) =>
      Effect.merge(Effect.mapBoth(test(value), { onFailure: wrong, onSuccess: (seen) => seen }))
    const property = FastCheck.asyncProperty(arbitrary, (value) =>
      Effect.runPromise(tried(value)).then((seen) => {
        any ||= seen.any
        return seen.why === undefined
      })
    )
    const details = yield* Effect.promise(() => FastCheck.check(property, { numRuns: runs, seed }))
    const found = details.counterexample?.[0]
    if (found !== undefined && found !== null) {
      const { why } = yield* tried(found)
      return Verdict.Fails({ why: why ?? "it failed once and held when it was tried again", example: show(found) })
    }
    return any ? Verdict.Holds() : Verdict.DoesNotApply({ why: "nothing of what it says is concerned" })
  })
