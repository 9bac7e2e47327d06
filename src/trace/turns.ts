/** How a trace grows: a prompt is matched by message, and what came of it is added by token identity. */
import * as Data from "effect/Data"
import * as Either from "effect/Either"
import * as Message from "../Message.ts"
import { concat } from "./concat.ts"
import type { Call, Node, Opening, Stop, Stretch, Trace, Usage } from "./model.ts"

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
  readonly finishReason?: string | undefined
  /** version of the weights that sampled the completion; in stretches when it changed on the way */
  readonly policyVersion?: number | ReadonlyArray<Stretch> | undefined
  /** what the provider counts, for a provider that gives no ids */
  readonly usage?: Usage | undefined
  /** index of the answer to the same prompt that never reached its caller */
  readonly replaces?: number | undefined
}

/** A turn whose streams contradict each other; the provider that produced it is to blame. @category errors */
export class TraceError extends Data.TaggedError("TraceError")<{ readonly reason: string }> {
  override get message() {
    return `turn refused: ${this.reason}`
  }
}

/** A turn that came after the rollout had ended; nothing of it is kept. @category errors */
export class SealedTrace extends Data.TaggedError("SealedTrace")<{ readonly stop: Stop }> {
  override get message() {
    return `the rollout has ended (${this.stop.reason}, by ${this.stop.by}): nothing is added to its trace`
  }
}

/**
 * The longest path that holds the first messages, root first, of nodes that are `same` as what the prompt says there. A
 * message can lie there several times over, as answers to one prompt do: all are followed. Of paths that go equally far
 * the one to a sampled message counts, and of those the latest, which is what a caller most likely goes on from.
 *
 * Parents come before children, so that one pass over the nodes follows all paths at once.
 */
const longest = (
  { nodes }: Trace,
  messages: ReadonlyArray<Message.Message>,
  same: (node: Node, message: number, tokens: number) => boolean
): { readonly path: ReadonlyArray<number>; readonly tokens: number } => {
  /** for each node how many messages the path to its end holds, and how many ids; 0 where it holds none of the prompt */
  const held = new Int32Array(nodes.length)
  const ends = new Int32Array(nodes.length)
  let end: number | undefined
  for (let index = 0; index < nodes.length; index++) {
    const node = nodes[index]!
    const { parent } = node
    if (node.abandoned === true) continue
    const before = parent === undefined ? 0 : held[parent]!
    if ((before === 0 && parent !== undefined) || before >= messages.length) continue
    const tokens = parent === undefined ? 0 : ends[parent]!
    if (!same(node, before, tokens) || !Message.equals(node.message, messages[before]!)) continue
    held[index] = before + 1
    ends[index] = tokens + node.tokenIds.length
    const further = before + 1 - (end === undefined ? 0 : held[end]!)
    if (further > 0 || (further === 0 && (node.sampled || !nodes[end!]!.sampled))) end = index
  }
  const path: Array<number> = []
  for (let at = end; at !== undefined; at = nodes[at]!.parent) path.push(at)
  return { path: path.reverse(), tokens: end === undefined ? 0 : ends[end]! }
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
  const { path: prefix } = longest(trace, messages, () => true)
  return { trace, messages, prefix, tail: messages.slice(prefix.length), previous: anchor(trace, prefix) }
}

/** The latest answer to exactly this prompt, if it was answered: what a request that is sent again gets. @category turns */
export const answered = ({ prefix, tail, trace }: PendingTurn): number | undefined => {
  const parent = prefix.at(-1)
  if (tail.length > 0 || parent === undefined) return undefined
  const found = trace.nodes.findLastIndex((node) => node.parent === parent && node.sampled)
  return found === -1 ? undefined : found
}

const stretchesOf = ({ completionIds, policyVersion }: Turn): ReadonlyArray<Stretch> | undefined =>
  typeof policyVersion === "number" ? [{ version: policyVersion, tokens: completionIds.length }] : policyVersion

const refusal = (turn: Turn) => {
  const { closingIds, completionIds, isContent, logprobs, messageIndices, promptIds, resumedTokens = 0 } = turn
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
  const versioned = stretchesOf(turn)?.reduce((sum, { tokens }) => sum + tokens, 0)
  if (versioned !== undefined && versioned !== completionIds.length)
    return `policy versions of ${versioned} tokens for ${completionIds.length} sampled ones`
  return undefined
}

/** Where each message of the prompt ends in its ids; 0 where no token says. */
const endsOf = ({ bridged, messageIndices, promptIds }: Turn, messages: number, prefix: number): Int32Array => {
  const first = bridged === true ? prefix : 0
  const ends = new Int32Array(messages)
  for (let i = 0; i < promptIds.length; i++) {
    const index = messageIndices[i]!
    if (index >= 0 && index + first < messages) ends[index + first] = i + 1
  }
  return ends
}

const repeats = (ids: Int32Array, promptIds: Int32Array, at: number): boolean => {
  if (at + ids.length > promptIds.length) return false
  for (let i = 0; i < ids.length; i++) if (ids[i] !== promptIds[at + i]) return false
  return true
}

const flagsOf = (flags: ArrayLike<number>, start: number, end: number): Uint8Array => {
  const copy = new Uint8Array(end - start)
  for (let i = start; i < end; i++) copy[i - start] = flags[i]!
  return copy
}

const openingOf = (
  { messages, prefix, trace }: PendingTurn,
  path: ReadonlyArray<number>,
  replaces: number | undefined
): Opening | undefined => {
  if (trace.nodes.length === 0) return "start"
  if (path.length < prefix.length) return "tokens"
  const last = path.at(-1)
  if (last === undefined) return "root"
  const after = trace.nodes.filter(
    (node, index) => node.parent === last && node.abandoned !== true && index !== replaces
  )
  if (after.length === 0) return undefined
  if (path.length === messages.length && after.some(({ sampled }) => sampled)) return "resample"
  return trace.nodes[last]!.sampled ? "fork" : "rewrite"
}

const unanswered = (node: Node): Node => ({
  ...node,
  sampled: false,
  abandoned: true,
  mask: new Uint8Array(node.tokenIds.length),
  logprobs: new Float32Array(0)
})

const abandonable = ({ nodes }: Trace, node: number): string | undefined => {
  if (nodes[node]?.sampled !== true) return `message ${node} is no answer of the model`
  return nodes.some(({ parent }) => parent === node) ? `answer ${node} was gone on from` : undefined
}

/**
 * Marks an answer that its caller never got: it stays to be read, on no branch and with nothing to train.
 *
 * Fails with `TraceError` when it is no answer, or one that the caller went on from.
 *
 * @category turns
 */
export const abandon = (trace: Trace, node: number): Either.Either<Trace, TraceError> => {
  const reason = abandonable(trace, node)
  return reason === undefined
    ? Either.right({ ...trace, nodes: trace.nodes.with(node, unanswered(trace.nodes[node]!)) })
    : Either.left(new TraceError({ reason }))
}

/**
 * Adds a turn, whole or not at all. The trace stands as far as it holds the prompt's messages with the prompt's ids; at
 * the first that differs it forks. Along the new path the ids are exactly `promptIds`, `completionIds`, `closingIds`.
 *
 * Fails with `SealedTrace` after the rollout has ended, and with `TraceError` when streams differ in length, a
 * log-probability is not finite, or `replaces` is no answer to this prompt.
 *
 * @category turns
 */
export const commit = (pending: PendingTurn, turn: Turn): Either.Either<Trace, SealedTrace | TraceError> => {
  const { messages, prefix, trace } = pending
  if (trace.stop !== undefined) return Either.left(new SealedTrace({ stop: trace.stop }))
  const refused = (reason: string) => Either.left(new TraceError({ reason }))
  const reason = refusal(turn)
  if (reason !== undefined) return refused(reason)
  const { completionIds, promptIds, replaces, resumedTokens = 0 } = turn
  const ends = endsOf(turn, messages.length, prefix.length)
  const kept = longest(trace, messages, ({ tokenIds }, i, tokens) =>
    // A message that was added without tokens is another one as soon as it has some.
    tokenIds.length > 0 ? repeats(tokenIds, promptIds, tokens) : ends[i]! <= tokens
  )
  const nodes = [...trace.nodes]
  let parent = kept.path.at(-1)
  if (replaces !== undefined) {
    const wrong = abandonable(trace, replaces)
    if (wrong !== undefined) return refused(wrong)
    if (kept.path.length < messages.length || nodes[replaces]!.parent !== parent)
      return refused(`message ${replaces} answers another prompt`)
    nodes[replaces] = unanswered(nodes[replaces]!)
  }
  const add = (node: Omit<Node, "parent">) => {
    nodes.push({ parent, ...node })
    parent = nodes.length - 1
  }

  let start = kept.tokens
  for (let i = kept.path.length; i < messages.length; i++) {
    // A message without tokens of its own ends where it starts; scaffold before a message belongs to it.
    const end = Math.max(start, ends[i]!)
    add({
      message: messages[i]!,
      sampled: false,
      tokenIds: promptIds.slice(start, end),
      mask: new Uint8Array(end - start),
      isContent: flagsOf(turn.isContent, start, end),
      logprobs: new Float32Array(0)
    })
    start = end
  }

  const scaffold = promptIds.length - start
  const completed = scaffold + completionIds.length
  const tokenIds = concat([promptIds.subarray(start), completionIds, turn.closingIds ?? new Int32Array(0)])
  add({
    message: turn.message,
    sampled: true,
    tokenIds,
    mask: new Uint8Array(tokenIds.length).fill(1, scaffold + resumedTokens, completed),
    isContent: new Uint8Array(tokenIds.length).fill(1, scaffold, completed),
    logprobs: Float32Array.from(turn.logprobs).subarray(resumedTokens)
  })

  const opened = openingOf(pending, kept.path, replaces)
  const versions = stretchesOf(turn)
  const call: Call = {
    node: nodes.length - 1,
    ...(turn.usage ?? {
      promptTokens: promptIds.length,
      cachedTokens: kept.tokens,
      completionTokens: completionIds.length
    }),
    // What there is nothing to say of takes no place in a file.
    ...(opened === undefined ? {} : { opened }),
    ...(turn.bridged === true ? { bridged: true } : {}),
    ...(turn.finishReason === undefined ? {} : { finishReason: turn.finishReason }),
    ...(versions === undefined ? {} : { versions }),
    ...(replaces === undefined ? {} : { replaces })
  }
  return Either.right({ ...trace, nodes, calls: [...(trace.calls ?? []), call] })
}

/**
 * Adds the messages that came after the last turn and that the model was never asked about: nodes without tokens. Fails
 * with `SealedTrace` after the rollout has ended.
 *
 * @category turns
 */
export const commitPrompt = ({ prefix, tail, trace }: PendingTurn): Either.Either<Trace, SealedTrace> => {
  if (trace.stop !== undefined) return Either.left(new SealedTrace({ stop: trace.stop }))
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
  return Either.right({ ...trace, nodes })
}

/** Ends a trace: what is committed later is refused. Who ends it first has said why. @category turns */
export const seal = (trace: Trace, stop: Stop): Trace => (trace.stop === undefined ? { ...trace, stop } : trace)
