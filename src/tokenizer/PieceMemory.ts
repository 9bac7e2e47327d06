/**
 * Remembers the ids of pieces, by their UTF-16 code units, in flat arrays: a piece that is found allocates nothing and
 * makes no string. When it is full it begins anew, so that what it holds is bounded.
 */

/** @category model */
export interface PieceMemory {
  /** entry of the piece, −1 when it is not remembered */
  readonly find: (units: Uint16Array, from: number, to: number) => number
  /** copies the ids of an entry to `out`, and returns how many they are */
  readonly copy: (entry: number, out: Int32Array, at: number) => number
  /** remembers the piece that was last sought, and not found */
  readonly add: (units: Uint16Array, from: number, to: number, ids: Int32Array, count: number) => void
}

/** Longer pieces are rare and take long to compare. @category constants */
export const longestPiece = 128

const mostEntries = 1 << 16
const mostUnits = 1 << 20
const mostIds = 1 << 19

/** @category constructors */
export const make = (): PieceMemory => {
  const mask = mostEntries * 2 - 1
  const slots = new Int32Array(mask + 1)
  const units = new Uint16Array(mostUnits)
  const ids = new Int32Array(mostIds)
  // per entry: hash, start of its units, their number, start of its ids, and after the last entry where the next ids begin
  const entries = new Int32Array((mostEntries + 1) * 4)
  let count = 0
  let unitCount = 0
  let idCount = 0
  let soughtSlot = 0
  let soughtHash = 0
  return {
    find: (text, from, to) => {
      let hash = to - from
      for (let at = from; at < to; at++) hash = Math.imul(hash ^ text[at]!, 0x01000193)
      hash ^= hash >>> 15
      let slot = hash & mask
      for (let entry = slots[slot]!; entry !== 0; entry = slots[slot]!) {
        const at = entry << 2
        if (entries[at] === hash && entries[at + 2] === to - from) {
          const start = entries[at + 1]! - from
          let place = from
          while (place < to && units[start + place] === text[place]) place++
          if (place === to) return entry
        }
        slot = (slot + 1) & mask
      }
      soughtSlot = slot
      soughtHash = hash
      return -1
    },
    copy: (entry, out, at) => {
      const start = entries[(entry << 2) + 3]!
      const end = entries[(entry << 2) + 7]!
      for (let from = start; from < end; from++) out[at + from - start] = ids[from]!
      return end - start
    },
    add: (text, from, to, found, length) => {
      if (count + 1 === mostEntries || unitCount + to - from > mostUnits || idCount + length > mostIds) {
        slots.fill(0)
        count = 0
        unitCount = 0
        idCount = 0
        soughtSlot = soughtHash & mask
      }
      count++
      slots[soughtSlot] = count
      const entry = count << 2
      entries[entry] = soughtHash
      entries[entry + 1] = unitCount
      entries[entry + 2] = to - from
      entries[entry + 3] = idCount
      for (let place = from; place < to; place++) units[unitCount++] = text[place]!
      for (let place = 0; place < length; place++) ids[idCount++] = found[place]!
      entries[entry + 7] = idCount
    }
  }
}
