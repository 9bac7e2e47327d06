/** An environment that needs no policy: what is answered, what it is worth and how it ends are functions of the task. */
import * as Effect from "effect/Effect"
import type { Environment } from "../Environment.ts"
import type { Message } from "../Message.ts"
import { absent, type Ended, type Planned, type Reason, type StopReason } from "../Rollout.ts"
import * as Taskset from "../Taskset.ts"
import { rollout } from "./rollouts.ts"
import { conversation, spoken } from "./traces.ts"

/** A whole rollout by functions of its task and its plan. @category model */
export interface ScriptedEnvironment<T> {
  /** "scripted" unless given */
  readonly name?: string | undefined
  readonly tasks: ReadonlyArray<T>
  /** the task itself when it is a text, unless given */
  readonly prompt?: ((task: NoInfer<T>) => string) | undefined
  /** the policy's answer; a list is a conversation that goes on: the policy, a tool, the policy, … */
  readonly reply: (task: NoInfer<T>, planned: Planned) => string | ReadonlyArray<string>
  readonly reward: (task: NoInfer<T>, reply: string, planned: Planned) => number
  readonly metrics?: ((task: NoInfer<T>, reply: string) => Readonly<Record<string, number>>) | undefined
  readonly info?: ((task: NoInfer<T>) => Readonly<Record<string, string>>) | undefined
  /** why a rollout does not come to count; undefined lets it */
  readonly ends?: ((task: NoInfer<T>, planned: Planned) => Reason | undefined) | undefined
  readonly stopReason?: ((task: NoInfer<T>, planned: Planned) => StopReason) | undefined
  /** by the clock; 0 unless given */
  readonly durationMs?: ((task: NoInfer<T>, planned: Planned) => number) | undefined
}

const promptOf = (task: unknown): string => (typeof task === "string" ? task : (JSON.stringify(task) ?? String(task)))

const roles: ReadonlyArray<Message["role"]> = ["assistant", "tool"]

/** An environment that answers by itself, over bytes, with made-up log-probabilities. @category constructors */
export const environment = <T>(options: ScriptedEnvironment<T>): Environment => {
  const { durationMs, ends, name = "scripted", prompt = promptOf, tasks } = options
  const taskset = Taskset.make({ name, tasks })
  const ended = (task: T, planned: Planned): Ended => {
    const reason = ends?.(task, planned)
    if (reason !== undefined) return absent(planned, reason)
    const said = options.reply(task, planned)
    const turns = typeof said === "string" ? [said] : said
    const reply = turns.findLast((_, i) => i % 2 === 0) ?? ""
    return rollout({
      ...planned,
      trace: conversation(spoken("user", prompt(task)), ...turns.map((text, i) => spoken(roles[i % 2]!, text))),
      info: options.info?.(task) ?? {},
      reward: options.reward(task, reply, planned),
      metrics: options.metrics?.(task, reply) ?? {},
      stopReason: options.stopReason?.(task, planned) ?? "done"
    })
  }
  return {
    name,
    harness: "scripted",
    examples: taskset,
    run: (planned) =>
      Effect.suspend(() => {
        const task = taskset.find(planned.example)
        const failed = absent(planned, {
          _tag: "Failed",
          blame: "environment",
          message: `${name} has no example "${planned.example}"`
        })
        return task === undefined
          ? Effect.succeed(failed)
          : Effect.delay(
              Effect.sync(() => ended(task, planned)),
              durationMs?.(task, planned) ?? 0
            )
      })
  }
}
