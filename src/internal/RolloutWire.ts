/**
 * The shape in which a rollout is written down: readable text first, then its tokens as base64 columns. Arrays of tokens
 * pass through the schema as one string each, never element by element.
 */
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Columns from "./Columns.ts"

/** Finite numbers as they are; what JSON has no number for (NaN, infinities, −0) by name. */
export const Float = Schema.transform(
  Schema.Union(Schema.JsonNumber, Schema.Literal("NaN", "Infinity", "-Infinity", "-0")),
  Schema.Number,
  {
    strict: true,
    decode: (value) => Number(value),
    encode: (value) =>
      Object.is(value, -0) ? "-0" : Number.isFinite(value) ? value : (String(value) as "NaN" | "Infinity" | "-Infinity")
  }
)

const column = <A extends Int32Array | Float32Array | Uint8Array>(
  is: (value: unknown) => value is A,
  decode: (
    text: string
  ) => { readonly _tag: "Left"; readonly left: string } | { readonly _tag: "Right"; readonly right: A }
) =>
  Schema.transformOrFail(Schema.String, Schema.declare(is), {
    strict: true,
    decode: (text, _, ast) => {
      const result = decode(text)
      return result._tag === "Right"
        ? ParseResult.succeed(result.right)
        : ParseResult.fail(new ParseResult.Type(ast, `${text.slice(0, 24)}…`, result.left))
    },
    encode: (array) => ParseResult.succeed(Columns.encode(array))
  })

const Int32Column = column((value): value is Int32Array => value instanceof Int32Array, Columns.int32)
const Uint8Column = column((value): value is Uint8Array => value instanceof Uint8Array, Columns.uint8)
export const Float32Column = column((value): value is Float32Array => value instanceof Float32Array, Columns.float32)

const ToolCall = Schema.Struct({ id: Schema.String, name: Schema.String, arguments: Schema.String })

export const Message = Schema.Union(
  Schema.Struct({ role: Schema.Literal("system"), content: Schema.String }),
  Schema.Struct({ role: Schema.Literal("user"), content: Schema.String }),
  Schema.Struct({
    role: Schema.Literal("assistant"),
    content: Schema.NullOr(Schema.String),
    reasoningContent: Schema.optional(Schema.String),
    toolCalls: Schema.optional(Schema.Array(ToolCall))
  }),
  Schema.Struct({
    role: Schema.Literal("tool"),
    toolCallId: Schema.String,
    content: Schema.String,
    name: Schema.optional(Schema.String)
  })
)

const Index = Schema.NonNegativeInt

/** Text of the nodes, in order; a root has no parent. */
export const NodeText = Schema.Struct({
  parent: Schema.optional(Index),
  sampled: Schema.Boolean,
  abandoned: Schema.optional(Schema.Boolean),
  message: Message
})

/** Tokens of the nodes, in the same order. */
export const NodeTokens = Schema.Struct({
  tokenIds: Int32Column,
  mask: Uint8Column,
  isContent: Uint8Column,
  logprobs: Float32Column
})

/** Model calls of a trace, in the order in which they were answered. */
export const Call = Schema.Struct({
  node: Index,
  promptTokens: Index,
  cachedTokens: Index,
  completionTokens: Index,
  opened: Schema.optional(Schema.Literal("start", "root", "fork", "rewrite", "resample", "tokens")),
  bridged: Schema.optional(Schema.Boolean),
  finishReason: Schema.optional(Schema.String),
  versions: Schema.optional(Schema.Array(Schema.Struct({ version: Schema.Int, tokens: Index }))),
  replaces: Schema.optional(Index)
})

/** What ended a trace. */
export const Stop = Schema.Struct({
  reason: Schema.String,
  by: Schema.Literal("harness", "task", "environment", "sampling", "engine", "caller")
})

/** How long something took; only files of traces hold it, since it never repeats. */
export const Span = Schema.Struct({
  name: Schema.String,
  startMs: Schema.JsonNumber,
  endMs: Schema.JsonNumber,
  node: Schema.optional(Index)
})

const Size = Schema.Struct({ id: Schema.String, size: Index })

export const Planned = Schema.Struct({
  id: Schema.String,
  source: Schema.String,
  example: Schema.String,
  seat: Schema.String,
  sequence: Index,
  group: Size,
  episode: Size,
  policyVersion: Schema.Int,
  labels: Schema.Record({ key: Schema.String, value: Schema.String })
})

const StopReason = Schema.Literal("done", "length", "max_turns", "max_tokens", "prompt_too_long", "timeout", "task")

const Numbers = Schema.Record({ key: Schema.String, value: Float })

export const Rollout = Schema.Struct({
  _tag: Schema.Literal("Rollout"),
  id: Schema.String,
  example: Schema.String,
  reward: Float,
  rewards: Numbers,
  metrics: Numbers,
  stopReason: StopReason,
  stop: Schema.optional(Stop),
  messages: Schema.Array(NodeText),
  source: Schema.String,
  seat: Schema.String,
  sequence: Index,
  group: Size,
  episode: Size,
  policyVersion: Schema.Int,
  labels: Schema.Record({ key: Schema.String, value: Schema.String }),
  info: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.String }), { default: () => ({}) }),
  temperature: Float,
  calls: Schema.optional(Schema.Array(Call)),
  tokens: Schema.Array(NodeTokens)
})

export const Absent = Schema.Struct({
  _tag: Schema.Literal("Absent"),
  planned: Planned,
  reason: Schema.Union(
    Schema.Struct({ _tag: Schema.Literal("Cancelled"), why: Schema.Literal("stale", "overload", "shutdown") }),
    Schema.Struct({
      _tag: Schema.Literal("Failed"),
      blame: Schema.Literal(
        "task",
        "harness",
        "tools",
        "runtime",
        "provider",
        "interception",
        "environment",
        "algorithm"
      ),
      message: Schema.String
    }),
    Schema.Struct({ _tag: Schema.Literal("NoReward"), reward: Float }),
    Schema.Struct({ _tag: Schema.Literal("NothingTrainable"), stopReason: Schema.optional(StopReason) }),
    Schema.Struct({ _tag: Schema.Literal("Late"), set: Schema.String }),
    Schema.Struct({ _tag: Schema.Literal("Incomplete"), set: Schema.String, missing: Index }),
    Schema.Struct({ _tag: Schema.Literal("NotAdmitted"), gate: Schema.String })
  )
})

export const Ended = Schema.Union(Rollout, Absent)
