/**
 * The loop of a tool-using agent: ask the model, run the tools that it calls, tell it what they said, until it calls none.
 * What the model gets wrong is told to the model; what the tools cannot do is theirs to say in text.
 */
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Predicate from "effect/Predicate"
import * as Harness from "../Harness.ts"
import { inWords } from "../internal/inWords.ts"
import type { AssistantMessage, Message, ToolCall, ToolSpec } from "../Message.ts"
import type { Runtime } from "../Runtime.ts"
import * as ChatClient from "./ChatClient.ts"

/** A tool and what it does. @category model */
export interface Tool<in T = unknown> {
  readonly spec: ToolSpec
  /** What it says to a call. A failure is the tool's own breaking, and takes the rollout out of training. */
  readonly run: (input: Readonly<Record<string, unknown>>, task: T) => Effect.Effect<string, unknown, Runtime>
}

/** A tool that broke; it is to blame, not the harness that ran it. @category errors */
export class ToolError extends Data.TaggedError("ToolError")<{ readonly tool: string; readonly reason: string }> {
  override get message() {
    return `tool ${this.tool}: ${this.reason}`
  }
}

/** The arguments of a call as an object, or what is wrong with them. */
const inputOf = (call: ToolCall): Either.Either<Readonly<Record<string, unknown>>, string> =>
  Either.flatMap(
    Either.try({ try: () => JSON.parse(call.arguments) as unknown, catch: (cause) => `${inWords(cause)}` }),
    (value) =>
      Predicate.isRecord(value)
        ? Either.right(value)
        : Either.left(`the arguments are ${JSON.stringify(value)}, and no object`)
  )

/**
 * A harness over tools. Calls of one turn run one after the other, so that what they do to a directory repeats. An unknown
 * tool and arguments that are no JSON object are answered with what is wrong.
 *
 * @category constructors
 */
export const make = <T>(options: {
  readonly name?: string | undefined
  readonly tools: ReadonlyArray<Tool<T>>
  /** instructions before the task's prompt; none when absent */
  readonly system?: string | undefined
  /**
   * How it asks the model: "server" as any agent would, over HTTP at the rollout's own address, or "session" within this
   * process. The messages and what is recorded of them are the same
   */
  readonly via?: "server" | "session" | undefined
}): Harness.Harness<T> => {
  const { name = "tool-loop", system, via = "server" } = options
  const tools = new Map(options.tools.map((tool) => [tool.spec.name, tool]))
  const specs = options.tools.map(({ spec }) => spec)

  const answerTo = (call: ToolCall, task: T): Effect.Effect<string, ToolError, Runtime> => {
    const tool = tools.get(call.name)
    if (tool === undefined) {
      return Effect.succeed(`there is no tool ${JSON.stringify(call.name)}; there are ${[...tools.keys()].join(", ")}`)
    }
    const input = inputOf(call)
    if (Either.isLeft(input)) return Effect.succeed(`the call of ${call.name} cannot be read: ${input.left}`)
    return Effect.suspend(() => tool.run(input.right, task)).pipe(
      Effect.catchAllCause((cause) =>
        Cause.isInterruptedOnly(cause)
          ? Effect.interrupt
          : Effect.fail(new ToolError({ tool: call.name, reason: inWords(Cause.squash(cause)) }))
      )
    )
  }

  return Harness.make<T>({
    name,
    run: ({ endpoint, messages, model, task, timed }) =>
      Effect.gen(function* () {
        const ask: (messages: ReadonlyArray<Message>) => Effect.Effect<AssistantMessage, unknown> =
          via === "server"
            ? yield* ChatClient.make(yield* endpoint, specs)
            : (messages) => Effect.map(model.complete(messages, { tools: specs }), ({ message }) => message)
        let conversation: ReadonlyArray<Message> =
          system === undefined ? messages : [{ role: "system", content: system }, ...messages]
        while (true) {
          const message = yield* ask(conversation)
          const calls = message.toolCalls ?? []
          if (calls.length === 0) return
          const answers = yield* Effect.forEach(calls, (call) =>
            Effect.map(
              timed("tools", answerTo(call, task)),
              (content): Message => ({ role: "tool", toolCallId: call.id, content, name: call.name })
            )
          )
          conversation = [...conversation, message, ...answers]
        }
      }).pipe(Effect.scoped)
  })
}
