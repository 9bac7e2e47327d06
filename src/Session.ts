/**
 * The policy as a harness sees it: a conversation in, the next message out. What was sampled goes into the rollout's trace
 * as the engine's own ids and log-probabilities; a continued conversation extends those ids and never encodes them again.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { Inference, InferenceError } from "./Inference.ts"
import { type Condition, type ConditionError, holding, type Moment } from "./interception/Condition.ts"
import type { Delta } from "./interception/Delta.ts"
import * as Reading from "./interception/Reading.ts"
import { Stopped, stopOf } from "./interception/Stopped.ts"
import { type Sampled, sample } from "./interception/sample.ts"
import { inWords } from "./internal/inWords.ts"
import type { AssistantMessage, Message, ToolSpec } from "./Message.ts"
import { type ParsedToolCall, Renderer, RendererError } from "./Renderer.ts"
import type { StopReason } from "./Rollout.ts"
import * as Trace from "./Trace.ts"

export type { Condition, ConditionError, Moment }
export { Stopped }

/** How the policy is sampled; the seed is not a choice, it follows from the rollout. @category model */
export interface Sampling {
  /** 1 */
  readonly temperature?: number | undefined
  readonly topP?: number | undefined
  readonly topK?: number | undefined
  readonly minP?: number | undefined
  /** most tokens of one turn; as many as the model's sequence has room for when absent */
  readonly maxTokens?: number | undefined
}

/** What leaves tokens out of the distribution that is sampled from, in words. @category getters */
export const restrictions = ({ minP = 0, topK = 0, topP = 1 }: Sampling): ReadonlyArray<string> => [
  ...(topP < 1 ? [`top_p ${topP}`] : []),
  ...(topK > 0 ? [`top_k ${topK}`] : []),
  ...(minP > 0 ? [`min_p ${minP}`] : [])
]

/** One finished model turn. @category model */
export interface Completion {
  readonly message: AssistantMessage
  readonly toolCalls: ReadonlyArray<ParsedToolCall>
  /** "length": the turn was cut at a limit and is not complete */
  readonly finishReason: "stop" | "length"
  /** the text that ended the turn, of those that were asked for */
  readonly stop: string | undefined
  readonly promptTokens: number
  /** as they were sampled, with the token that ended the turn */
  readonly tokenIds: Int32Array
  /** one per sampled token, at the sampling temperature */
  readonly logprobs: Float32Array
}

/** Why the policy gave no message; a `RendererError` is a message that the chat format cannot say. @category model */
export type CompletionError = Stopped | InferenceError | Trace.TraceError | RendererError | ConditionError

/** The policy, as a harness calls it. @category model */
export interface Model {
  /** The policy's next message after a whole conversation. */
  readonly complete: (
    messages: ReadonlyArray<Message>,
    options?: { readonly tools?: ReadonlyArray<ToolSpec> | undefined }
  ) => Effect.Effect<Completion, CompletionError>
}

/** What else may be asked of one turn, and who hears of it while it is sampled. @category model */
export interface TurnOptions {
  readonly tools?: ReadonlyArray<ToolSpec> | undefined
  /** most tokens of this turn; the run's own limit holds as well */
  readonly maxTokens?: number | undefined
  /** texts that end the turn; they and what follows are none of its message */
  readonly stop?: ReadonlyArray<string> | undefined
  readonly listener?: Listener | undefined
}

/** Hears of one turn. What it does must not throw. @category model */
export interface Listener {
  /** the prompt is rendered and fits, and the policy is asked next */
  readonly begun: (promptTokens: number) => void
  readonly said: (deltas: ReadonlyArray<Delta>) => void
  /** the turn has become part of the trace just now: nothing can come in between */
  readonly committed: (completion: Completion) => void
}

/** When a rollout is cut; absent ones do not hold. @category model */
export interface Limits {
  /** most model turns */
  readonly maxTurns?: number | undefined
  /** most tokens that the policy samples in all turns together */
  readonly maxSampledTokens?: number | undefined
  /** most tokens of the trace, read and sampled ones; a turn that has begun may pass it */
  readonly maxTraceTokens?: number | undefined
  /** time from the start of the session; a turn that runs then is given up */
  readonly timeoutMs?: number | undefined
}

/** How far a rollout has come. @category model */
export interface Progress {
  readonly trace: Trace.Trace
  /** model calls that were asked for; names the next one's seed */
  readonly calls: number
  /** turns that are in the trace */
  readonly turns: number
  readonly stop: StopReason | undefined
  /** the last call, when the policy failed it, or a condition that could not be judged */
  readonly failure: InferenceError | Trace.TraceError | ConditionError | undefined
  /** the last turn was cut at a limit */
  readonly cut: boolean
}

/** One rollout's conversation with the policy, and its record so far. @category model */
export interface Session {
  readonly model: Model
  /** names the policy */
  readonly name: string
  /** `complete` with all that can be asked of a turn */
  readonly turn: (messages: ReadonlyArray<Message>, options?: TurnOptions) => Effect.Effect<Completion, CompletionError>
  /** Number of tokens that a conversation has as a prompt. */
  readonly countTokens: (
    messages: ReadonlyArray<Message>,
    tools?: ReadonlyArray<ToolSpec>
  ) => Either.Either<number, RendererError>
  readonly progress: Effect.Effect<Progress>
  /** Does something and tells the trace how long it took, however it ended. */
  readonly timed: <A, E, R>(name: string, work: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Ends it: the model takes no further turn, and one that is on its way is not kept. */
  readonly seal: (reason: StopReason) => Effect.Effect<Trace.Trace>
}

/** When a turn was asked for, and between when and when it was sampled; in ms since 1970. */
interface Times {
  readonly askedMs: number
  readonly sampledFromMs: number
  readonly sampledToMs: number
}

/** Starts one rollout's conversation with the policy. @category constructors */
export const make = Effect.fnUntraced(function* (options: {
  readonly sampling: Sampling
  readonly maxTurns?: number | undefined
  readonly limits?: Limits | undefined
  /** what ends the rollout besides, in the order in which it is asked */
  readonly stops?: ReadonlyArray<Condition> | undefined
  /** seed of the rollout's model call number `turn` */
  readonly seedOf: (turn: number) => number
  /** when the rollout began, in ms: what its times count from; now when absent */
  readonly beganMs?: number | undefined
}) {
  const inference = yield* Inference
  const renderer = yield* Renderer
  const clock = yield* Effect.clock
  const nowMs = () => clock.unsafeCurrentTimeMillis()
  const started = nowMs()
  const { beganMs = started, sampling, seedOf, stops = [] } = options
  const { maxSampledTokens, maxTraceTokens, maxTurns = options.maxTurns, timeoutMs } = options.limits ?? {}
  let now: Progress = { trace: Trace.empty, calls: 0, turns: 0, stop: undefined, failure: undefined, cut: false }
  let stopped: Stopped | undefined
  /** turns that are asked for and not yet in the trace */
  let open = 0
  let sampledTokens = 0
  let traceTokens = 0

  const stop = (error: Stopped) =>
    Effect.suspend(() => {
      stopped ??= error
      now = { ...now, stop: stopped.reason }
      return Effect.fail(error)
    })
  const stopAt = (reason: StopReason) => stop(new Stopped({ reason }))

  const span = (name: string, fromMs: number, node?: number): Trace.Span => ({
    ...{ name, startMs: fromMs - beganMs, endMs: nowMs() - beganMs },
    ...(node === undefined ? {} : { node })
  })

  /** Ends it at a condition of the task, with what had been said to the model until then. */
  const stopOn = (condition: string, messages: ReadonlyArray<Message>) =>
    Effect.suspend(() => {
      if (stopped === undefined) {
        const told = Trace.commitPrompt(Trace.prepare(now.trace, messages))
        if (Either.isRight(told)) now = { ...now, trace: told.right }
      }
      return stop(new Stopped({ reason: "task", condition }))
    })

  const render = (pending: Trace.PendingTurn, tools: ReadonlyArray<ToolSpec> | undefined) => {
    const { previous, messages, tail } = pending
    const extended =
      previous === undefined || tail.length === 0
        ? undefined
        : renderer.bridge(previous.promptIds, previous.completionIds, tail, {
            tools,
            history: messages.slice(0, messages.length - tail.length)
          })
    return extended === undefined
      ? { ...renderer.render(messages, { tools, addGenerationPrompt: true }), bridged: false }
      : { ...extended, bridged: true }
  }
  const rendering = <A>(make: () => A): Either.Either<A, RendererError> =>
    Either.try({
      try: make,
      catch: (cause) =>
        cause instanceof RendererError ? cause : new RendererError({ renderer: renderer.name, reason: inWords(cause) })
    })

  const commit = (
    pending: Trace.PendingTurn,
    turn: Omit<Trace.Turn, "completionIds" | "logprobs" | "message">,
    { finishReason, policyVersion, stretches, ...sampled }: Sampled,
    parsed: Pick<Completion, "message" | "toolCalls">,
    { listener, times }: { readonly listener: Listener | undefined; readonly times: Times }
  ): Effect.Effect<Completion, Stopped | Trace.TraceError> => {
    const { logprobs, stop, tokenIds } = sampled
    // Another call may have added nodes meanwhile: indices stay right, since nodes are only ever appended.
    const next = Trace.commit(
      { ...pending, trace: now.trace },
      {
        ...{ ...turn, completionIds: tokenIds, logprobs, message: parsed.message, finishReason },
        policyVersion: stretches ?? policyVersion
      }
    )
    if (Either.isLeft(next)) {
      const { left } = next
      return Effect.fail(left._tag === "SealedTrace" ? (stopped ?? new Stopped({ reason: "done" })) : left)
    }
    const { nodes } = next.right
    for (let at = now.trace.nodes.length; at < nodes.length; at++) traceTokens += nodes[at]!.tokenIds.length
    sampledTokens += tokenIds.length
    now = {
      ...now,
      trace: {
        ...next.right,
        spans: [
          ...(next.right.spans ?? []),
          span("generation", times.askedMs, nodes.length - 1),
          { ...span("model", times.sampledFromMs, nodes.length - 1), endMs: times.sampledToMs - beganMs }
        ]
      },
      turns: now.turns + 1,
      failure: undefined,
      cut: finishReason === "length"
    }
    const { message, toolCalls } = parsed
    const promptTokens = turn.promptIds.length
    const completion = { message, toolCalls, finishReason, stop, promptTokens, tokenIds, logprobs }
    listener?.committed(completion)
    return Effect.succeed(completion)
  }

  const turn = (messages: ReadonlyArray<Message>, call: number, asked: TurnOptions) =>
    Effect.suspend((): Effect.Effect<Completion, CompletionError> => {
      const askedMs = nowMs()
      const { listener, stop: stopTexts = [], tools } = asked
      const pending = Trace.prepare(now.trace, messages)
      const rendered = rendering(() => render(pending, tools))
      if (Either.isLeft(rendered)) return Effect.fail(rendered.left)
      const { bridged, isContent, messageIndices, tokenIds: promptIds } = rendered.right
      const most = inference.maxSequenceLength - 1
      const tooLong = () => stop(new Stopped({ reason: "prompt_too_long", prompt: { tokens: promptIds.length, most } }))
      if (promptIds.length > most) return tooLong()
      listener?.begun(promptIds.length)
      const reading =
        listener === undefined && stopTexts.length === 0
          ? undefined
          : Reading.make(renderer.parser({ tools, promptIds }), stopTexts)
      const sampledFromMs = nowMs()
      const sampled = sample(inference, promptIds, {
        sampling: {
          temperature: sampling.temperature ?? 1,
          topP: sampling.topP,
          topK: sampling.topK,
          minP: sampling.minP,
          maxTokens: Math.min(
            inference.maxSequenceLength - promptIds.length,
            sampling.maxTokens ?? Number.POSITIVE_INFINITY,
            asked.maxTokens ?? Number.POSITIVE_INFINITY,
            (maxSampledTokens ?? Number.POSITIVE_INFINITY) - sampledTokens
          ),
          stopTokenIds: renderer.stopTokenIds,
          seed: seedOf(call)
        },
        reading,
        said: listener?.said
      })
      return Effect.matchEffect(sampled, {
        onFailure: (error): Effect.Effect<never, Stopped | InferenceError> =>
          error.promptTooLong === true ? tooLong() : Effect.fail(error),
        onSuccess: (turn): Effect.Effect<Completion, CompletionError> => {
          const times = { askedMs, sampledFromMs, sampledToMs: nowMs() }
          if (turn.tokenIds.length === 0) {
            return new InferenceError({ endpoint: inference.name, reason: "it returned no token ids for a turn" })
          }
          const parsed = reading?.finish() ?? renderer.parse(turn.tokenIds, { tools, promptIds })
          if ("deltas" in parsed && parsed.deltas.length > 0) listener?.said(parsed.deltas)
          return commit(pending, { promptIds, messageIndices, isContent, bridged }, turn, parsed, { listener, times })
        }
      })
    })

  /** The turn, unless a condition of the task ends the rollout before it. */
  const unlessStopped = (messages: ReadonlyArray<Message>, call: number, asked: TurnOptions) =>
    stops.length === 0
      ? turn(messages, call, asked)
      : Effect.flatMap(holding(stops, { messages, trace: now.trace }), (condition) =>
          condition === undefined ? turn(messages, call, asked) : stopOn(condition, messages)
        )

  /** Why no further turn may begin. */
  const limit = (): StopReason | undefined => {
    if (maxTurns !== undefined && now.turns + open >= maxTurns) return "max_turns"
    if (maxSampledTokens !== undefined && sampledTokens >= maxSampledTokens) return "max_tokens"
    if (maxTraceTokens !== undefined && traceTokens >= maxTraceTokens) return "max_tokens"
    return undefined
  }

  /** The turn, as long as there is time for it. */
  const inTime = <A, E>(turn: Effect.Effect<A, E>): Effect.Effect<A, E | Stopped> =>
    timeoutMs === undefined
      ? turn
      : Effect.flatMap(Clock.currentTimeMillis, (time) => {
          const left = started + timeoutMs - time
          return left <= 0
            ? stopAt("timeout")
            : Effect.timeoutOption(turn, left).pipe(
                Effect.flatMap(
                  Option.match({
                    onNone: () => stopAt("timeout"),
                    onSome: (completion) => Effect.succeed(completion)
                  })
                )
              )
        })

  const ask: Session["turn"] = (messages, asked = {}) =>
    Effect.suspend(() => {
      // A harness that goes on asking must not keep timers and other rollouts from their turn.
      if (stopped !== undefined) return Effect.zipRight(Effect.sleep(0), Effect.fail(stopped))
      const reason = limit()
      if (reason !== undefined) return stopAt(reason)
      const call = now.calls
      now = { ...now, calls: call + 1 }
      open++
      return Effect.onExit(inTime(unlessStopped(messages, call, asked)), (exit) => {
        open--
        if (Exit.isFailure(exit)) {
          const error = Option.getOrUndefined(Cause.failureOption(exit.cause))
          if (error !== undefined && error._tag !== "Stopped" && error._tag !== "RendererError") {
            now = { ...now, failure: error }
          }
        }
        return Effect.void
      })
    })

  return {
    model: { complete: ask },
    name: inference.name,
    turn: ask,
    countTokens: (messages, tools) =>
      rendering(() => renderer.render(messages, { tools, addGenerationPrompt: true }).tokenIds.length),
    progress: Effect.sync(() => now),
    timed: (name, work) =>
      Effect.suspend(() => {
        const fromMs = nowMs()
        return Effect.onExit(work, () =>
          Effect.sync(() => {
            now = { ...now, trace: Trace.timed(now.trace, span(name, fromMs)) }
          })
        )
      }),
    seal: (reason) =>
      Effect.sync(() => {
        stopped ??= new Stopped({ reason })
        now = { ...now, trace: Trace.seal(now.trace, stopOf(stopped, reason)), stop: stopped.reason }
        return now.trace
      })
  } satisfies Session
})
