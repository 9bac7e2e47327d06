/** Conditions of a task on which a rollout ends, judged when the model is about to be asked. */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import { inWords } from "../internal/inWords.ts"
import type { Message } from "../Message.ts"
import type { Trace } from "../Trace.ts"

/** A condition of the task that could not be judged; the task is to blame. @category errors */
export class ConditionError extends Data.TaggedError("ConditionError")<{
  readonly condition: string
  readonly reason: string
}> {
  override get message() {
    return `stop condition ${this.condition}: ${this.reason}`
  }
}

/** Where a rollout stands when the model is about to be asked. @category model */
export interface Moment {
  /** the whole prompt: with what tools said last, which is not in the trace yet */
  readonly messages: ReadonlyArray<Message>
  readonly trace: Trace
}

/** A condition of the task on which a rollout ends, judged before each model call. @category model */
export interface Condition {
  readonly name: string
  readonly holds: (moment: Moment) => Effect.Effect<boolean, string>
}

/** The name of the first condition that holds. @category conditions */
export const holding = (
  conditions: ReadonlyArray<Condition>,
  moment: Moment
): Effect.Effect<string | undefined, ConditionError> =>
  Effect.gen(function* () {
    for (const { holds, name } of conditions) {
      const failed = (reason: string) => new ConditionError({ condition: name, reason })
      const held: unknown = yield* Effect.mapError(holds(moment), failed)
      if (typeof held !== "boolean") return yield* failed(`it gave ${inWords(held)}, and no true or false`)
      if (held) return name
    }
    return undefined
  })
