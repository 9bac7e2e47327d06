/** One piece to its ids: first one id per byte (or character), then merges. */
import type { MergeTable } from "./MergeTable.ts"
import { merge } from "./merge.ts"
import * as PieceMemory from "./PieceMemory.ts"

/** @category model */
export interface Wholes {
  /** id of the entry that is these bytes, −1 for none */
  readonly find: (bytes: Uint8Array, length: number) => number
  /** bytes of the longest entry */
  readonly longest: number
}

/** @category model */
export interface BpeParts {
  /** id of each byte that has no better token, indexed by byte value */
  readonly idOfByte: Int32Array
  /** id, or −1, of characters that are tokens by themselves, by code point; undefined when the vocabulary spells bytes */
  readonly idOfCharacter: Int32Array | undefined
  readonly table: MergeTable
  /** the ids that whole pieces take without merging, found by their UTF-8 (`ignore_merges`) */
  readonly wholes: Wholes | undefined
}

/** Ids so far; grows. @category model */
export interface Output {
  ids: Int32Array
  count: number
}

/** @category output */
export const reserve = (output: Output, more: number): void => {
  if (output.ids.length >= output.count + more) return
  const longer = new Int32Array(Math.max(output.count + more, output.ids.length * 2))
  longer.set(output.ids.subarray(0, output.count))
  output.ids = longer
}

const pointAt = (units: Uint16Array, at: number, to: number): number => {
  const unit = units[at]!
  return (unit & 0xfc00) === 0xd800 && at + 1 < to ? ((unit & 0x3ff) << 10) + (units[at + 1]! & 0x3ff) + 0x10000 : unit
}

/** Writes the UTF-8 of a code point, and returns how many bytes it has. */
const writeUtf8 = (bytes: Uint8Array | Int32Array, at: number, point: number): number => {
  if (point < 0x80) {
    bytes[at] = point
    return 1
  }
  if (point < 0x800) {
    bytes[at] = 0xc0 | (point >> 6)
    bytes[at + 1] = 0x80 | (point & 63)
    return 2
  }
  if (point < 0x10000) {
    bytes[at] = 0xe0 | (point >> 12)
    bytes[at + 1] = 0x80 | ((point >> 6) & 63)
    bytes[at + 2] = 0x80 | (point & 63)
    return 3
  }
  bytes[at] = 0xf0 | (point >> 18)
  bytes[at + 1] = 0x80 | ((point >> 12) & 63)
  bytes[at + 2] = 0x80 | ((point >> 6) & 63)
  bytes[at + 3] = 0x80 | (point & 63)
  return 4
}

const utf8Length = (units: Uint16Array, from: number, to: number): number => {
  let length = 0
  for (let at = from; at < to; at++) {
    const unit = units[at]!
    // each half of a pair has two of the four bytes
    length += unit < 0x80 ? 1 : unit < 0x800 || (unit & 0xf800) === 0xd800 ? 2 : 3
  }
  return length
}

/** A function that appends the ids of a piece of a text. @category constructors */
export const make = ({ idOfByte, idOfCharacter, table, wholes }: BpeParts) => {
  const memory = PieceMemory.make()
  const short = new Int32Array(PieceMemory.longestPiece * 3)
  const bytes = new Uint8Array((wholes?.longest ?? 0) + 4)

  const firstIds = (units: Uint16Array, from: number, to: number, ids: Int32Array): number => {
    let length = 0
    for (let at = from; at < to; ) {
      const point = pointAt(units, at, to)
      at += point > 0xffff ? 2 : 1
      const id = idOfCharacter === undefined || point >= idOfCharacter.length ? -1 : idOfCharacter[point]!
      if (id >= 0) ids[length++] = id
      else {
        for (const end = length + writeUtf8(ids, length, point); length < end; length++) {
          ids[length] = idOfByte[ids[length]!]!
        }
      }
    }
    return length
  }
  const wholeOf = (units: Uint16Array, from: number, to: number): number => {
    if (wholes === undefined) return -1
    let length = 0
    for (let at = from; at < to; ) {
      if (length > wholes.longest) return -1
      const point = pointAt(units, at, to)
      at += point > 0xffff ? 2 : 1
      length += writeUtf8(bytes, length, point)
    }
    return length > wholes.longest ? -1 : wholes.find(bytes, length)
  }
  /** the ids of a piece, at the start of `ids`, which has room for one per byte; returns how many */
  const compute = (units: Uint16Array, from: number, to: number, ids: Int32Array): number => {
    const whole = wholeOf(units, from, to)
    if (whole < 0) return merge(ids, firstIds(units, from, to, ids), table)
    ids[0] = whole
    return 1
  }
  const append = (output: Output, ids: Int32Array, count: number) => {
    reserve(output, count)
    for (let at = 0; at < count; at++) output.ids[output.count + at] = ids[at]!
    output.count += count
  }

  return (units: Uint16Array, from: number, to: number, output: Output): void => {
    if (to - from > PieceMemory.longestPiece) {
      const long = new Int32Array(utf8Length(units, from, to))
      append(output, long, compute(units, from, to, long))
      return
    }
    const entry = memory.find(units, from, to)
    if (entry >= 0) {
      reserve(output, PieceMemory.longestPiece * 3)
      output.count += memory.copy(entry, output.ids, output.count)
      return
    }
    const count = compute(units, from, to, short)
    memory.add(units, from, to, short, count)
    append(output, short, count)
  }
}
