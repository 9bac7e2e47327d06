/**
 * Work one piece at a time, each between two looks at the network. Node takes one new connection each time it looks: were
 * all that is ready answered in between, rollouts that begin together would wait for the whole of the others' turns.
 */

/** Does pieces of work later, in the order in which they came. @category model */
export type InTurn = (work: () => void) => void

/** @category constructors */
export const make = (): InTurn => {
  const waiting = new Set<() => void>()
  const next = () => {
    const [work] = waiting
    if (work === undefined) return
    waiting.delete(work)
    if (waiting.size > 0) setImmediate(next)
    work()
  }
  return (work) => {
    waiting.add(work)
    if (waiting.size === 1) setImmediate(next)
  }
}
