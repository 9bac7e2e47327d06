/**
 * Runs planned rollouts and hands them back with their credit. Every planned rollout comes back exactly once, as a
 * compiled rollout or as an absence with a reason, and what has ended is journaled before its algorithm sees it.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Mailbox from "effect/Mailbox"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { Algorithm } from "../Algorithm.ts"
import * as DependentSet from "../DependentSet.ts"
import { Journal, JournalError } from "../Journal.ts"
import * as Permits from "../Permits.ts"
import * as Pipeline from "../Pipeline.ts"
import { plannedOf } from "../pipeline/items.ts"
import { start } from "../pipeline/sources.ts"
import type { Absent, Ended, Planned } from "../Rollout.ts"

/** What the dispatcher needs of a source: how one planned rollout is run, and who scores it. @category model */
export interface Source<E, R, R2> {
  readonly name: string
  readonly run: (planned: Planned) => Effect.Effect<Ended, never, R2>
  readonly algorithm: Layer.Layer<Algorithm, E, R>
  /** its rollouts do not come from the policy, whichever weights that has (false) */
  readonly frozen?: boolean | undefined
  /** `sequence` of the first rollout that this process will plan */
  readonly firstSequence: number
}

/** @category model */
export type Item = Pipeline.Compiled | Absent

/** @category model */
export interface Dispatcher<E, R2> {
  /** Runs what was planned for `step` and returns it, in the order of planning, once all of it has its credit. */
  readonly run: (
    step: number,
    planned: ReadonlyArray<Planned>
  ) => Effect.Effect<ReadonlyArray<Item>, JournalError | OpenSetError | E, R2>
}

/** The same end, filed under a plan that this process made. */
const replanned = (ended: Ended, planned: Planned): Ended =>
  ended._tag === "Absent" ? { ...ended, planned } : { ...ended, ...planned }

interface Input<E, R, R2> {
  readonly source: Source<E, R, R2>
  readonly ended: Queue.Queue<Ended>
  readonly rule: DependentSet.Rule
}

/** A rollout whose rule breaks waits for no set: it ends with what the rule threw. */
const setsOf = (rule: DependentSet.Rule, one: Planned) =>
  Either.getOrElse(DependentSet.membershipsOf(rule, one), () => [])

/** Sets of `rule` that what is planned leaves without some of their members: a step would wait for them for ever. */
const openSet = (rule: DependentSet.Rule, planned: ReadonlyArray<Planned>) => {
  if (rule.opens !== undefined) return undefined
  const members = new Map<string, { readonly size: number; count: number }>()
  for (const { key, size } of planned.flatMap((one) => setsOf(rule, one))) {
    const set = members.get(key) ?? { size, count: 0 }
    set.count++
    members.set(key, set)
  }
  return Array.from(members, ([set, { count, size }]) => ({ set, count, size })).find(({ count, size }) => count < size)
}

/** A step does not plan all members of a dependent set. @category errors */
export class OpenSetError extends Data.TaggedError("OpenSetError")<{
  readonly source: string
  readonly rule: string
  readonly set: string
  readonly size: number
  /** members that the step plans */
  readonly count: number
}> {
  override get message() {
    return `source "${this.source}": the set "${this.set}" of the rule ${this.rule} has ${this.size} members and a step plans ${this.count} of them; plan more rollouts in a step, or depend on sets that one step fills`
  }
}

/** Starts one pipeline per source in the current scope. @category constructors */
export const make = <E, R, R2>(
  sources: ReadonlyArray<Source<E, R, R2>>,
  /** version of the weights that inference serves now */
  serving: Effect.Effect<number>
): Effect.Effect<Dispatcher<E, R2>, E, Scope.Scope | Journal | Permits.Permits | R> =>
  Effect.gen(function* () {
    const journal = yield* Journal
    const permits = yield* Permits.Permits
    const outputs = yield* Mailbox.make<Item, E>()
    const inputs = new Map<string, Input<E, R, R2>>()
    for (const source of sources) {
      const ended = yield* Queue.unbounded<Ended>()
      const algorithm = yield* start(source)
      inputs.set(source.name, { source, ended, rule: algorithm.dependsOn })
      yield* Pipeline.sampled({
        name: source.name,
        rollouts: Stream.fromQueue(ended).pipe(Pipeline.inDispatchOrder(source.firstSequence)),
        algorithm: Layer.succeed(Algorithm, algorithm)
      }).pipe(
        Stream.runForEachChunk((chunk) => outputs.offerAll(chunk)),
        Effect.catchAllCause((cause) => outputs.failCause(cause)),
        Effect.forkScoped
      )
    }

    const runOne = (step: number, planned: Planned) =>
      Effect.gen(function* () {
        const { ended, source } = inputs.get(planned.source)!
        const known = journal.find(planned.id)
        if (Option.isSome(known)) return yield* Queue.offer(ended, replanned(known.value, planned))
        if (source.frozen !== true && planned.policyVersion !== (yield* serving)) {
          return yield* new JournalError({
            file: planned.id,
            reason: `it was finished before the checkpoint and is not there any more, and the weights v${planned.policyVersion} that it needs are gone; put the run's rollouts back, or resume from the start`
          })
        }
        const result = yield* source.run(planned).pipe(permits.withPermits(planned.id))
        // Stopped with the process: not an end of its own, a resumed run plans it again.
        if (result._tag === "Absent" && result.reason._tag === "Cancelled" && result.reason.why === "shutdown") {
          return yield* Effect.interrupt
        }
        yield* journal.append(step, result)
        return yield* Queue.offer(ended, result)
      })

    /** Takes results until there is one for each id. Not `takeN`: it would wait for ever for those of a stage that failed. */
    const collect = (ids: ReadonlySet<string>) =>
      Effect.gen(function* () {
        const byId = new Map<string, Item>()
        while (byId.size < ids.size) {
          const [items, ended] = yield* outputs.takeAll
          if (ended) return yield* Effect.dieMessage(`sources ended with ${ids.size - byId.size} rollouts on their way`)
          for (const item of items) {
            const { id } = plannedOf(item)
            if (!ids.has(id)) return yield* Effect.dieMessage(`rollout ${id} came out of a step that did not plan it`)
            byId.set(id, item)
          }
        }
        return byId
      })

    return {
      run: (step, planned) =>
        Effect.gen(function* () {
          for (const [name, { rule }] of inputs) {
            const mine = planned.filter(({ source }) => source === name)
            const open = openSet(rule, mine)
            if (open !== undefined) return yield* new OpenSetError({ source: name, rule: rule.name, ...open })
          }
          yield* Effect.forEach(planned, (one) => runOne(step, one), { concurrency: "unbounded", discard: true })
          const byId = yield* collect(new Set(planned.map(({ id }) => id)))
          return planned.map(({ id }) => byId.get(id)!)
        })
    }
  })
