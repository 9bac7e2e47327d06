/** Ids end to end. */

/** The ids of all parts, one after the other. @category conversions */
export const concat = (parts: ReadonlyArray<Int32Array>): Int32Array => {
  const ids = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    ids.set(part, at)
    at += part.length
  }
  return ids
}
