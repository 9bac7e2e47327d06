/**
 * Which request is one that was made before. A client that had no answer in time asks again with the same body, and must
 * get the turn that is sampled or was, since a second one would be another branch of the rollout.
 *
 * The same body is the same question. An agent that asks it a fourth time, having had a whole answer three times, does not
 * mean a retry: it would be told the same for ever.
 */
import type { Turn } from "./Turn.ts"

/** How often a whole answer is given to one question, unless the client says that it tries again. */
const mostRepeats = 3

/** Turns that are remembered once they are done; agents that run side by side take turns. */
const mostDone = 32

interface Entry {
  readonly turn: Turn
  taken: number
}

/** @category model */
export interface Replays {
  readonly find: (digest: string, options: { readonly isRetry: boolean }) => Turn | undefined
  readonly add: (digest: string, turn: Turn) => void
  readonly remove: (digest: string, turn: Turn) => void
  /** A client has the whole answer. */
  readonly taken: (digest: string, turn: Turn) => void
  readonly turns: () => Iterable<Turn>
}

/** @category constructors */
export const make = (): Replays => {
  const entries = new Map<string, Entry>()
  const drop = () => {
    for (const [digest, { turn }] of entries) {
      if (entries.size <= mostDone) return
      if (turn.isDone()) entries.delete(digest)
    }
  }
  return {
    find: (digest, { isRetry }) => {
      const entry = entries.get(digest)
      return entry === undefined || (entry.taken >= mostRepeats && !isRetry) ? undefined : entry.turn
    },
    add: (digest, turn) => {
      // the latest comes last
      entries.delete(digest)
      entries.set(digest, { turn, taken: 0 })
      drop()
    },
    remove: (digest, turn) => {
      if (entries.get(digest)?.turn === turn) entries.delete(digest)
    },
    taken: (digest, turn) => {
      const entry = entries.get(digest)
      if (entry?.turn === turn) entry.taken++
    },
    turns: () => Array.from(entries.values(), ({ turn }) => turn)
  }
}
