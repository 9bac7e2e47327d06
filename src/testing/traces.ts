/**
 * Traces made by hand, the same on every call. Token ids and log-probabilities are small made-up numbers that keep the
 * invariants of a trace.
 */
import type { Message, Role } from "../Message.ts"
import type { Node, Trace } from "../Trace.ts"
import { bytes, END, roleId } from "./byteChat.ts"

const messageOf = (role: Role, content: string): Message =>
  role === "tool" ? { role, content, toolCallId: "call" } : { role, content }

/** What differs from a message whose every token is body. @category model */
export interface NodeOptions {
  /** what it says, for people and judges; its role and ids unless told */
  readonly message?: Message | undefined
  /** sampled by the policy; assistant messages are unless told */
  readonly sampled?: boolean | undefined
  /** 1 on tokens of the body; all of them unless told */
  readonly content?: ReadonlyArray<number> | undefined
  /** 1 on tokens that the policy sampled; all of a sampled node, none of another unless told */
  readonly mask?: ReadonlyArray<number> | undefined
  readonly parent?: number | undefined
}

/** One message of a trace with its tokens. @category constructors */
export const node = (role: Role, tokenIds: ReadonlyArray<number>, options: NodeOptions = {}): Node => {
  const { content, message, parent, sampled = role === "assistant" } = options
  const mask = Uint8Array.from(options.mask ?? tokenIds.map(() => (sampled ? 1 : 0)))
  return {
    parent,
    message: message ?? messageOf(role, `${role} ${tokenIds.join(" ")}`),
    sampled,
    tokenIds: Int32Array.from(tokenIds),
    mask,
    isContent: Uint8Array.from(content ?? tokenIds.map(() => 1)),
    logprobs: Float32Array.from(tokenIds.filter((_, i) => mask[i] === 1).map((id) => -(id % 7) / 4 - 0.1))
  }
}

/** Nodes as one conversation: each answers the one before. @category constructors */
export const conversation = (...nodes: ReadonlyArray<Node>): Trace => ({
  nodes: nodes.map((node, i) => ({ ...node, parent: i === 0 ? undefined : i - 1 }))
})

/**
 * A message as the chat format over bytes renders it: an id that opens its role, its bytes, an end. Of an assistant's the
 * bytes and the end are sampled. `layerTokenizer` reads it.
 *
 * @category constructors
 */
export const spoken = (role: Role, text: string, options: Pick<NodeOptions, "message" | "sampled"> = {}): Node => {
  const { message = messageOf(role, text), sampled = role === "assistant" } = options
  const body = bytes(text)
  return node(role, [roleId(role), ...body, END], {
    message,
    sampled,
    content: [0, ...body.map(() => 1), sampled ? 1 : 0],
    mask: [0, ...body.map(() => (sampled ? 1 : 0)), sampled ? 1 : 0]
  })
}

/** A trace that goes on another way after its message `after`: a second branch. @category constructors */
export const forked = (trace: Trace, after: number, ...nodes: ReadonlyArray<Node>): Trace => ({
  nodes: [
    ...trace.nodes,
    ...nodes.map((node, i) => ({ ...node, parent: i === 0 ? after : trace.nodes.length + i - 1 }))
  ]
})

/** prompt (2 tokens) · action (2) · tool answer (3, of which 2 are body) · action (2) @category constructors */
export const toolUse: Trace = conversation(
  node("user", [1, 2]),
  node("assistant", [3, 4]),
  node("tool", [5, 6, 7], { content: [0, 1, 1] }),
  node("assistant", [8, 9])
)

/** A question, a call of a tool, its answer and a reply, in the chat format over bytes. @category constructors */
export const toolCall: Trace = conversation(
  spoken("user", "17+4?"),
  spoken("assistant", "add(17,4)", {
    message: {
      role: "assistant",
      content: null,
      toolCalls: [{ id: "call", name: "add", arguments: '{"a":17,"b":4}' }]
    }
  }),
  spoken("tool", "21"),
  spoken("assistant", "It is 21.")
)
