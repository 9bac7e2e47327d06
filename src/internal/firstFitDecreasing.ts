/** Packs sizes into bins of one capacity, and splits bins until there are enough of them. */

/**
 * First-fit decreasing: the largest first, each into the first bin that has room. Returns the indices in each bin; a size
 * over the capacity has a bin of its own. Equal sizes keep their order, so the same input packs the same way.
 */
export const firstFitDecreasing = (sizes: ReadonlyArray<number>, capacity: number): Array<Array<number>> => {
  const order = sizes.map((_, index) => index).sort((a, b) => sizes[b]! - sizes[a]! || a - b)
  // A tree of the most room left below each node finds the first bin that fits in logarithmic time.
  let leaves = 1
  while (leaves < sizes.length) leaves *= 2
  const room = new Float64Array(2 * leaves).fill(capacity)
  const bins: Array<Array<number>> = []
  for (const index of order) {
    const size = Math.min(sizes[index]!, capacity)
    let at = 1
    while (at < leaves) at = room[2 * at]! >= size ? 2 * at : 2 * at + 1
    const bin = at - leaves
    bins[bin] ??= []
    bins[bin].push(index)
    room[at]! -= size
    for (at >>= 1; at >= 1; at >>= 1) room[at] = Math.max(room[2 * at]!, room[2 * at + 1]!)
  }
  return bins
}

/**
 * Splits the costliest bin that has more than one member, the longest processing time first, until the number of bins is
 * a multiple of `workers` or no bin can be split. `cost` is that of the given members together.
 */
export const splitToFill = (
  bins: ReadonlyArray<ReadonlyArray<number>>,
  workers: number,
  cost: (members: ReadonlyArray<number>) => number
): Array<ReadonlyArray<number>> => {
  const split = [...bins]
  const target = Math.ceil(split.length / workers) * workers
  while (split.length < target) {
    let costliest = -1
    for (let i = 0; i < split.length; i++) {
      if (split[i]!.length > 1 && (costliest === -1 || cost(split[i]!) >= cost(split[costliest]!))) costliest = i
    }
    if (costliest === -1) break
    const left: Array<number> = []
    const right: Array<number> = []
    const byCost = [...split[costliest]!].sort((a, b) => cost([b]) - cost([a]))
    for (const member of byCost) (cost(left) <= cost(right) ? left : right).push(member)
    split[costliest] = left
    split.push(right)
  }
  return split
}
