/** A trace as a tree: one line for each message, and what its branches and calls come to. */
import * as Trace from "../../src/Trace.ts"
import { type Colour, cut, paint, type Style } from "./Style.ts"

const openings: Readonly<Record<string, string>> = {
  root: "new root",
  fork: "fork",
  rewrite: "rewritten history",
  resample: "asked again",
  tokens: "encoded anew"
}

const marks = (unicode: boolean) =>
  unicode
    ? { middle: "├─ ", last: "└─ ", beside: "│  ", quote: ["“", "”"] as const, more: "…" }
    : { middle: "|- ", last: "`- ", beside: "|  ", quote: ['"', '"'] as const, more: "..." }

const sampledOf = ({ mask }: Trace.LooseNode): number => mask.reduce((sum, bit) => sum + bit, 0)

// biome-ignore lint/suspicious/noControlCharactersInRegex: what a terminal would obey is shown, not sent
const control = /[\u0000-\u001f\u007f-\u009f]/g

/** The first words of a message on one line: breaks and what would move the cursor are spelled out. */
const words = ({ raw, reasoning, role, text, toolCalls }: Trace.LooseNode): string => {
  const calls = toolCalls.map(({ arguments: given, name }) => `${name}(${given})`)
  const known = ["system", "user", "assistant", "tool"].includes(role)
  const other = known || text !== "" ? [] : [JSON.stringify(raw)]
  const thought = reasoning === undefined ? [] : [`<think>${reasoning}</think>`]
  return [...thought, ...(text === "" ? [] : [text]), ...calls, ...other]
    .join(" ")
    .replace(/\n/g, "\\n")
    .replace(control, (found) => `\\x${found.charCodeAt(0).toString(16).padStart(2, "0")}`)
}

const colourOf = ({ abandoned, role, sampled }: Trace.LooseNode): Colour | undefined =>
  abandoned ? "red" : sampled ? "green" : role === "tool" ? "yellow" : undefined

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? "" : "s"}`

/** Versions of an answer: "v3", or "v3·v4" when they changed on the way. */
const versionsOf = (call: Trace.Call): ReadonlyArray<string> =>
  call.versions === undefined ? [] : [call.versions.map(({ version }) => `v${version}`).join("+")]

const ofCall = (call: Trace.Call, number: number): ReadonlyArray<string> => [
  `turn ${number}`,
  `prompt ${call.promptTokens}${call.cachedTokens > 0 ? ` (${call.cachedTokens} cached)` : ""}`,
  ...versionsOf(call),
  ...(call.finishReason === undefined || call.finishReason === "stop" ? [] : [call.finishReason]),
  ...(call.replaces === undefined ? [] : [`replaces message ${call.replaces}`])
]

/** The tree, a line for each message. @category rendering */
export const tree = (trace: Trace.LooseTrace, style: Style, columns: number): ReadonlyArray<string> => {
  const { beside, last, middle, more, quote } = marks(style.unicode)
  const { nodes } = trace
  const children = new Map<number | undefined, Array<number>>()
  for (const [index, { parent }] of nodes.entries()) children.set(parent, [...(children.get(parent) ?? []), index])
  const callOf = new Map(Trace.calls(trace).map((call, i) => [call.node, { call, number: i + 1 }]))
  /** how the call that added a message left the others */
  const openedAt = new Map<number, string>()
  for (const { node, opened } of trace.calls ?? []) {
    if (opened === undefined || opened === "start") continue
    let first = node
    while (nodes[first]!.parent === first - 1 && !nodes[first - 1]!.sampled && !callOf.has(first - 1)) first--
    openedAt.set(first, openings[opened] ?? opened)
  }
  const digits = String(nodes.length - 1).length
  const lines: Array<string> = []
  const line = (index: number, lead: string) => {
    const node = nodes[index]!
    const found = callOf.get(index)
    const opening = openedAt.get(index)
    const sampled = sampledOf(node)
    const tokens = `${String(node.tokenIds.length - sampled).padStart(5)}${sampled > 0 ? ` + ${sampled}` : ""}`
    const facts = [
      ...(found === undefined ? [] : ofCall(found.call, found.number)),
      ...(node.abandoned ? ["abandoned: never reached its caller"] : [])
    ]
    const said = words(node)
    const head = `${lead}${paint(style, "dim", String(index).padStart(digits))} ${paint(style, colourOf(node), node.role.padEnd(9))} ${tokens.padEnd(12)}`
    const tail = [
      ...(opening === undefined ? [] : [paint(style, "cyan", `[${opening}]`)]),
      ...(facts.length === 0 ? [] : [paint(style, "dim", `(${facts.join(", ")})`)]),
      `${quote[0]}${said}${quote[1]}`
    ].join(" ")
    const whole = `${head}  ${tail}`
    const short = cut(whole, columns - more.length)
    return short === whole || cut(whole, columns) === whole ? whole : `${short}${more}`
  }
  // A conversation stays in its column; only where it forks its branches move to the right. The stack spares recursion
  // a depth of one frame a message.
  const open: Array<{ readonly index: number; readonly first: string; readonly rest: string }> = []
  const push = (parent: number | undefined, rest: string) => {
    const next = children.get(parent) ?? []
    for (const [i, index] of [...next.entries()].reverse()) {
      const isLast = i === next.length - 1
      open.push(
        next.length === 1
          ? { index, first: rest, rest }
          : { index, first: `${rest}${isLast ? last : middle}`, rest: `${rest}${isLast ? "   " : beside}` }
      )
    }
  }
  push(undefined, "")
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    lines.push(line(at.index, at.first))
    push(at.index, at.rest)
  }
  return lines
}

/** What a branch holds: tokens in all, and those that it trains. @category model */
export interface BranchTotal {
  readonly messages: number
  readonly turns: number
  readonly tokens: number
  /** sampled tokens that no earlier branch has */
  readonly sampled: number
  /** messages that it shares with an earlier branch */
  readonly shared: number
}

/** The branches of a trace in numbers. @category getters */
export const branchTotals = ({ nodes }: Trace.LooseTrace): ReadonlyArray<BranchTotal> =>
  Trace.branches({ nodes }).map(({ path, shared }) => ({
    messages: path.length,
    turns: path.filter((node) => nodes[node]!.sampled).length,
    tokens: path.reduce((sum, node) => sum + nodes[node]!.tokenIds.length, 0),
    sampled: path.slice(shared).reduce((sum, node) => sum + sampledOf(nodes[node]!), 0),
    shared
  }))

const number = (value: number): string => String(Number(value.toPrecision(4)))

/** Reward and metrics that a rollout's line tells. */
const scores = (about: LooseAbout): ReadonlyArray<string> => [
  ...(typeof about.reward === "number" ? [`reward ${number(about.reward)}`] : []),
  ...(typeof about.reward === "string" ? [`reward ${about.reward}`] : [])
]

type LooseAbout = Trace.LooseTrace["about"]

const stopOf = ({ about, stop }: Trace.LooseTrace): ReadonlyArray<string> =>
  stop !== undefined
    ? [`ended by ${stop.by}: ${stop.reason}`]
    : typeof about.stopReason === "string"
      ? [`ended: ${about.stopReason}`]
      : []

/** A line that says what a trace came to. @category rendering */
export const summary = (trace: Trace.LooseTrace): string => {
  const calls = Trace.calls(trace)
  const { cachedTokens, completionTokens, promptTokens } = Trace.usage(calls)
  const branches = Trace.branches(trace)
  return [
    ...scores(trace.about),
    ...stopOf(trace),
    count(calls.length, "turn"),
    `${branches.length} ${branches.length === 1 ? "branch" : "branches"}`,
    `prompt ${promptTokens}${cachedTokens > 0 ? ` (${cachedTokens} cached)` : ""} + ${completionTokens} sampled`
  ].join("  ")
}

const milliseconds = (ms: number): string => (ms >= 1000 ? `${number(ms / 1000)} s` : `${number(ms)} ms`)

const timing = ({ spans = [] }: Trace.LooseTrace): ReadonlyArray<string> =>
  spans.length === 0
    ? []
    : [
        `time  ${Object.entries(Trace.durations(spans))
          .map(([name, ms]) => `${name} ${milliseconds(ms)}`)
          .join("  ")}`
      ]

/** A trace under its name: the tree, then its branches, and what was measured. @category rendering */
export const whole = (id: string, trace: Trace.LooseTrace, style: Style, columns: number): string => {
  const { metrics } = trace.about
  const measured =
    typeof metrics === "object" && metrics !== null && Object.keys(metrics).length > 0
      ? [
          `metrics  ${Object.entries(metrics)
            .map(([name, value]) => `${name} ${typeof value === "number" ? number(value) : String(value)}`)
            .join("  ")}`
        ]
      : []
  const totals = branchTotals(trace).map(
    ({ messages, sampled, shared, tokens, turns }, i) =>
      `branch ${i + 1}  ${count(messages, "message")}, ${count(turns, "turn")}, ${count(tokens, "token")}, ${sampled} sampled${
        shared > 0 ? ` (its first ${shared} messages lie on an earlier branch)` : ""
      }`
  )
  // A run measures it of every rollout already.
  const known = trace.calls === undefined || measured.length > 0
  const drift = known ? [] : [`drift  ${number(Trace.drift({ calls: trace.calls }))}`]
  const lines = [
    `${paint(style, "bold", id)}  ${summary(trace)}`,
    ...tree(trace, style, columns),
    ...[...totals, ...measured, ...drift, ...timing(trace)].map((one) => paint(style, "dim", one))
  ]
  return `${lines.join("\n")}\n`
}
