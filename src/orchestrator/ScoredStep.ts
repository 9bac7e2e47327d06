/**
 * A step whose rollouts all have their credit, and the cells of state that scoring left behind: enough to train it, and
 * to go on behind it, without asking any algorithm, teacher or judge again. As text it is one line for the step and one
 * for each rollout, in the order of the plan; the rollouts themselves are journaled elsewhere.
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type { Scored } from "../DependentSet.ts"
import * as CreditWire from "../internal/CreditWire.ts"
import * as Wire from "../internal/RolloutWire.ts"
import type { Absent, Ended } from "../Rollout.ts"
import type { Snapshot } from "../State.ts"

/** @category model */
export interface ScoredStep {
  /** everything that was planned for the step, in the order of the plan */
  readonly items: ReadonlyArray<Scored | Absent>
  /** every cell, encoded, as it was when the last of them had its credit */
  readonly state: Snapshot
}

/** Raised with every change of what the text holds. */
const formatVersion = 1

const Head = Schema.parseJson(
  Schema.Struct({
    format_version: Schema.Literal(formatVersion),
    step: Schema.Int,
    state: Schema.Record({ key: Schema.String, value: Schema.Unknown })
  })
)

const Line = Schema.parseJson(
  Schema.Union(
    Schema.Struct({ id: Schema.String, credit: CreditWire.Credit }),
    Schema.Struct({ id: Schema.String, absent: Wire.Absent })
  )
)

const encodeHead = Schema.encodeSync(Head)
const encodeLine = Schema.encodeSync(Line)
const decodeHead = Schema.decodeUnknownEither(Head)
const decodeLine = Schema.decodeUnknownEither(Line)

const sorted = (state: Snapshot): Snapshot =>
  Object.fromEntries(Object.entries(state).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))

const lineOf = (item: Scored | Absent): string =>
  item._tag === "Absent"
    ? encodeLine({ id: item.planned.id, absent: item })
    : encodeLine({ id: item.rollout.id, credit: item.credit })

/** The same bytes for the same step. Throws ParseError on what has no written form. @category encoding */
export const text = (step: number, { items, state }: ScoredStep): string =>
  [encodeHead({ format_version: formatVersion, step, state: sorted(state) }), ...items.map(lineOf), ""].join("\n")

const inWords = (error: ParseResult.ParseError): string => {
  const issue = ParseResult.ArrayFormatter.formatErrorSync(error)[0]
  const where = issue === undefined || issue.path.length === 0 ? "" : `${issue.path.map(String).join(".")}: `
  return `${where}${issue?.message ?? error.message}; take this file away to score the step again`
}

const at = <A>(line: number, result: Either.Either<A, string>): Either.Either<A, string> =>
  Either.mapLeft(result, (reason) => `line ${line}: ${reason}`)

/** The cells alone. Left says what is wrong, and in which line. @category decoding */
export const stateOf = (written: string): Either.Either<Snapshot, string> =>
  at(
    1,
    Either.mapBoth(decodeHead(written.split("\n", 1)[0]), {
      onLeft: inWords,
      onRight: ({ state }) => state
    })
  )

/** Reads what `text` wrote; `find` gives a journaled rollout by its id. Left says what is wrong. @category decoding */
export const parse = (written: string, find: (id: string) => Option.Option<Ended>): Either.Either<ScoredStep, string> =>
  Either.gen(function* () {
    const state = yield* stateOf(written)
    const items: Array<Scored | Absent> = []
    for (const [index, line] of written.trimEnd().split("\n").slice(1).entries()) {
      items.push(
        yield* at(
          index + 2,
          Either.flatMap(Either.mapLeft(decodeLine(line), inWords), (one) => itemOf(one, find))
        )
      )
    }
    return { items, state }
  })

const itemOf = (
  line: typeof Line.Type,
  find: (id: string) => Option.Option<Ended>
): Either.Either<Scored | Absent, string> => {
  if ("absent" in line) return Either.right(line.absent)
  const found = Option.getOrUndefined(find(line.id))
  return found?._tag === "Rollout"
    ? Either.right({ _tag: "Scored", rollout: found, credit: line.credit })
    : Either.left(`rollout ${line.id} is not in the journal; put its file back, or take this one away to score again`)
}
