/**
 * The policy as a harness sees it: a conversation in, the next message out. What was sampled goes into the rollout's trace
 * as the engine's own ids and log-probabilities; a continued conversation extends those ids and never encodes them again.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Ref from "effect/Ref"
import { type Generation, Inference, InferenceError } from "./Inference.ts"
import { inWords } from "./internal/inWords.ts"
import type { AssistantMessage, Message, ToolSpec } from "./Message.ts"
import { type ParsedToolCall, Renderer, RendererError } from "./Renderer.ts"
import type { StopReason } from "./Rollout.ts"
import * as Trace from "./Trace.ts"

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

/** The rollout may not ask the model again; a harness lets this pass through and ends. @category errors */
export class Stopped extends Data.TaggedError("Stopped")<{ readonly reason: StopReason }> {
  override get message() {
    return `the rollout is over (${this.reason}): the model takes no further turn`
  }
}

/** One finished model turn. @category model */
export interface Completion {
  readonly message: AssistantMessage
  readonly toolCalls: ReadonlyArray<ParsedToolCall>
  /** "length": the turn was cut at a limit and is not complete */
  readonly finishReason: "stop" | "length"
}

/** Why the policy gave no message; a `RendererError` is a message that the chat format cannot say. @category model */
export type CompletionError = Stopped | InferenceError | Trace.TraceError | RendererError

/** The policy, as a harness calls it. @category model */
export interface Model {
  /** The policy's next message after a whole conversation. */
  readonly complete: (
    messages: ReadonlyArray<Message>,
    options?: { readonly tools?: ReadonlyArray<ToolSpec> | undefined }
  ) => Effect.Effect<Completion, CompletionError>
}

/** How far a rollout has come. @category model */
export interface Progress {
  readonly trace: Trace.Trace
  /** model calls that were asked for; names the next one's seed */
  readonly calls: number
  readonly stop: StopReason | undefined
  /** the last call, when the policy failed it */
  readonly failure: InferenceError | Trace.TraceError | undefined
  /** the last turn was cut at a limit */
  readonly cut: boolean
}

/** One rollout's conversation with the policy, and its record so far. @category model */
export interface Session {
  readonly model: Model
  readonly progress: Effect.Effect<Progress>
  /** Ends it: the model takes no further turn, and one that is on its way is not kept. */
  readonly seal: (reason: StopReason) => Effect.Effect<Trace.Trace>
}

/** Whose condition each reason is. */
const stopperOf: Readonly<Record<StopReason, Trace.Stopper>> = {
  done: "harness",
  length: "sampling",
  max_turns: "environment",
  timeout: "environment",
  prompt_too_long: "engine"
}

/** What some providers send after the token that ends a turn is no part of it, in ids and log-probabilities alike. */
const upToStop = (generation: Generation, stopTokenIds: ReadonlyArray<number>): Generation => {
  const { logprobs, tokenIds } = generation
  const end = tokenIds.findIndex((id) => stopTokenIds.includes(id)) + 1
  // Streams of different lengths are refused when they are committed, never cut to fit.
  if (end === 0 || end === tokenIds.length || logprobs.length !== tokenIds.length) return generation
  return { ...generation, tokenIds: tokenIds.slice(0, end), logprobs: logprobs.slice(0, end) }
}

/** Starts one rollout's conversation with the policy. @category constructors */
export const make = Effect.fn("Session.make")(function* (options: {
  readonly sampling: Sampling
  readonly maxTurns: number | undefined
  /** seed of the rollout's model call number `turn` */
  readonly seedOf: (turn: number) => number
}) {
  const inference = yield* Inference
  const renderer = yield* Renderer
  const initial: Progress = { trace: Trace.empty, calls: 0, stop: undefined, failure: undefined, cut: false }
  const state = yield* Ref.make(initial)
  const { maxTurns, sampling, seedOf } = options

  const stop = (reason: StopReason) =>
    Ref.update(state, (now): Progress => ({ ...now, stop: now.stop ?? reason })).pipe(
      Effect.zipRight(Effect.fail(new Stopped({ reason })))
    )

  const render = (pending: Trace.PendingTurn, tools: ReadonlyArray<ToolSpec> | undefined) => {
    const { previous, messages, tail } = pending
    const extended =
      previous === undefined || tail.length === 0
        ? undefined
        : renderer.bridge(previous.promptIds, previous.completionIds, tail, { tools })
    return extended === undefined
      ? { ...renderer.render(messages, { tools, addGenerationPrompt: true }), bridged: false }
      : { ...extended, bridged: true }
  }

  const turn = Effect.fnUntraced(function* (
    messages: ReadonlyArray<Message>,
    tools: ReadonlyArray<ToolSpec> | undefined,
    call: number
  ) {
    const { trace } = yield* Ref.get(state)
    const pending = Trace.prepare(trace, messages)
    const {
      bridged,
      isContent,
      messageIndices,
      tokenIds: promptIds
    } = yield* Effect.try({
      try: () => render(pending, tools),
      catch: (cause) =>
        cause instanceof RendererError ? cause : new RendererError({ renderer: renderer.name, reason: inWords(cause) })
    })
    const room = inference.maxSequenceLength - promptIds.length
    if (room < 1) return yield* stop("prompt_too_long")
    const generation = yield* inference
      .generate(promptIds, {
        temperature: sampling.temperature ?? 1,
        topP: sampling.topP,
        topK: sampling.topK,
        minP: sampling.minP,
        maxTokens: Math.min(sampling.maxTokens ?? room, room),
        stopTokenIds: renderer.stopTokenIds,
        seed: seedOf(call)
      })
      .pipe(
        Effect.catchIf(
          (error) => error.promptTooLong === true,
          () => stop("prompt_too_long")
        )
      )
    const {
      finishReason,
      logprobs,
      policyVersion,
      tokenIds: completionIds
    } = upToStop(generation, renderer.stopTokenIds)
    if (completionIds.length === 0) {
      return yield* new InferenceError({ endpoint: inference.name, reason: "it returned no token ids for a turn" })
    }
    const { message, toolCalls } = renderer.parse(completionIds, { tools, promptIds })
    // Another call may have added nodes meanwhile: indices stay right, since nodes are only ever appended.
    const committed = yield* Ref.modify(
      state,
      (now): readonly [Either.Either<unknown, Stopped | Trace.TraceError>, Progress] => {
        const next = Trace.commit(
          { ...pending, trace: now.trace },
          {
            ...{ promptIds, messageIndices, isContent, bridged },
            ...{ completionIds, logprobs, message, finishReason, policyVersion }
          }
        ).pipe(
          Either.mapLeft((error) =>
            error._tag === "SealedTrace" ? new Stopped({ reason: now.stop ?? "done" }) : error
          )
        )
        return Either.isLeft(next)
          ? [next, now]
          : [next, { ...now, trace: next.right, failure: undefined, cut: finishReason === "length" }]
      }
    )
    yield* committed
    return { message, toolCalls, finishReason } satisfies Completion
  })

  const complete: Model["complete"] = (messages, { tools } = {}) =>
    Effect.gen(function* () {
      const now = yield* Ref.get(state)
      if (now.stop !== undefined) {
        // A harness that goes on asking must not keep timers and other rollouts from their turn.
        yield* Effect.sleep(0)
        return yield* new Stopped({ reason: now.stop })
      }
      if (maxTurns !== undefined && now.calls >= maxTurns) return yield* stop("max_turns")
      yield* Ref.update(state, (at) => ({ ...at, calls: at.calls + 1 }))
      return yield* turn(messages, tools, now.calls)
    }).pipe(
      Effect.tapError((error) =>
        error._tag === "Stopped" || error._tag === "RendererError"
          ? Effect.void
          : Ref.update(state, (at): Progress => ({ ...at, failure: error }))
      )
    )

  const seal = (reason: StopReason) =>
    Ref.modify(state, (now): readonly [Trace.Trace, Progress] => {
      const trace = Trace.seal(now.trace, { reason, by: stopperOf[reason] })
      return [trace, { ...now, trace, stop: now.stop ?? reason }]
    })

  return { model: { complete }, progress: Ref.get(state), seal } satisfies Session
})
