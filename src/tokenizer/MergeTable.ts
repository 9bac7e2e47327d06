/**
 * Which pairs of tokens merge, and in what order. A pair is found by open addressing in one flat array, where what is
 * asked of it lies side by side: no object and no string per merge, and a lookup allocates nothing.
 */

/** @category model */
export interface MergeTable {
  /** left id, right id, rank and resulting id per slot; rank −1 where it is free */
  readonly slots: Int32Array
  /** number of slots less one; their number is a power of two */
  readonly mask: number
}

const hash = (left: number, right: number): number => {
  const mixed = Math.imul(left ^ Math.imul(right, 0x9e3779b1), 0x85ebca6b)
  return mixed ^ (mixed >>> 15)
}

/** Where the pair is in `slots`, or would be. @category lookup */
export const place = ({ mask, slots }: MergeTable, left: number, right: number): number => {
  let at = (hash(left, right) & mask) << 2
  while (slots[at + 2]! >= 0 && (slots[at] !== left || slots[at + 1] !== right)) at = (at + 4) & ((mask << 2) | 3)
  return at
}

/** Rank of a pair of ids (lower merges sooner), −1 when it does not merge. @category lookup */
export const rankOf = (table: MergeTable, left: number, right: number): number =>
  table.slots[place(table, left, right) + 2]!

/** The id that a pair becomes which does merge. @category lookup */
export const resultOf = (table: MergeTable, left: number, right: number): number =>
  table.slots[place(table, left, right) + 3]!

/**
 * Three parallel arrays, one entry per merge in rank order. A pair that occurs twice keeps its later rank.
 *
 * @category constructors
 */
export const make = (lefts: Int32Array, rights: Int32Array, results: Int32Array): MergeTable => {
  let capacity = 16
  while (capacity < lefts.length * 2) capacity *= 2
  const slots = new Int32Array(capacity * 4)
  for (let at = 2; at < slots.length; at += 4) slots[at] = -1
  const table: MergeTable = { slots, mask: capacity - 1 }
  for (let rank = 0; rank < lefts.length; rank++) {
    const at = place(table, lefts[rank]!, rights[rank]!)
    slots[at] = lefts[rank]!
    slots[at + 1] = rights[rank]!
    slots[at + 2] = rank
    slots[at + 3] = results[rank]!
  }
  return table
}
