/**
 * One rollout's messages as an append-only graph. A node stores only the tokens that it adds, so that the ids along a
 * path are exactly the prompt and completion ids of the turns that made it.
 */
import type { Message } from "./Message.ts"

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
  readonly tokenIds: Int32Array
  /** 1 on tokens that the policy sampled */
  readonly mask: Uint8Array
  /** 1 on the body of the message, 0 on template scaffold */
  readonly isContent: Uint8Array
  readonly logprobs: Float32Array
}

/** @category model */
export interface Trace {
  readonly nodes: ReadonlyArray<Node>
}
