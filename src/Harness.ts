/**
 * How a model is driven through one task: from the first prompt to the end of the rollout. A harness holds no state of a
 * rollout; what it asks of the model is recorded by the session, not by the harness.
 */
import type * as Effect from "effect/Effect"
import type { Message } from "./Message.ts"
import type { Runtime } from "./Runtime.ts"
import type { Model } from "./Session.ts"

/** What a harness is given for one rollout. @category model */
export interface Start<T> {
  readonly task: T
  /** the task's prompt */
  readonly messages: ReadonlyArray<Message>
  readonly model: Model
}

/**
 * Ends when the agent is done. Failures of `model` pass through; any other failure is the harness's own, or the runtime's
 * when that has died under it.
 *
 * @category model
 */
export interface Harness<in T = unknown> {
  readonly name: string
  /** whether it begins with the task's prompt; one that does not is given no messages when the task has none */
  readonly needsPrompt: boolean
  readonly run: (start: Start<T>) => Effect.Effect<void, unknown, Runtime>
}

/** A harness from its name and the function that drives the model. @category constructors */
export const make = <T>(options: {
  readonly name: string
  readonly needsPrompt?: boolean | undefined
  readonly run: (start: Start<T>) => Effect.Effect<unknown, unknown, Runtime>
}): Harness<T> => ({
  name: options.name,
  needsPrompt: options.needsPrompt ?? true,
  run: options.run as Harness<T>["run"]
})
