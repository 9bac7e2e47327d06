/**
 * What an algorithm says about one rollout: a list of claims, plain data. Combining is concatenation, so the monoid laws
 * hold by construction; two claims on one token meet when a TrainingSample is laid out, where both writers are known.
 */
import { inWords } from "./internal/inWords.ts"
import type { Role } from "./Message.ts"
import type { Rollout } from "./Rollout.ts"
import * as Trace from "./Trace.ts"

/** `rl`, `ce` and `refKl` are weights in the loss components; a token whose weight is 0 is no member. @category model */
export type Stream = "advantages" | "referenceLogprobs" | "rl" | "ce" | "refKl"

/** One statement about one stream: which tokens, and what value. @category model */
export interface Claim {
  readonly stream: Stream
  /** index of a node of the trace, or every sampled token of the rollout */
  readonly over: number | "sampled"
  /**
   * One number is for every sampled token, or, over a node that was not sampled, for every token of its body. An array
   * has one entry per token of the node, or one per sampled token of the rollout in the order of the nodes.
   */
  readonly values: number | Float32Array
  /** who says so, as an error names it */
  readonly writer: string
}

/** All that is said of one rollout, in the order in which it was said. @category model */
export interface Credit {
  readonly claims: ReadonlyArray<Claim>
  /** what is worth counting about the rollout, by name; a step's metrics hold the sums */
  readonly counts?: Readonly<Record<string, number>> | undefined
}

const claim = (stream: Stream, over: Claim["over"], values: Claim["values"]): Claim => ({
  stream,
  over,
  values,
  writer: ""
})

/** Says nothing. @category constructors */
export const empty: Credit = { claims: [] }

/** Both: associative, with `empty` as its neutral element. @category combinators */
export const combine = (a: Credit, b: Credit): Credit => {
  if (isEmpty(a)) return b
  if (isEmpty(b)) return a
  const counts = sums(a.counts, b.counts)
  const claims = [...a.claims, ...b.claims]
  return counts === undefined ? { claims } : { claims, counts }
}

const isEmpty = ({ claims, counts }: Credit) => claims.length === 0 && counts === undefined

const sums = (a: Credit["counts"], b: Credit["counts"]): Credit["counts"] => {
  if (a === undefined || b === undefined) return a ?? b
  const total: Record<string, number> = { ...a }
  for (const [name, count] of Object.entries(b)) total[name] = (total[name] ?? 0) + count
  return total
}

/** The same credit, and one more of `name` in the step's metrics. @category combinators */
export const counted = (credit: Credit, name: string): Credit => combine(credit, { claims: [], counts: { [name]: 1 } })

/** One advantage for every sampled token. @category constructors */
export const uniform = (advantage: number): Credit => ({ claims: [claim("advantages", "sampled", advantage)] })

/**
 * One advantage per turn (sampled node), in the order of the nodes. Throws RangeError when their number differs, which
 * becomes an error of the algorithm.
 *
 * @category constructors
 */
export const perTurn = (rollout: Pick<Rollout, "id" | "trace">, advantages: ReadonlyArray<number>): Credit => {
  const turns = rollout.trace.nodes.flatMap((node, index) => (node.sampled ? [index] : []))
  if (turns.length !== advantages.length) {
    throw new RangeError(`${advantages.length} advantages for the ${turns.length} turns of rollout ${rollout.id}`)
  }
  return { claims: turns.map((node, turn) => claim("advantages", node, advantages[turn]!)) }
}

/**
 * Which tokens of a message to keep: all of it, none, or one entry per token of the node, where true or 1 keeps.
 *
 * @category model
 */
export type Keep = (node: Trace.Node) => boolean | ArrayLike<boolean | number>

/**
 * A weight in `ce`, by role, for the body tokens of messages that the policy did not write, from its first response on
 * (ECHO). Scaffold has no weight, nor has what came before the first response. `keep` narrows further; throws RangeError
 * when what it gives does not fit the message.
 *
 * @category constructors
 */
export const onRoles = (
  rollout: Pick<Rollout, "id" | "trace">,
  weights: Partial<Readonly<Record<Role, number>>>,
  keep?: Keep | undefined
): Credit => {
  const { nodes } = rollout.trace
  const answered = new Uint8Array(nodes.length)
  const claims: Array<Claim> = []
  for (const [index, node] of nodes.entries()) {
    const { message, parent, sampled } = node
    const after = parent !== undefined && (answered[parent] === 1 || nodes[parent]!.sampled)
    if (after) answered[index] = 1
    const weight = weights[message.role] ?? 0
    if (!after || sampled || weight === 0) continue
    const kept = keep === undefined || keptOf(keep(node), node, () => `message ${index} of rollout ${rollout.id}`)
    if (kept === true) claims.push(claim("ce", index, weight))
    else if (kept !== false) {
      const values = Float32Array.from(node.isContent, (body, i) => (body === 1 && kept[i] ? weight : 0))
      claims.push(claim("ce", index, values))
    }
  }
  return { claims }
}

/** What a `Keep` of plain JavaScript returns need not be what its type says. */
const keptOf = (
  kept: ReturnType<Keep>,
  { tokenIds }: Trace.Node,
  where: () => string
): boolean | ArrayLike<boolean | number> => {
  if (typeof kept === "boolean") return kept
  if (!Array.isArray(kept) && !ArrayBuffer.isView(kept)) {
    throw new RangeError(`the filter gave ${inWords(kept)} for ${where()}: it must give true, false or a mask`)
  }
  if (kept.length === tokenIds.length) return kept
  throw new RangeError(`the filter gave a mask of ${kept.length} for the ${tokenIds.length} tokens of ${where()}`)
}

/**
 * Log-probabilities of a reference model, one per token of each branch in the order of `Trace.branches`; an array alone
 * stands for the only branch. The first branch that holds a token speaks for it. Throws RangeError when lengths differ.
 *
 * @category constructors
 */
export const reference = (
  rollout: Pick<Rollout, "id" | "trace">,
  logprobs: Float32Array | ReadonlyArray<Float32Array>
): Credit => {
  const branches = Trace.branches(rollout.trace)
  const arrays = logprobs instanceof Float32Array ? [logprobs] : logprobs
  if (arrays.length !== branches.length) {
    throw new RangeError(
      `log-probabilities of ${arrays.length} for the ${branches.length} branches of rollout ${rollout.id}`
    )
  }
  const claims: Array<Claim> = []
  for (const [index, { path, shared }] of branches.entries()) {
    const values = arrays[index]!
    let at = 0
    for (const [depth, node] of path.entries()) {
      const end = at + rollout.trace.nodes[node]!.tokenIds.length
      if (depth >= shared) claims.push(claim("referenceLogprobs", node, values.subarray(at, end)))
      at = end
    }
    if (at !== values.length) {
      throw new RangeError(
        `${values.length} log-probabilities for ${at} tokens of branch ${index}, rollout ${rollout.id}`
      )
    }
  }
  return { claims }
}

/** The component that trains the sampled tokens: `rl` is what happens anyway. @category constructors */
export const actions = (component: "rl" | "ce" | "refKl"): Credit =>
  component === "rl" ? empty : { claims: [claim("rl", "sampled", 0), claim(component, "sampled", 1)] }

/** Marks who wrote the claims that nobody has signed; the pipeline does it, an algorithm need not. @category combinators */
export const by = (credit: Credit, writer: string): Credit =>
  credit.claims.every((claim) => claim.writer)
    ? credit
    : { ...credit, claims: credit.claims.map((claim) => (claim.writer ? claim : { ...claim, writer })) }
