/**
 * Deals items out to workers, the same number to each, so that the heaviest worker has as little as can be found fast:
 * the largest differencing method with equal cardinality (Karmarkar and Karp 1982; Michiels et al. 2003), then swaps.
 */

interface State {
  /** items of each part, heaviest part first */
  readonly parts: ReadonlyArray<{ readonly load: number; readonly items: ReadonlyArray<number> }>
}

const spread = ({ parts }: State) => parts[0]!.load - parts.at(-1)!.load

const byLoad = (parts: State["parts"]): State => ({ parts: [...parts].sort((a, b) => b.load - a.load) })

/** The heaviest part of one with the lightest of the other, and so on. */
const merge = (a: State, b: State): State =>
  byLoad(
    a.parts.map((part, i) => {
      const other = b.parts[b.parts.length - 1 - i]!
      return { load: part.load + other.load, items: [...part.items, ...other.items] }
    })
  )

const differencing = (weights: ReadonlyArray<number>, workers: number): Array<Array<number>> => {
  const order = weights.map((_, index) => index).sort((a, b) => weights[a]! - weights[b]! || a - b)
  const states: Array<State> = []
  for (let at = 0; at < order.length; at += workers) {
    states.push(byLoad(order.slice(at, at + workers).map((index) => ({ load: weights[index]!, items: [index] }))))
  }
  const later = (a: State, b: State) => spread(a) - spread(b) || a.parts[0]!.load - b.parts[0]!.load
  states.sort(later)
  while (states.length > 1) {
    const merged = merge(states.pop()!, states.pop()!)
    let at = states.length
    while (at > 0 && later(states[at - 1]!, merged) > 0) at--
    states.splice(at, 0, merged)
  }
  return states[0]!.parts.map(({ items }) => [...items])
}

/** Exchanges items between parts as long as that lowers the heaviest load, or its distance to the lightest. */
const refine = (parts: ReadonlyArray<Array<number>>, weights: ReadonlyArray<number>): void => {
  const loads = parts.map((items) => items.reduce((sum, item) => sum + weights[item]!, 0))
  for (;;) {
    const most = Math.max(...loads)
    const least = Math.min(...loads)
    let best: { readonly a: number; readonly b: number; readonly i: number; readonly j: number } | undefined
    let bestMost = most
    let bestSpread = most - least
    for (let a = 0; a < parts.length; a++) {
      for (let b = a + 1; b < parts.length; b++) {
        // Only the heaviest and the lightest part decide what is compared.
        const extreme = (part: number) => loads[part] === most || loads[part] === least
        if (!extreme(a) && !extreme(b)) continue
        const others = loads.filter((_, part) => part !== a && part !== b)
        const [highest, lowest] = [Math.max(...others), Math.min(...others)]
        for (let i = 0; i < parts[a]!.length; i++) {
          for (let j = 0; j < parts[b]!.length; j++) {
            const moved = weights[parts[a]![i]!]! - weights[parts[b]![j]!]!
            const loadA = loads[a]! - moved
            const loadB = loads[b]! + moved
            const nextMost = Math.max(highest, loadA, loadB)
            const nextSpread = nextMost - Math.min(lowest, loadA, loadB)
            if (nextMost < bestMost || (nextMost === bestMost && nextSpread < bestSpread)) {
              best = { a, b, i, j }
              bestMost = nextMost
              bestSpread = nextSpread
            }
          }
        }
      }
    }
    if (best === undefined) return
    const { a, b, i, j } = best
    const [x, y] = [parts[a]![i]!, parts[b]![j]!]
    parts[a]![i] = y
    parts[b]![j] = x
    loads[a]! += weights[y]! - weights[x]!
    loads[b]! += weights[x]! - weights[y]!
  }
}

/** Item indices of each worker, ascending; the number of items is a multiple of `workers`. */
export const balancedPartition = (weights: ReadonlyArray<number>, workers: number): Array<Array<number>> => {
  if (weights.length === 0) return Array.from({ length: workers }, () => [])
  const parts = workers === 1 ? [weights.map((_, index) => index)] : differencing(weights, workers)
  refine(parts, weights)
  return parts.map((items) => items.sort((a, b) => a - b))
}
