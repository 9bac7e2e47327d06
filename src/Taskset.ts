/**
 * The examples of an environment. An example has a key that stays the same whatever the order, and the order in which
 * training takes examples follows from a seed and a position alone: epoch after epoch, each example once an epoch.
 */
import * as Data from "effect/Data"
import * as Seed from "./Seed.ts"

/** Held-out examples are never trained on. @category model */
export type Split = "train" | "eval"

/** Examples by key, in an order that positions follow. @category model */
export interface Taskset<T> {
  readonly name: string
  /** number of examples of a split */
  readonly size: (split: Split) => number
  /** key of the example at a position ≥ 0; after the last example the first epoch's successor begins */
  readonly keyAt: (split: Split, position: number) => string
  /** the example with this key */
  readonly find: (key: string) => T | undefined
}

/** A taskset that cannot be made or read. @category errors */
export class TasksetError extends Data.TaggedError("TasksetError")<{
  readonly taskset: string
  readonly reason: string
}> {
  override get message() {
    return `taskset ${this.taskset}: ${this.reason}`
  }
}

const keysOf = <T>(
  name: string,
  tasks: ReadonlyArray<T>,
  split: Split,
  key: ((task: T) => string) | undefined,
  found: Map<string, T>
): ReadonlyArray<string> =>
  tasks.map((task, index) => {
    const own = key === undefined ? `${split}/${index}` : key(task)
    if (found.has(own)) {
      throw new TasksetError({ taskset: name, reason: `two examples have the key "${own}"; keys are unique` })
    }
    found.set(own, task)
    return own
  })

/**
 * A taskset of examples in memory, in the order given. Without `evalTasks` it is evaluated on what it trains on.
 * Throws `TasksetError` when there is no example or when two have the same key.
 *
 * @category constructors
 */
export const make = <T>(options: {
  readonly name: string
  readonly tasks: ReadonlyArray<T>
  readonly evalTasks?: ReadonlyArray<T> | undefined
  /** identity of an example over all splits; its split and place when absent */
  readonly key?: ((task: NoInfer<T>) => string) | undefined
}): Taskset<T> => {
  const { evalTasks, key, name, tasks } = options
  if (tasks.length === 0) throw new TasksetError({ taskset: name, reason: "it has no examples; give at least one" })
  if (evalTasks?.length === 0) {
    throw new TasksetError({ taskset: name, reason: "evalTasks is empty; leave it out to evaluate on the tasks" })
  }
  const found = new Map<string, T>()
  const train = keysOf(name, tasks, "train", key, found)
  const held = evalTasks === undefined ? train : keysOf(name, evalTasks, "eval", key, found)
  const keys = (split: Split) => (split === "train" ? train : held)
  return {
    name,
    size: (split) => keys(split).length,
    keyAt: (split, position) => keys(split)[position % keys(split).length]!,
    find: (own) => found.get(own)
  }
}

/**
 * The same examples, the train split in an order that is drawn anew each epoch from `seed`. Held-out examples keep their
 * order, so that evaluating the first n of them is always the same measurement.
 *
 * @category combinators
 */
export const shuffle = <T>(self: Taskset<T>, seed: number): Taskset<T> => {
  const size = self.size("train")
  // Callers walk forward, so one epoch's order is all that is worth keeping.
  let kept: { readonly epoch: number; readonly order: Int32Array } | undefined
  const orderOf = (epoch: number) => {
    if (kept?.epoch !== epoch) kept = { epoch, order: Seed.permutation(size, Seed.of(seed, "epoch", self.name, epoch)) }
    return kept.order
  }
  return {
    ...self,
    keyAt: (split, position) =>
      split === "eval"
        ? self.keyAt(split, position)
        : self.keyAt(split, orderOf(Math.floor(position / size))[position % size]!)
  }
}

/** The first `count` examples of each split. @category combinators */
export const head = <T>(self: Taskset<T>, count: number): Taskset<T> => {
  if (!(Number.isInteger(count) && count > 0)) {
    throw new TasksetError({
      taskset: self.name,
      reason: `the first ${count} examples are none; give a whole number ≥ 1`
    })
  }
  const size = (split: Split) => Math.min(count, self.size(split))
  return { ...self, size, keyAt: (split, position) => self.keyAt(split, position % size(split)) }
}
