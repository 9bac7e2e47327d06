/** A text, as UTF-16 code units, and the ends of the pieces that it is cut into. Its arrays are used again for the next text. */

/** @category model */
export interface Cut {
  units: Uint16Array
  length: number
  /** ends of the pieces, in order; the last is `length` */
  ends: Int32Array
  count: number
  /** places of spaces that were put in and that the text does not have, in order */
  inserted: Array<number>
  spare: Int32Array
}

/** arrays longer than this are let go of when their text is done */
const kept = 1 << 20

/** @category constructors */
export const make = (): Cut => ({
  units: new Uint16Array(256),
  length: 0,
  ends: new Int32Array(64),
  count: 0,
  inserted: [],
  spare: new Int32Array(64)
})

/** Takes a text, as one piece. Half of a surrogate pair has no UTF-8; it is taken as U+FFFD. @category filling */
export const fill = (cut: Cut, text: string): void => {
  if (cut.units.length < text.length || cut.units.length > kept) {
    cut.units = new Uint16Array(Math.max(256, text.length + (text.length >> 2)))
  }
  if (cut.ends.length > kept) cut.ends = new Int32Array(64)
  if (cut.spare.length > kept) cut.spare = new Int32Array(64)
  if (text.length < 64) for (let at = 0; at < text.length; at++) cut.units[at] = text.charCodeAt(at)
  else Buffer.from(cut.units.buffer, 0, text.length * 2).write(text, "utf16le")
  for (let at = 0; at < text.length; at++) {
    if ((cut.units[at]! & 0xf800) !== 0xd800) continue
    const isHigh = cut.units[at]! < 0xdc00
    if (isHigh && at + 1 < text.length && (cut.units[at + 1]! & 0xfc00) === 0xdc00) at++
    else cut.units[at] = 0xfffd
  }
  cut.length = text.length
  cut.inserted.length = 0
  cut.count = 0
  endPiece(cut, text.length)
}

/** @category reading */
export const isPair = (units: Uint16Array, at: number, to: number): boolean =>
  (units[at]! & 0xfc00) === 0xd800 && at + 1 < to

/** Ends a piece here, unless it would be empty. @category filling */
export const endPiece = (cut: Cut, end: number): void => {
  if (end === (cut.count === 0 ? 0 : cut.ends[cut.count - 1])) return
  if (cut.count === cut.ends.length) {
    const longer = new Int32Array(cut.count * 2)
    longer.set(cut.ends)
    cut.ends = longer
  }
  cut.ends[cut.count++] = end
}

/** Cuts each piece further; `each` ends the pieces of one. @category cutting */
export const refine = (cut: Cut, each: (units: Uint16Array, from: number, to: number) => void): void => {
  const { count, ends } = cut
  cut.ends = cut.spare
  cut.spare = ends
  cut.count = 0
  let from = 0
  for (let piece = 0; piece < count; piece++) {
    const to = ends[piece]!
    each(cut.units, from, to)
    from = to
  }
}

const space = 32

/** Puts a space before each piece that does not begin with one. @category cutting */
export const prefixSpaces = (cut: Cut): void => {
  const units = new Uint16Array(cut.length + cut.count)
  let from = 0
  let length = 0
  for (let piece = 0; piece < cut.count; piece++) {
    const to = cut.ends[piece]!
    if (cut.units[from] !== space) {
      cut.inserted.push(length)
      units[length++] = space
    }
    units.set(cut.units.subarray(from, to), length)
    length += to - from
    cut.ends[piece] = length
    from = to
  }
  cut.units = units
  cut.length = length
}

/** Ends a piece before each of these units that comes after another. @category cutting */
export const cutBefore = (cut: Cut, unit: number): void => {
  refine(cut, (units, from, to) => {
    for (let at = from + 1; at < to; at++) if (units[at] === unit && units[at - 1] !== unit) endPiece(cut, at)
    endPiece(cut, to)
  })
}
