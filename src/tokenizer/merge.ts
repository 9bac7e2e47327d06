/**
 * Byte-pair merging of one pre-token: of all adjacent pairs the one of the lowest rank merges, the leftmost first, until
 * none can. The two procedures give the same ids; the first is quadratic and fastest on words, the second is
 * O(n log n) and carries long runs (base64, a line of dashes).
 */
import { type MergeTable, rankOf, resultOf } from "./MergeTable.ts"

const never = 0x7fffffff

let rankBuffer = new Int32Array(64)

const rankAt = (ids: Int32Array, at: number, length: number, table: MergeTable): number => {
  if (at + 1 >= length) return never
  const rank = rankOf(table, ids[at]!, ids[at + 1]!)
  return rank < 0 ? never : rank
}

/** Merges the first `length` entries of `ids` in place by scanning, and returns how many remain. @category merging */
export const mergeByScan = (ids: Int32Array, length: number, table: MergeTable): number => {
  if (rankBuffer.length < length) rankBuffer = new Int32Array(length)
  const ranks = rankBuffer
  for (let at = 0; at < length; at++) ranks[at] = rankAt(ids, at, length, table)
  for (;;) {
    let best = 0
    let lowest = never
    for (let at = 0; at < length; at++) {
      if (ranks[at]! < lowest) {
        lowest = ranks[at]!
        best = at
      }
    }
    if (lowest === never) return length
    ids[best] = resultOf(table, ids[best]!, ids[best + 1]!)
    length--
    for (let at = best + 1; at < length; at++) {
      ids[at] = ids[at + 1]!
      ranks[at] = ranks[at + 1]!
    }
    ranks[best] = rankAt(ids, best, length, table)
    if (best > 0) ranks[best - 1] = rankAt(ids, best - 1, length, table)
  }
}

/** Numbers, the smallest on top. */
const makeHeap = () => {
  const heap: Array<number> = []
  return {
    top: (): number | undefined => heap[0],
    push: (key: number) => {
      let at = heap.push(key) - 1
      while (at > 0) {
        const parent = (at - 1) >> 1
        if (heap[parent]! <= key) break
        heap[at] = heap[parent]!
        at = parent
      }
      heap[at] = key
    },
    pop: () => {
      const last = heap.pop()
      if (last === undefined || heap.length === 0) return
      let at = 0
      for (;;) {
        let child = 2 * at + 1
        if (child >= heap.length) break
        if (child + 1 < heap.length && heap[child + 1]! < heap[child]!) child++
        if (heap[child]! >= last) break
        heap[at] = heap[child]!
        at = child
      }
      heap[at] = last
    }
  }
}

/** The places of one rank: most come in order and cost nothing to keep so, the others wait in a heap. */
const makePlaces = () => {
  const ordered: Array<number> = []
  const late = makeHeap()
  let done = 0
  return {
    add: (place: number) => {
      if (ordered.length === 0 || place >= ordered[ordered.length - 1]!) ordered.push(place)
      else late.push(place)
    },
    /** takes the leftmost, −1 when there is none */
    take: (): number => {
      const next = ordered[done]
      const other = late.top()
      if (other !== undefined && (next === undefined || other < next)) {
        late.pop()
        return other
      }
      if (next === undefined) return -1
      done++
      return next
    }
  }
}

/** As {@link mergeByScan}, with a linked list of tokens and, per rank, the places where it may merge. @category merging */
export const mergeByHeap = (ids: Int32Array, length: number, table: MergeTable): number => {
  const next = new Int32Array(length)
  const previous = new Int32Array(length)
  const gone = new Uint8Array(length)
  const ranks = makeHeap()
  const placesOf = new Map<number, ReturnType<typeof makePlaces>>()
  const rankAfter = (at: number): number => {
    const right = next[at]!
    return right < length ? rankOf(table, ids[at]!, ids[right]!) : -1
  }
  const consider = (at: number) => {
    const rank = rankAfter(at)
    if (rank < 0) return
    let places = placesOf.get(rank)
    if (places === undefined) {
      places = makePlaces()
      placesOf.set(rank, places)
      ranks.push(rank)
    }
    places.add(at)
  }
  for (let at = 0; at < length; at++) {
    next[at] = at + 1
    previous[at] = at - 1
  }
  for (let at = 0; at < length; at++) consider(at)
  for (let rank = ranks.top(); rank !== undefined; rank = ranks.top()) {
    const at = placesOf.get(rank)!.take()
    if (at < 0) {
      // no other rank is lower, so that this one is still on top
      placesOf.delete(rank)
      ranks.pop()
      continue
    }
    // a place is stale when one of its two tokens has merged since
    if (gone[at] === 1 || rankAfter(at) !== rank) continue
    const right = next[at]!
    const after = next[right]!
    ids[at] = resultOf(table, ids[at]!, ids[right]!)
    gone[right] = 1
    next[at] = after
    if (after < length) previous[after] = at
    if (previous[at]! >= 0) consider(previous[at]!)
    consider(at)
  }
  let kept = 0
  for (let at = 0; at < length; at = next[at]!) ids[kept++] = ids[at]!
  return kept
}

const longestScan = 48

/** Merges in place by whichever procedure is faster at this length; returns how many ids remain. @category merging */
export const merge = (ids: Int32Array, length: number, table: MergeTable): number =>
  length <= longestScan ? mergeByScan(ids, length, table) : mergeByHeap(ids, length, table)
