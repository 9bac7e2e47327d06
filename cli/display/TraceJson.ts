/** A trace as one JSON document for programs: numbers and text, without the tokens themselves. */
import * as Trace from "../../src/Trace.ts"
import type { Entry } from "../traces.ts"
import { branchTotals } from "./TraceText.ts"

const sum = (flags: Uint8Array): number => flags.reduce((total, flag) => total + flag, 0)

/** What `primerl trace --json` prints of one line of a file. @category rendering */
export const documentOf = ({ absent, file, id, line, trace }: Entry): unknown => {
  if (trace === undefined) return { id, file, line, absent }
  const { about, nodes, spans, stop, version } = trace
  const calls = Trace.calls(trace)
  return {
    id,
    file,
    line,
    version,
    reward: about.reward,
    metrics: about.metrics,
    stop: stop ?? (about.stopReason === undefined ? undefined : { reason: about.stopReason }),
    usage: Trace.usage(calls),
    drift: trace.calls === undefined ? undefined : Trace.drift({ calls: trace.calls }),
    nodes: nodes.map(({ abandoned, isContent, mask, parent, raw, role, sampled, tokenIds }, index) => ({
      index,
      parent,
      role,
      sampled,
      ...(abandoned ? { abandoned } : {}),
      message: raw.message ?? raw,
      tokens: tokenIds.length,
      sampledTokens: sum(mask),
      contentTokens: sum(isContent)
    })),
    calls,
    branches: Trace.branches(trace).map(({ path }, i) => ({ path, ...branchTotals(trace)[i] })),
    spans
  }
}
