/**
 * Rollouts made by hand, the same on every call: for tests of algorithms and of everything after them. Token ids and
 * log-probabilities are small made-up numbers that keep the invariants of a trace.
 */
import type { Message, Role } from "../Message.ts"
import type { Planned, Rollout } from "../Rollout.ts"
import type { Node, Trace } from "../Trace.ts"

const messageOf = (role: Role, content: string): Message =>
  role === "tool" ? { role, content, toolCallId: "call" } : { role, content }

/** What differs from a message whose every token is body. @category model */
export interface NodeOptions {
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
  const { content, parent, sampled = role === "assistant" } = options
  const mask = Uint8Array.from(options.mask ?? tokenIds.map(() => (sampled ? 1 : 0)))
  return {
    parent,
    message: messageOf(role, `${role} ${tokenIds.join(" ")}`),
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

/** A plan of one rollout alone, of seat "policy" and source "mock". @category constructors */
export const planned = (parts: Partial<Planned> = {}): Planned => ({
  id: "r0",
  sequence: 0,
  source: "mock",
  example: "e0",
  group: { id: "g0", size: 1 },
  episode: { id: parts.id ?? "r0", size: 1 },
  seat: "policy",
  policyVersion: 0,
  labels: {},
  ...parts
})

/** A rollout of one turn, two prompt tokens and two sampled, with reward 0. @category constructors */
export const rollout = (parts: Partial<Omit<Rollout, "_tag">> = {}): Rollout => ({
  ...planned(parts),
  _tag: "Rollout",
  trace: conversation(node("user", [1, 2]), node("assistant", [3, 4])),
  info: {},
  temperature: 1,
  reward: 0,
  rewards: {},
  metrics: {},
  stopReason: "done",
  ...parts
})

/** One rollout of an example for each reward, in the order of dispatch. @category constructors */
export const group = (
  rewards: ReadonlyArray<number>,
  parts: Partial<Omit<Rollout, "_tag" | "group">> & { readonly group?: string | undefined } = {}
): ReadonlyArray<Rollout> => {
  const { group: id = "g0", sequence = 0, ...rest } = parts
  return rewards.map((reward, i) =>
    rollout({
      ...rest,
      id: `${id}/${i}`,
      example: id,
      sequence: sequence + i,
      group: { id, size: rewards.length },
      reward
    })
  )
}

/** prompt (2 tokens) · action (2) · tool answer (3, of which 2 are body) · action (2) @category constructors */
export const toolUse: Trace = conversation(
  node("user", [1, 2]),
  node("assistant", [3, 4]),
  node("tool", [5, 6, 7], { content: [0, 1, 1] }),
  node("assistant", [8, 9])
)

/** How many groups, and of what size, `many` interleaves. @category constructors */
export interface ManyOptions {
  readonly groupSize?: number | undefined
  /** groups that are open at a time: their members end in turns */
  readonly open?: number | undefined
  readonly tokens?: number | undefined
  readonly source?: string | undefined
}

/** `total` rollouts in groups that end interleaved, one after the other as they are asked for. @category constructors */
export function* many(total: number, options: ManyOptions = {}): Generator<Rollout> {
  const { groupSize = 8, open = 64, source = "mock", tokens = 8 } = options
  const ids = Array.from({ length: tokens }, (_, i) => i)
  const prompt = tokens >> 2
  const trace = conversation(node("user", ids.slice(0, prompt)), node("assistant", ids.slice(prompt)))
  const groups = Math.ceil(total / groupSize)
  let sequence = 0
  for (let block = 0; block < groups; block += open) {
    for (let member = 0; member < groupSize; member++) {
      for (let g = block; g < Math.min(groups, block + open) && sequence < total; g++) {
        const id = `${source}/g${g}`
        const reward = (member * 7 + g) % 3
        const group = { id, size: groupSize }
        yield rollout({ id: `${id}/${member}`, sequence: sequence++, source, example: id, group, trace, reward })
      }
    }
  }
}
