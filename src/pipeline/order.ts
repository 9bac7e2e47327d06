/** Arrival decides nothing: what follows sees rollouts in the order in which they were dispatched. */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Ended } from "../Rollout.ts"
import { plannedOf } from "./items.ts"

/**
 * One source's rollouts in the order of `sequence`, from `first` on, whatever order they ended in; so state of
 * algorithms and batches do not depend on timing. Holds at most what is in flight. When the input ends with a gap, what
 * is held comes out in order. Two rollouts of one sequence number are a defect.
 *
 * @category stages
 */
export const inDispatchOrder =
  (first = 0) =>
  <E, R>(self: Stream.Stream<Ended, E, R>): Stream.Stream<Ended, E, R> =>
    Stream.suspend(() => {
      const early = new Map<number, Ended>()
      let next = first
      const take = (chunk: Iterable<Ended>) => {
        for (const ended of chunk) {
          const { id, sequence, source } = plannedOf(ended)
          if (sequence < next || early.has(sequence)) {
            return Effect.dieMessage(`source "${source}": rollout ${id} is the second of sequence number ${sequence}`)
          }
          early.set(sequence, ended)
        }
        const out: Array<Ended> = []
        for (let ended = early.get(next); ended !== undefined; ended = early.get(next)) {
          early.delete(next)
          next++
          out.push(ended)
        }
        return Effect.succeed(Chunk.unsafeFromArray(out))
      }
      const rest = () => {
        const held = Array.from(early).sort(([a], [b]) => a - b)
        early.clear()
        return held.map(([, ended]) => ended)
      }
      return Stream.concat(
        Stream.mapChunksEffect(self, take),
        Stream.suspend(() => Stream.fromIterable(rest()))
      )
    })
