/** The end of a rollout: what is asked of it afterwards, and what its trace tells of it. */
import * as Data from "effect/Data"
import type { StopReason } from "../Rollout.ts"
import type { Stop, Stopper } from "../Trace.ts"

/** The rollout may not ask the model again; a harness lets this pass through and ends. @category errors */
export class Stopped extends Data.TaggedError("Stopped")<{
  readonly reason: StopReason
  /** of "task": the name of the condition that held */
  readonly condition?: string | undefined
  /** of "prompt_too_long", where it is known: tokens of the prompt, and how many a prompt may have */
  readonly prompt?: { readonly tokens: number; readonly most: number } | undefined
}> {
  override get message() {
    const { condition, reason } = this
    const why = condition === undefined ? reason : `${reason}: ${condition}`
    return `the rollout is over (${why}): the model takes no further turn`
  }
}

/** Whose condition each reason is. */
const stopperOf: Readonly<Record<StopReason, Stopper>> = {
  done: "harness",
  length: "sampling",
  max_turns: "environment",
  max_tokens: "environment",
  timeout: "environment",
  prompt_too_long: "engine",
  task: "task"
}

/** What a trace tells: the condition by its name, where the task's it was. @category conversions */
export const stopOf = ({ condition }: Stopped, reason: StopReason): Stop => ({
  reason: condition ?? reason,
  by: stopperOf[reason]
})
