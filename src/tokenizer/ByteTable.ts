/** The bytes of every id, one after the other in one flat array. */

/** @category model */
export interface ByteTable {
  /** `starts[id]` to `starts[id + 1]` are the bytes of an id; one entry more than there are ids */
  readonly starts: Int32Array
  readonly bytes: Uint8Array
}

/** @category constructors */
export const make = (entries: ReadonlyArray<Uint8Array>): ByteTable => {
  const starts = new Int32Array(entries.length + 1)
  for (let id = 0; id < entries.length; id++) starts[id + 1] = starts[id]! + entries[id]!.length
  const bytes = new Uint8Array(starts[entries.length]!)
  for (let id = 0; id < entries.length; id++) bytes.set(entries[id]!, starts[id]!)
  return { starts, bytes }
}

/** Puts `content` in the place of each `sought` within an entry. @category constructors */
export const replaced = ({ bytes, starts }: ByteTable, sought: Uint8Array, content: Uint8Array): ByteTable => {
  const made = {
    starts: new Int32Array(starts.length),
    bytes: new Uint8Array(sought.length >= content.length ? bytes.length : bytes.length * content.length)
  }
  let length = 0
  for (let id = 0; id + 1 < starts.length; id++) {
    const end = starts[id + 1]!
    for (let at = starts[id]!; at < end; ) {
      let same = 0
      while (same < sought.length && at + same < end && bytes[at + same] === sought[same]) same++
      if (same === sought.length) {
        made.bytes.set(content, length)
        length += content.length
        at += same
      } else made.bytes[length++] = bytes[at++]!
    }
    made.starts[id + 1] = length
  }
  return { starts: made.starts, bytes: made.bytes.slice(0, length) }
}

/** Finds ids by their bytes, of those that `counts` names; −1 where there is none. @category lookup */
export const finder = ({ bytes, starts }: ByteTable, counts: (id: number) => boolean) => {
  const size = starts.length - 1
  let capacity = 16
  while (capacity < size * 2) capacity *= 2
  const slots = new Int32Array(capacity).fill(-1)
  const place = (key: Uint8Array, from: number, length: number): number => {
    let hash = length
    for (let at = 0; at < length; at++) hash = Math.imul(hash ^ key[from + at]!, 0x01000193)
    let slot = (hash ^ (hash >>> 15)) & (capacity - 1)
    for (;;) {
      const id = slots[slot]!
      if (id < 0) return slot
      const start = starts[id]!
      if (starts[id + 1]! - start === length) {
        let same = 0
        while (same < length && bytes[start + same] === key[from + same]) same++
        if (same === length) return slot
      }
      slot = (slot + 1) & (capacity - 1)
    }
  }
  let longest = 0
  for (let id = 0; id < size; id++) {
    if (!counts(id)) continue
    const length = starts[id + 1]! - starts[id]!
    slots[place(bytes, starts[id]!, length)] = id
    longest = Math.max(longest, length)
  }
  return { longest, find: (key: Uint8Array, length: number): number => slots[place(key, 0, length)]! }
}
