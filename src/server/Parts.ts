/** Parts of several choices: gathered into whole choices, or counted as they pass. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { ApiError } from "./ApiError.ts"
import type { Finish, Part, Token } from "./Choice.ts"
import type { Delta } from "./Reader.ts"

/** All parts of a choice as one. @category model */
export interface Whole {
  readonly deltas: ReadonlyArray<Delta>
  readonly tokens: ReadonlyArray<Token>
  readonly finish: Finish
}

/** @category running */
export const gather = <R>(parts: Stream.Stream<Part, ApiError, R>): Effect.Effect<Whole, ApiError, R> =>
  Effect.suspend(() => {
    const deltas: Array<Delta> = []
    const tokens: Array<Token> = []
    let finish: Finish = { reason: "length", stop: undefined }
    return parts.pipe(
      Stream.runForEach((part) =>
        Effect.sync(() => {
          for (const delta of part.deltas) deltas.push(delta)
          for (const token of part.tokens) tokens.push(token)
          finish = part.finish ?? finish
        })
      ),
      Effect.map(() => ({ deltas, tokens, finish }))
    )
  })

/** All choices at once, each part with the number of its choice. @category running */
export const interleaved = <R>(
  choices: ReadonlyArray<Stream.Stream<Part, ApiError, R>>
): Stream.Stream<{ readonly index: number; readonly part: Part }, ApiError, R> =>
  Stream.mergeAll(
    choices.map((parts, index) => Stream.map(parts, (part) => ({ index, part }))),
    { concurrency: "unbounded", bufferSize: 16 }
  )

/** What is said, without reasoning and calls. @category getters */
export const contentOf = (deltas: ReadonlyArray<Delta>): string =>
  deltas.map((delta) => (delta.type === "content" ? delta.text : "")).join("")
