/** Which groups are worth training on? Gates see a group once all of it has ended, and admit it or turn it away whole. */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Scored } from "../DependentSet.ts"
import { type Absent, absent } from "../Rollout.ts"
import { type Compiled, plannedOf } from "./items.ts"

/** Decides over the members of a group that have credit. @category model */
export interface Gate {
  readonly name: string
  readonly admits: (members: ReadonlyArray<Scored | Compiled>) => boolean | Effect.Effect<boolean>
}

interface Group<A> {
  readonly members: Array<A>
  ended: number
}

/**
 * Holds each group until its last member has ended, then asks the gates in order; the first that declines makes the
 * members `Absent` as `NotAdmitted`. A group that is still short when the input ends is decided with what there is.
 *
 * @category stages
 */
export const admit =
  (gates: ReadonlyArray<Gate>) =>
  <A extends Scored | Compiled, E, R>(self: Stream.Stream<A | Absent, E, R>): Stream.Stream<A | Absent, E, R> =>
    Stream.suspend(() => {
      const groups = new Map<string, Group<A>>()
      const decide = (members: ReadonlyArray<A>): Effect.Effect<ReadonlyArray<A | Absent>> =>
        Effect.gen(function* () {
          if (members.length === 0) return members
          for (const { admits, name } of gates) {
            const admitted = admits(members)
            if (typeof admitted === "boolean" ? admitted : yield* admitted) continue
            return members.map(({ rollout }) => absent(rollout, { _tag: "NotAdmitted", gate: name }))
          }
          return members
        })
      const end = (item: A | Absent): Effect.Effect<ReadonlyArray<A | Absent>> => {
        const { group, source } = plannedOf(item)
        const key = JSON.stringify([source, group.id])
        const known = groups.get(key) ?? { members: [], ended: 0 }
        groups.set(key, known)
        known.ended++
        if (item._tag !== "Absent") known.members.push(item)
        const gone = item._tag === "Absent" ? [item] : []
        if (known.ended < group.size) return Effect.succeed(gone)
        groups.delete(key)
        return Effect.map(decide(known.members), (members) => [...gone, ...members])
      }
      const flat = (parts: ReadonlyArray<ReadonlyArray<A | Absent>>) => Chunk.unsafeFromArray(parts.flat())
      return Stream.concat(
        Stream.mapChunksEffect(self, (chunk) => Effect.map(Effect.forEach(chunk, end), flat)),
        Stream.unwrap(
          Effect.suspend(() =>
            Effect.map(
              Effect.forEach(Array.from(groups.values()), ({ members }) => decide(members)),
              (parts) => Stream.fromChunk(flat(parts))
            )
          )
        )
      )
    })
