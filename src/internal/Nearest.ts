/** What a misspelt word was probably meant to be. Pure; a suggestion is made only when it is close. */

/**
 * Edits between two words: insertions, deletions, replacements and swaps of neighbours (restricted
 * Damerau–Levenshtein).
 *
 * @category algorithms
 */
export const editDistance = (from: string, to: string): number => {
  let beforeLast: Array<number> = []
  let last = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let row = 1; row <= from.length; row++) {
    const current = [row]
    for (let column = 1; column <= to.length; column++) {
      const same = from[row - 1] === to[column - 1]
      let cost = Math.min(last[column]! + 1, current[column - 1]! + 1, last[column - 1]! + (same ? 0 : 1))
      const swapped = row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]
      if (swapped) cost = Math.min(cost, beforeLast[column - 2]! + 1)
      current.push(cost)
    }
    beforeLast = last
    last = current
  }
  return last[to.length]!
}

/** The closest candidate, if a third of the letters or fewer (at least one) would have to change. @category algorithms */
export const nearest = (word: string, candidates: Iterable<string>): string | undefined => {
  let best: string | undefined
  let bestDistance = Number.POSITIVE_INFINITY
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase())
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best !== undefined && bestDistance <= Math.max(1, Math.floor(Math.max(word.length, best.length) / 3))
    ? best
    : undefined
}

/** A suggestion as a sentence, with the space behind it; nothing when no known name is close. @category algorithms */
export const didYouMean = (word: string, known: Iterable<string>): string => {
  const close = nearest(word, known)
  return close === undefined ? "" : `Did you mean "${close}"? `
}
