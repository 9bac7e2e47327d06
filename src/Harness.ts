/**
 * How a model is driven through one task: from the first prompt to the end of the rollout. A harness holds no state of a
 * rollout; what it asks of the model is recorded by the session, not by the harness.
 */
import * as Effect from "effect/Effect"
import type { Endpoint } from "./Interception.ts"
import type { Message } from "./Message.ts"
import * as Reward from "./Reward.ts"
import type { Runtime } from "./Runtime.ts"
import type { Model } from "./Session.ts"
import type { ListenError } from "./wire/ListenError.ts"

/** What a harness is given for one rollout. @category model */
export interface Start<T> {
  readonly task: T
  /** the task's prompt */
  readonly messages: ReadonlyArray<Message>
  readonly model: Model
  /** the same model as a base URL and a key, for agents that speak HTTP; opened when it is first asked for */
  readonly endpoint: Effect.Effect<Endpoint, ListenError>
  /** Does something and tells the trace how long it took, as a span of this name: "tools" for what tools do. */
  readonly timed: <A, E, R>(name: string, work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
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

/**
 * An agent that knows nothing of training: any code that takes a base URL and a key. It is done when it returns, its
 * promise resolves or its effect succeeds; what it returns is not looked at.
 *
 * @category model
 */
export type Agent<in T = unknown> = (task: T, endpoint: Endpoint) => Reward.Value<unknown>

/** The harness that lets an agent run against the endpoint of its rollout. @category constructors */
export const fromAgent = <T>(agent: Agent<T>): Harness<T> =>
  make<T>({
    name: agent.name === "" || agent.name === "harness" ? "agent" : agent.name,
    needsPrompt: false,
    run: ({ endpoint, task }) => Effect.flatMap(endpoint, (opened) => Reward.evaluate(() => agent(task, opened)))
  })
