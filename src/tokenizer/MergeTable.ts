/**
 * Which pairs of tokens merge, and in what order. A pair is found by open addressing in flat integer arrays: no object
 * and no string per merge, so that a table of 150,000 merges is built in milliseconds and a lookup allocates nothing.
 */

/** @category model */
export interface MergeTable {
  /** rank of a pair of ids (lower merges sooner), −1 when the pair does not merge */
  readonly rankOf: (left: number, right: number) => number
  /** id that the pair of this rank becomes */
  readonly resultOf: (rank: number) => number
}

const hash = (left: number, right: number): number => {
  const mixed = Math.imul(left ^ Math.imul(right, 0x9e3779b1), 0x85ebca6b)
  return mixed ^ (mixed >>> 15)
}

/**
 * Three parallel arrays, one entry per merge in rank order. A pair that occurs twice keeps its later rank.
 *
 * @category constructors
 */
export const make = (lefts: Int32Array, rights: Int32Array, results: Int32Array): MergeTable => {
  let capacity = 16
  while (capacity < lefts.length * 2) capacity *= 2
  const slots = new Int32Array(capacity).fill(-1)
  const slotOf = (left: number, right: number): number => {
    let slot = hash(left, right) & (capacity - 1)
    for (;;) {
      const rank = slots[slot]!
      if (rank === -1 || (lefts[rank] === left && rights[rank] === right)) return slot
      slot = (slot + 1) & (capacity - 1)
    }
  }
  for (let rank = 0; rank < lefts.length; rank++) slots[slotOf(lefts[rank]!, rights[rank]!)] = rank
  return {
    rankOf: (left, right) => slots[slotOf(left, right)]!,
    resultOf: (rank) => results[rank]!
  }
}
