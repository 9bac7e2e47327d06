/** What the calls of a trace come to: tokens, versions, drift, time. */
import type { Call, Node, Span, Trace, Usage } from "./model.ts"

type Graph = { readonly nodes: ReadonlyArray<Pick<Node, "parent" | "sampled" | "tokenIds" | "isContent">> }

/** A trace without calls shows what each answer was asked with; what was known before is what lies before its own messages. */
const derived = ({ nodes }: Graph): ReadonlyArray<Call> =>
  nodes.flatMap((node, index) => {
    if (!node.sampled) return []
    let own = index
    while (nodes[own]!.parent === own - 1 && !nodes[own - 1]!.sampled) own--
    let cachedTokens = 0
    for (let at = nodes[own]!.parent; at !== undefined; at = nodes[at]!.parent) {
      cachedTokens += nodes[at]!.tokenIds.length
    }
    let promptTokens = cachedTokens
    for (let at = own; at < index; at++) promptTokens += nodes[at]!.tokenIds.length
    const scaffold = node.isContent.indexOf(1)
    const completionTokens = node.isContent.reduce((sum, flag) => sum + flag, 0)
    return [
      {
        node: index,
        promptTokens: promptTokens + (scaffold === -1 ? node.tokenIds.length : scaffold),
        cachedTokens,
        completionTokens
      }
    ]
  })

/** The model calls of a trace; where it was made without them, as its answers show them. @category measures */
export const calls = (trace: Graph & { readonly calls?: ReadonlyArray<Call> | undefined }): ReadonlyArray<Call> =>
  trace.calls ?? derived(trace)

/** Tokens of all calls together, those of abandoned answers included: they were computed. @category measures */
export const usage = (calls: ReadonlyArray<Usage>): Usage => {
  const total = (of: (call: Usage) => number) => calls.reduce((sum, call) => sum + of(call), 0)
  return {
    promptTokens: total(({ promptTokens }) => promptTokens),
    cachedTokens: total(({ cachedTokens }) => cachedTokens),
    completionTokens: total(({ completionTokens }) => completionTokens)
  }
}

/**
 * Share of the turns whose messages go on with a branch and whose ids do not: the history was encoded anew and came out
 * otherwise. 0 for a trace without turns.
 *
 * @category measures
 */
export const drift = (trace: Pick<Trace, "calls">): number => {
  const all = trace.calls ?? []
  return all.length === 0 ? 0 : all.filter(({ opened }) => opened === "tokens").length / all.length
}

/**
 * Version of the weights that sampled each token of an answer, −1 on tokens that were not sampled: one entry per token.
 * Undefined when it is not known.
 *
 * @category measures
 */
export const versions = ({ calls, nodes }: Trace, node: number): Int32Array | undefined => {
  const stretches = calls?.find((call) => call.node === node)?.versions
  const flags = nodes[node]?.isContent
  if (stretches === undefined || flags === undefined) return undefined
  const all = new Int32Array(flags.length).fill(-1)
  let at = flags.indexOf(1)
  for (const { tokens, version } of stretches) {
    if (tokens > 0) all.fill(version, at, at + tokens)
    at += tokens
  }
  return all
}

/** Adds how long something took. @category measures */
export const timed = (trace: Trace, span: Span): Trace => ({ ...trace, spans: [...(trace.spans ?? []), span] })

/** Milliseconds by name of span; spans that overlap count each for itself. @category measures */
export const durations = (spans: ReadonlyArray<Span>): Readonly<Record<string, number>> => {
  const sums: Record<string, number> = {}
  for (const { endMs, name, startMs } of spans) sums[name] = (sums[name] ?? 0) + endMs - startMs
  return sums
}
