/**
 * Traces as lines of JSON (JSONL). Every line says its version. `parse` reads what it can check to the last token;
 * `parseLoosely` reads lines of any version, and rollouts, for people to look at.
 */
import * as Data from "effect/Data"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Wire from "../internal/RolloutWire.ts"
import type { Trace } from "./model.ts"
import { graphOf, graphParts, placeOf } from "./wire.ts"

/** Version of the lines that `stringify` writes. @category codec */
export const VERSION = 1

const File = Schema.Struct({
  kind: Schema.Literal("trace"),
  version: Schema.Int,
  id: Schema.optional(Schema.String),
  stop: Schema.optional(Wire.Stop),
  messages: Schema.Array(Wire.NodeText),
  calls: Schema.optional(Schema.Array(Wire.Call)),
  spans: Schema.optional(Schema.Array(Wire.Span)),
  tokens: Schema.Array(Wire.NodeTokens)
})

/** What is looked at before anything else. */
const decodeVersion = Schema.decodeUnknownEither(Schema.Struct({ version: Schema.Int }))
const encodeFile = Schema.encodeSync(File)
const decodeFile = Schema.decodeUnknownEither(File)

/** A line that is no trace, or one that contradicts itself. @category errors */
export class TraceFileError extends Data.TaggedError("TraceFileError")<{ readonly reason: string }> {
  override get message() {
    return `not a trace: ${this.reason}`
  }
}

/** A trace with its name, as it lies in a file. @category model */
export interface Named {
  readonly id: string | undefined
  readonly trace: Trace
}

/** One line of JSON: text first, then tokens; every typed array comes back bit for bit. @category codec */
export const stringify = (trace: Trace, id?: string): string => {
  const { stop, ...parts } = graphParts(trace)
  const line = {
    kind: "trace" as const,
    version: VERSION,
    ...(id === undefined ? {} : { id }),
    ...(stop === undefined ? {} : { stop }),
    ...parts,
    ...(trace.spans === undefined ? {} : { spans: trace.spans })
  }
  return JSON.stringify(encodeFile(line))
}

/** A line of text as JSON. @category codec */
export const jsonOf = (line: string): Either.Either<unknown, TraceFileError> =>
  Either.try({
    try: () => JSON.parse(line) as unknown,
    catch: (cause) => new TraceFileError({ reason: String(cause) })
  })

/**
 * Reads a line of `stringify`, of this version or an earlier one; keys that it does not know are passed over. Fails with
 * `TraceFileError`, which names the place.
 *
 * @category codec
 */
export const parse = (line: string): Either.Either<Named, TraceFileError> =>
  Either.gen(function* () {
    const refused = (reason: string) => new TraceFileError({ reason })
    const json = yield* jsonOf(line)
    const said = decodeVersion(json)
    if (Either.isRight(said) && said.right.version > VERSION) {
      return yield* Either.left(refused(`it is of version ${said.right.version}, and this program knows ${VERSION}`))
    }
    const { id, spans, ...parts } = yield* Either.mapLeft(decodeFile(json), (error) => refused(placeOf(error)))
    const trace = yield* Either.mapLeft(graphOf(parts), refused)
    return { id, trace: spans === undefined ? trace : { ...trace, spans } }
  })
