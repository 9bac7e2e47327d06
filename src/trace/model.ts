/** What a trace is made of. Pure data: times are values that somebody measured, and no clock is read here. */
import type { Message } from "../Message.ts"

/**
 * One message. `logprobs` is compact (one per sampled token, in order); the other streams have one entry per token.
 *
 * @category model
 */
export interface Node {
  /** index of the parent in `Trace.nodes`; undefined for a root */
  readonly parent: number | undefined
  readonly message: Message
  /** produced by a model call of this trace (role alone is not proof) */
  readonly sampled: boolean
  /** an answer that its caller never got: it lies on no branch and is not trained */
  readonly abandoned?: boolean | undefined
  readonly tokenIds: Int32Array
  /** 1 on tokens that the policy sampled */
  readonly mask: Uint8Array
  /** 1 on the body of the message, 0 on template scaffold */
  readonly isContent: Uint8Array
  readonly logprobs: Float32Array
}

/**
 * How a turn left the branches that were there:
 *
 * - "start": it is the first of the trace;
 * - "root": it shares no message with the trace: a sub-agent, or a conversation beside the first;
 * - "fork": it goes on another way after an answer that was gone on from already: parallel branches;
 * - "rewrite": what followed a message of the caller's was replaced by other messages: a compacted history, or a
 *   sub-agent with the same instructions, which the messages alone cannot tell apart;
 * - "resample": a prompt that has an answer was asked once more;
 * - "tokens": its messages go on with a branch and its ids do not: the history was encoded anew and came out otherwise.
 *
 * @category model
 */
export type Opening = "start" | "root" | "fork" | "rewrite" | "resample" | "tokens"

/** Tokens one after the other that weights of one version sampled. @category model */
export interface Stretch {
  readonly version: number
  readonly tokens: number
}

/** The stretches of the first `tokens` of all. @category getters */
export const firstOf = (stretches: ReadonlyArray<Stretch>, tokens: number): ReadonlyArray<Stretch> => {
  let left = tokens
  return stretches.flatMap((stretch) => {
    const kept = Math.min(left, stretch.tokens)
    left -= kept
    return kept === 0 ? [] : [{ ...stretch, tokens: kept }]
  })
}

/** Tokens of one model call, or of many together. @category model */
export interface Usage {
  /** the whole prompt, with what is cached of it */
  readonly promptTokens: number
  /** of the prompt, those that the trace held already, in the same places: what a prefix cache can spare */
  readonly cachedTokens: number
  /** sampled, with those of an earlier policy that were gone on from */
  readonly completionTokens: number
}

/** One model call that came to an answer. @category model */
export interface Call extends Usage {
  /** index of the answer in `Trace.nodes` */
  readonly node: number
  /** undefined when it goes on from the end of a branch */
  readonly opened?: Opening | undefined
  /** the prompt was made by extending the ids of the turn before */
  readonly bridged?: boolean | undefined
  readonly finishReason?: string | undefined
  /** weights that sampled the completion, in its order */
  readonly versions?: ReadonlyArray<Stretch> | undefined
  /** index of the answer that never reached the caller, which this one replaces */
  readonly replaces?: number | undefined
}

/** Who ended a rollout: the agent that was done, a condition of the task, or whose limit it was. @category model */
export type Stopper = "harness" | "task" | "environment" | "sampling" | "engine" | "caller"

/** Which condition ended a rollout, and whose it was. @category model */
export interface Stop {
  readonly reason: string
  readonly by: Stopper
}

/** Time that something took, in milliseconds since the rollout began. @category model */
export interface Span {
  /** "setup", "generation", "model" (the part of a generation that the policy took), "tools", "scoring", or a name of the caller's own */
  readonly name: string
  readonly startMs: number
  readonly endMs: number
  /** the message that it belongs to: an answer, or what a tool said */
  readonly node?: number | undefined
}

/** Every message of a rollout, parents before children, and the model calls that made it. @category model */
export interface Trace {
  readonly nodes: ReadonlyArray<Node>
  /** in the order in which they were answered; absent in traces that were made without calls */
  readonly calls?: ReadonlyArray<Call> | undefined
  /** set when the rollout has ended: nothing is added after it */
  readonly stop?: Stop | undefined
  readonly spans?: ReadonlyArray<Span> | undefined
}

/** A trace without messages. @category constructors */
export const empty: Trace = { nodes: [] }
