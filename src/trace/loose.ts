/**
 * Traces and rollouts as people look at them: lines of any version. What a reader does not know is kept as it was
 * written, so that a file of tomorrow still shows its shape; only what contradicts itself is refused.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Wire from "../internal/RolloutWire.ts"
import { jsonOf, TraceFileError } from "./codec.ts"
import type { Call, Span, Stop } from "./model.ts"
import { placeOf } from "./wire.ts"

/** A node as it was written down, of whatever kind. @category model */
export interface LooseNode {
  readonly parent: number | undefined
  readonly sampled: boolean
  readonly abandoned: boolean
  /** who speaks, or what kind of node it is */
  readonly role: string
  readonly text: string
  readonly reasoning: string | undefined
  readonly toolCalls: ReadonlyArray<{ readonly name: string; readonly arguments: string }>
  readonly tokenIds: Int32Array
  readonly mask: Uint8Array
  readonly isContent: Uint8Array
  readonly logprobs: Float32Array
  /** all that was written about it besides tokens */
  readonly raw: Readonly<Record<string, unknown>>
}

/** A trace that was read loosely, and all that its line says besides. @category model */
export interface LooseTrace {
  readonly id: string | undefined
  readonly version: number | undefined
  readonly nodes: ReadonlyArray<LooseNode>
  readonly calls: ReadonlyArray<Call> | undefined
  readonly stop: Stop | undefined
  readonly spans: ReadonlyArray<Span> | undefined
  /** the other keys of the line, as they were */
  readonly about: Readonly<Record<string, unknown>>
}

const AnyRecord = Schema.Record({ key: Schema.String, value: Schema.Unknown })
const Columns = Schema.partial(Wire.NodeTokens)

const Line = Schema.Struct({
  version: Schema.optional(Schema.Int),
  id: Schema.optional(Schema.String),
  messages: Schema.Array(AnyRecord),
  tokens: Schema.optional(Schema.Array(Columns)),
  // Words that a later version may add to are taken as they come.
  calls: Schema.optional(Schema.Array(Schema.Struct({ ...Wire.Call.fields, opened: Schema.optional(Schema.String) }))),
  stop: Schema.optional(Schema.Struct({ reason: Schema.String, by: Schema.String })),
  spans: Schema.optional(Schema.Array(Wire.Span))
})

const decodeLine = Schema.decodeUnknownEither(Line)

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const textOf = (content: unknown): string => {
  if (typeof content === "string") return content
  if (!Array.isArray(content)) return ""
  return content
    .map((part: unknown) =>
      !isRecord(part) ? "" : typeof part.text === "string" ? part.text : `[${String(part.type ?? "part")}]`
    )
    .join("")
}

const callsOf = (value: unknown): LooseNode["toolCalls"] =>
  Array.isArray(value)
    ? value.filter(isRecord).map((call) => ({ name: String(call.name ?? ""), arguments: String(call.arguments ?? "") }))
    : []

const none = { i32: new Int32Array(0), u8: new Uint8Array(0), f32: new Float32Array(0) }

const nodeOf = (
  raw: Readonly<Record<string, unknown>>,
  tokens: typeof Columns.Type | undefined,
  index: number
): Either.Either<LooseNode, string> => {
  const parent = raw.parent ?? undefined
  if (
    parent !== undefined &&
    !(typeof parent === "number" && Number.isInteger(parent) && parent >= 0 && parent < index)
  )
    return Either.left(`message ${index} has parent ${JSON.stringify(parent)}`)
  const { isContent, logprobs = none.f32, mask, tokenIds = none.i32 } = tokens ?? {}
  for (const [name, stream] of Object.entries({ mask, isContent })) {
    if (stream !== undefined && stream.length !== tokenIds.length)
      return Either.left(`message ${index}: ${tokenIds.length} ids and ${stream.length} of ${name}`)
  }
  const message = isRecord(raw.message) ? raw.message : {}
  const role = message.role ?? raw.kind
  return Either.right({
    parent,
    sampled: raw.sampled === true,
    abandoned: raw.abandoned === true,
    role: typeof role === "string" ? role : "unknown",
    text: textOf(message.content),
    reasoning: typeof message.reasoningContent === "string" ? message.reasoningContent : undefined,
    toolCalls: callsOf(message.toolCalls),
    tokenIds,
    mask: mask ?? new Uint8Array(tokenIds.length),
    isContent: isContent ?? new Uint8Array(tokenIds.length),
    logprobs,
    raw
  })
}

/**
 * Reads a line of a file of traces, or of a run's rollouts, of any version. Fails with `TraceFileError` on what has no
 * messages, and on parents and streams that contradict each other.
 *
 * @category codec
 */
export const parseLoosely = (line: string): Either.Either<LooseTrace, TraceFileError> =>
  Either.gen(function* () {
    const refused = (reason: string) => new TraceFileError({ reason })
    const json = yield* jsonOf(line)
    const { calls, id, messages, spans, stop, tokens, version } = yield* Either.mapLeft(decodeLine(json), (error) =>
      refused(placeOf(error))
    )
    if (tokens !== undefined && tokens.length !== messages.length) {
      return yield* Either.left(refused(`${messages.length} messages and the tokens of ${tokens.length}`))
    }
    const nodes: Array<LooseNode> = []
    for (const [index, raw] of messages.entries()) {
      nodes.push(yield* Either.mapLeft(nodeOf(raw, tokens?.[index], index), refused))
    }
    const stray = calls?.find(({ node }) => node >= nodes.length)
    if (stray !== undefined) return yield* Either.left(refused(`a call has answer ${stray.node} of ${nodes.length}`))
    const known = new Set(["kind", ...Object.keys(Line.fields)])
    const about = Object.fromEntries(
      Object.entries(json as Readonly<Record<string, unknown>>).filter(([key]) => !known.has(key))
    )
    return {
      ...{ id, version, nodes, spans, about },
      calls: calls as ReadonlyArray<Call> | undefined,
      stop: stop as Stop | undefined
    }
  })
