/** What every algorithm must keep, whatever its formula: credit for all, the same each time, finite, and where it belongs. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Rollout from "../../Rollout.ts"
import { type Member, type PropertyOptions, type Subject, Verdict } from "../Property.ts"
import { reasons, without } from "../rollouts.ts"
import { conversation, node, toolUse } from "../traces.ts"
import * as Cases from "./Cases.ts"
import * as Trial from "./Trial.ts"

const groups = (options: PropertyOptions) => FastCheck.array(Cases.members(options), { minLength: 1, maxLength: 2 })

const firstFailure = (outcomes: Trial.Outcomes, rollouts: ReadonlyArray<Rollout.Rollout>): string | undefined => {
  for (const { id } of rollouts) {
    const failure = Trial.failureOf(outcomes.get(id))
    if (failure !== undefined) return `${id} gets no credit: ${failure}`
  }
  return undefined
}

/** Every rollout of an ordinary group is scored: one credit each, that fits its tokens. */
export const creditForAll = (algorithm: Subject, options: PropertyOptions) =>
  Cases.all(
    options,
    groups(options),
    (groups) =>
      Effect.gen(function* () {
        const rollouts = Cases.rolloutsOf(groups, options).flat()
        const outcomes = yield* Trial.of(algorithm, rollouts, options)
        const why = firstFailure(outcomes, rollouts)
        return why === undefined ? Cases.fine() : Cases.wrong(why)
      }),
    Cases.shown
  )

/** The same rollouts have the same credit, bit for bit. */
export const deterministic = (algorithm: Subject, options: PropertyOptions) =>
  Cases.all(
    options,
    groups(options),
    (groups) =>
      Effect.gen(function* () {
        const rollouts = Cases.rolloutsOf(groups, options).flat()
        const once = yield* Trial.of(algorithm, rollouts, options)
        const again = yield* Trial.of(algorithm, rollouts, options)
        for (const { id } of rollouts) {
          const [a, b] = [Trial.signalOf(once.get(id)), Trial.signalOf(again.get(id))]
          if (!Trial.isClose(a, b, 0)) {
            return Cases.wrong(`the credit of ${id} is ${Trial.shown(a)} and, asked again, ${Trial.shown(b)}`)
          }
        }
        return Cases.fine()
      }),
    Cases.shown
  )

/** A rollout belongs to the run: scoring leaves it as it was. */
export const leavesRollouts = (algorithm: Subject, options: PropertyOptions) =>
  Cases.all(
    options,
    groups(options),
    (groups) =>
      Effect.gen(function* () {
        const rollouts = Cases.rolloutsOf(groups, options).flat()
        const before = rollouts.map(Rollout.stringify)
        yield* Trial.of(algorithm, rollouts, options)
        const changed = rollouts.find((one, i) => Rollout.stringify(one) !== before[i])
        return changed === undefined ? Cases.fine() : Cases.wrong(`it changed rollout ${changed.id}`)
      }),
    Cases.shown
  )

/** Advantages and `rl` weights are about tokens that the policy sampled. */
export const rlOnSampled = (algorithm: Subject, options: PropertyOptions) =>
  Cases.all(
    options,
    Cases.members(options, toolUse),
    (group) =>
      Effect.gen(function* () {
        const [rollouts] = Cases.rolloutsOf([group], options)
        let any = false
        for (const outcome of (yield* Trial.of(algorithm, rollouts!, options)).values()) {
          if (outcome._tag === "Absent") continue
          for (const { over, stream, values, writer } of outcome.credit.claims) {
            if (stream !== "advantages" && stream !== "rl") continue
            any = true
            const message = over === "sampled" ? undefined : outcome.rollout.trace.nodes[over]
            const silent = typeof values === "number" ? values === 0 : values.every((value) => value === 0)
            if (message === undefined || message.sampled || silent) continue
            const what = stream === "rl" ? "rl weights" : "advantages"
            return Cases.wrong(
              `${writer} claims ${what} over message ${over}, which is the ${message.message.role}'s and not the policy's`
            )
          }
        }
        return Cases.fine(any)
      }),
    (group) => Cases.shown([group])
  )

interface Edge {
  readonly name: string
  readonly members: ReadonlyArray<Member>
  /** why number i does not count */
  readonly absent?: Readonly<Record<number, Rollout.Reason>> | undefined
}

const unsampled = conversation(node("user", [1, 2]), node("assistant", [3, 4], { mask: [0, 0] }))

const earned = (rewards: ReadonlyArray<number>, trace = Cases.plain): ReadonlyArray<Member> =>
  rewards.map((reward) => ({ reward, trace }))

/** Groups as they are met in the end. */
const edges: ReadonlyArray<Edge> = [
  { name: "equal rewards", members: earned([0.7, 0.7, 0.7]) },
  { name: "nearly equal rewards", members: earned([0.1, 0.1, 0.1 + 1e-12]) },
  { name: "one member", members: earned([1]) },
  { name: "rewards of 0", members: earned([0, 0, 0]) },
  { name: "negative rewards", members: earned([-1, -0.5, 0]) },
  { name: "huge rewards", members: earned([1e30, -1e30, 0]) },
  { name: "tiny rewards", members: earned([1e-30, 2e-30, 0]) },
  { name: "a single sampled token", members: earned([1, 0], Cases.oneToken) },
  { name: "two branches", members: earned([1, 0], Cases.twoBranches) },
  { name: "a member without sampled tokens", members: [...earned([1, 0]), { reward: 5, trace: unsampled }] },
  { name: "nothing but members without sampled tokens", members: earned([1, 0], unsampled) },
  { name: "a reward that is not a number", members: earned([1, Number.NaN, 0]) },
  ...reasons.map((reason) => ({
    name: `a member that is absent (${reason._tag})`,
    members: earned([1, 0, 0.5]),
    absent: { 2: reason }
  })),
  { name: "all but one absent", members: earned([1, 0]), absent: { 1: reasons[0]! } },
  { name: "all absent", members: earned([1, 0]), absent: { 0: reasons[0]!, 1: reasons[1]! } }
]

const tried = (algorithm: Subject, options: PropertyOptions, { absent = {}, members }: Edge) =>
  Effect.gen(function* () {
    const [rollouts] = Cases.rolloutsOf([members], options)
    const ended = without(rollouts!, absent)
    const outcomes = yield* Trial.of(algorithm, ended, options)
    for (const one of ended) {
      const { id } = Rollout.plannedOf(one)
      const outcome = outcomes.get(id)
      const failure = Trial.failureOf(outcome)
      if (failure !== undefined) return `${id} gets no credit: ${failure}`
      const due = Rollout.isTrainable(one) && Number.isFinite(one.reward)
      if (due && outcome?._tag === "Absent") return `${id} does not count: ${Rollout.explain(outcome.reason)}`
      if (!due && outcome?._tag !== "Absent") return `${id} counts, and must not`
      if (!Trial.signalOf(outcome).every((value) => Number.isFinite(value))) return `the credit of ${id} is not finite`
    }
    return undefined
  })

/** Whatever a group is like, its rollouts come out with finite credit, or absent for the reason that they had. */
export const finite = (algorithm: Subject, options: PropertyOptions): Effect.Effect<Verdict> =>
  Effect.gen(function* () {
    for (const edge of edges) {
      const why = Either.merge(yield* Effect.either(tried(algorithm, options, edge)))
      if (why !== undefined) return Verdict.Fails({ why, example: `${edge.name}: ${Cases.shown([edge.members])}` })
    }
    return Verdict.Holds()
  })
