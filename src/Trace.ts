/**
 * One rollout's messages as an append-only graph. A node stores only the tokens that it adds, so that the ids along a
 * path are exactly the prompt and completion ids of the turns that made it.
 */
import * as Data from "effect/Data"
import * as Either from "effect/Either"
import * as Message from "./Message.ts"

/**
 * One message. `logprobs` is compact (one per sampled token, in order); the other streams have one entry per token.
 *
 * @category model
 */
export interface Node {
  /** index of the parent in `Trace.nodes`; undefined for a root */
  readonly parent: number | undefined
  readonly message: Message.Message
  /** produced by a model call of this trace (role alone is not proof) */
  readonly sampled: boolean
  readonly tokenIds: Int32Array
  /** 1 on tokens that the policy sampled */
  readonly mask: Uint8Array
  /** 1 on the body of the message, 0 on template scaffold */
  readonly isContent: Uint8Array
  readonly logprobs: Float32Array
}

/** Every message of a rollout, parents before children. @category model */
export interface Trace {
  readonly nodes: ReadonlyArray<Node>
}

/** A trace without messages. @category constructors */
export const empty: Trace = { nodes: [] }

/** A prompt matched against a trace by message; nothing has been added yet. @category model */
export interface PendingTurn {
  readonly trace: Trace
  /** the whole prompt */
  readonly messages: ReadonlyArray<Message.Message>
  /** nodes of the messages that the trace already holds on one path, root first */
  readonly prefix: ReadonlyArray<number>
  /** messages after the prefix */
  readonly tail: ReadonlyArray<Message.Message>
  /**
   * The exact ids that `Renderer.bridge` extends with `tail`: those of the last turn, when the prefix ends with it.
   * `completionIds` are its sampled tokens and what was appended to close it.
   */
  readonly previous: { readonly promptIds: Int32Array; readonly completionIds: Int32Array } | undefined
}

/** One model call: what was asked, token by token, and what was sampled. @category model */
export interface Turn {
  readonly promptIds: Int32Array
  /** per prompt token: index of its message, −1 for scaffold of none */
  readonly messageIndices: ArrayLike<number>
  /** per prompt token: 1 on the body of a message */
  readonly isContent: ArrayLike<number>
  /** rendered by `Renderer.bridge`: `messageIndices` count from the first message of the tail */
  readonly bridged?: boolean | undefined
  readonly completionIds: Int32Array
  /** one per completion token, as the engine sampled it */
  readonly logprobs: ArrayLike<number>
  /** the first completion tokens that are context, not training: what an earlier policy wrote before an interruption */
  readonly resumedTokens?: number | undefined
  /** tokens that close the turn and that were not sampled: context, never trained */
  readonly closingIds?: Int32Array | undefined
  readonly message: Message.AssistantMessage
}

/** A turn whose streams contradict each other; the provider that produced it is to blame. @category errors */
export class TraceError extends Data.TaggedError("TraceError")<{ readonly reason: string }> {
  override get message() {
    return `turn refused: ${this.reason}`
  }
}

const isSame = (a: Message.Message, b: Message.Message) => a === b || Message.hash(a) === Message.hash(b)

/** The last node under `parent` with this message; of equal ones the latest is what a caller goes on from. */
const findChild = (trace: Trace, parent: number | undefined, message: Message.Message): number | undefined => {
  for (let i = trace.nodes.length - 1; i >= 0; i--) {
    const node = trace.nodes[i]!
    if (node.parent === parent && isSame(node.message, message)) return i
  }
  return undefined
}

/** The ids along a path, end to end. */
const concat = (parts: ReadonlyArray<Int32Array>): Int32Array => {
  const ids = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    ids.set(part, at)
    at += part.length
  }
  return ids
}

const anchor = (trace: Trace, prefix: ReadonlyArray<number>): PendingTurn["previous"] => {
  const last = trace.nodes[prefix.at(-1) ?? -1]
  if (last === undefined || !last.sampled) return undefined
  const first = last.mask.indexOf(1)
  if (first === -1) return undefined
  const earlier = prefix.slice(0, -1).map((node) => trace.nodes[node]!.tokenIds)
  const promptIds = concat([...earlier, last.tokenIds.subarray(0, first)])
  return promptIds.length === 0 ? undefined : { promptIds, completionIds: last.tokenIds.slice(first) }
}

/** Finds how much of a prompt the trace already holds. @category turns */
export const prepare = (trace: Trace, messages: ReadonlyArray<Message.Message>): PendingTurn => {
  const prefix: Array<number> = []
  for (const message of messages) {
    const node = findChild(trace, prefix.at(-1), message)
    if (node === undefined) break
    prefix.push(node)
  }
  return { trace, messages, prefix, tail: messages.slice(prefix.length), previous: anchor(trace, prefix) }
}

/** How many nodes of the prefix, and how many tokens, the prompt repeats id by id. */
const matched = (trace: Trace, prefix: ReadonlyArray<number>, promptIds: Int32Array) => {
  let tokens = 0
  for (const [count, index] of prefix.entries()) {
    const ids = trace.nodes[index]!.tokenIds
    if (tokens + ids.length > promptIds.length) return { nodes: count, tokens }
    for (let i = 0; i < ids.length; i++) if (ids[i] !== promptIds[tokens + i]) return { nodes: count, tokens }
    tokens += ids.length
  }
  return { nodes: prefix.length, tokens }
}

const refusal = ({
  closingIds,
  completionIds,
  isContent,
  logprobs,
  messageIndices,
  promptIds,
  resumedTokens = 0
}: Turn) => {
  if (completionIds.length !== logprobs.length)
    return `${completionIds.length} sampled ids and ${logprobs.length} log-probabilities`
  if (messageIndices.length !== promptIds.length || isContent.length !== promptIds.length)
    return `${promptIds.length} prompt ids, ${messageIndices.length} message indices, ${isContent.length} content flags`
  if (!(resumedTokens >= 0 && resumedTokens <= completionIds.length))
    return `${resumedTokens} resumed tokens of ${completionIds.length} sampled ones`
  for (let i = 0; i < logprobs.length; i++)
    if (!Number.isFinite(logprobs[i]))
      return `log-probability ${logprobs[i]} of sampled token ${i} (id ${completionIds[i]})`
  for (const ids of [promptIds, completionIds, closingIds ?? []])
    for (let i = 0; i < ids.length; i++) if (ids[i]! < 0) return `negative token id ${ids[i]}`
  return undefined
}

/**
 * Adds a turn. The prefix stands as far as the prompt repeats its tokens id by id; at the first node that differs the
 * trace forks. Along the new path the ids are exactly `promptIds`, `completionIds`, `closingIds`.
 *
 * Fails with `TraceError` when streams differ in length or a log-probability is not finite.
 *
 * @category turns
 */
export const commit = (pending: PendingTurn, turn: Turn): Either.Either<Trace, TraceError> => {
  const reason = refusal(turn)
  if (reason !== undefined) return Either.left(new TraceError({ reason }))
  const { messages, prefix, trace } = pending
  const { promptIds, resumedTokens = 0 } = turn
  const closing = turn.closingIds ?? new Int32Array(0)
  const kept = matched(trace, prefix, promptIds)
  const nodes = [...trace.nodes]
  let parent = kept.nodes === 0 ? undefined : prefix[kept.nodes - 1]
  const add = (node: Omit<Node, "parent">) => {
    nodes.push({ parent, ...node })
    parent = nodes.length - 1
  }

  const firstIndex = turn.bridged === true ? prefix.length : 0
  const ends = new Int32Array(messages.length)
  for (let i = 0; i < promptIds.length; i++) {
    const index = turn.messageIndices[i]!
    if (index >= 0 && index + firstIndex < ends.length) ends[index + firstIndex] = i + 1
  }
  let start = kept.tokens
  for (let i = kept.nodes; i < messages.length; i++) {
    // A message without tokens of its own ends where it starts; scaffold before a message belongs to it.
    const end = Math.max(start, ends[i]!)
    add({
      message: messages[i]!,
      sampled: false,
      tokenIds: promptIds.slice(start, end),
      mask: new Uint8Array(end - start),
      isContent: Uint8Array.from({ length: end - start }, (_, t) => turn.isContent[start + t]!),
      logprobs: new Float32Array(0)
    })
    start = end
  }

  const scaffold = promptIds.length - start
  const completed = scaffold + turn.completionIds.length
  const tokenIds = concat([promptIds.subarray(start), turn.completionIds, closing])
  const logprobs = Float32Array.from(turn.logprobs).slice(resumedTokens)
  add({
    message: turn.message,
    sampled: true,
    tokenIds,
    mask: new Uint8Array(tokenIds.length).fill(1, scaffold + resumedTokens, completed),
    isContent: new Uint8Array(tokenIds.length).fill(1, scaffold, completed),
    logprobs
  })
  return Either.right({ nodes })
}

/** Adds the messages that came after the last turn and that the model was never asked about: nodes without tokens. @category turns */
export const commitPrompt = ({ prefix, tail, trace }: PendingTurn): Trace => {
  const nodes = [...trace.nodes]
  let parent = prefix.at(-1)
  for (const message of tail) {
    const none = {
      tokenIds: new Int32Array(0),
      mask: new Uint8Array(0),
      isContent: new Uint8Array(0),
      logprobs: new Float32Array(0)
    }
    nodes.push({ parent, message, sampled: false, ...none })
    parent = nodes.length - 1
  }
  return { nodes }
}

/** A path from a root to a leaf. @category branches */
export interface Branch {
  /** node indices, root first */
  readonly path: ReadonlyArray<number>
  /** the first `shared` nodes of the path also lie on an earlier branch, which is the one that trains them */
  readonly shared: number
}

/** Every root-to-leaf path, in the order in which the leaves were added. @category branches */
export const branches = ({ nodes }: Trace): ReadonlyArray<Branch> => {
  const isParent: Array<boolean> = nodes.map(() => false)
  for (const { parent } of nodes) if (parent !== undefined) isParent[parent] = true
  const seen: Array<boolean> = nodes.map(() => false)
  const found: Array<Branch> = []
  for (let leaf = 0; leaf < nodes.length; leaf++) {
    if (isParent[leaf]) continue
    const path: Array<number> = []
    for (let at: number | undefined = leaf; at !== undefined; at = nodes[at]!.parent) path.push(at)
    path.reverse()
    const own = path.findIndex((node) => !seen[node])
    for (const node of path) seen[node] = true
    found.push({ path, shared: own })
  }
  return found
}

/** The ids a model sees along a branch. @category branches */
export const tokenIds = ({ nodes }: Trace, { path }: Branch): Int32Array =>
  concat(path.map((node) => nodes[node]!.tokenIds))

/** Messages along a branch. @category branches */
export const messages = ({ nodes }: Trace, { path }: Branch): ReadonlyArray<Message.Message> =>
  path.map((node) => nodes[node]!.message)

/** Number of model calls. @category branches */
export const turns = ({ nodes }: Trace): number => nodes.reduce((count, node) => count + (node.sampled ? 1 : 0), 0)

/** Text of the last sampled message; "" when there is none or it holds only tool calls. @category branches */
export const lastReply = ({ nodes }: Trace): string => {
  const last = nodes.findLast((node) => node.sampled)
  return last?.message.content ?? ""
}
