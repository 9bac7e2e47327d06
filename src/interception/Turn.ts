/**
 * One turn with all who wait for it: the client that asked, and those that ask the same while it is sampled or after. It
 * is sampled once. When the last of them goes before it is in the trace, it is given up, and nothing of it is kept.
 */
import type { Completion } from "../Session.ts"
import type { ApiError } from "../wire/ApiError.ts"
import type { Answer } from "./Answer.ts"
import type { Delta } from "./Delta.ts"
import type { Identity } from "./Dialect.ts"
import * as Said from "./Said.ts"

/** @category model */
export interface Turn {
  /** the same in every answer */
  readonly identity: Identity
  /** Tells the answer all that there is, and what comes. */
  readonly join: (answer: Answer) => void
  /** Its client is gone. */
  readonly leave: (answer: Answer) => void
  readonly begun: (promptTokens: number) => void
  readonly said: (deltas: ReadonlyArray<Delta>) => void
  readonly committed: (completion: Completion) => ReadonlyArray<Said.Part>
  readonly failed: (error: ApiError) => void
  readonly isDone: () => boolean
  /** those who wait for it now */
  readonly waiting: ReadonlySet<Answer>
}

/** @category constructors */
export const make = (options: { readonly identity: Identity; readonly giveUp: () => void }): Turn => {
  const waiting = new Set<Answer>()
  let promptTokens: number | undefined
  let deltas: Array<Delta> = []
  let done: { readonly said: ReadonlyArray<Said.Part>; readonly completion: Completion } | undefined
  const toAll = (tell: (answer: Answer) => void) => {
    for (const answer of waiting) tell(answer)
  }
  return {
    identity: options.identity,
    join: (answer) => {
      if (promptTokens !== undefined) answer.begin(promptTokens)
      if (deltas.length > 0) answer.said(deltas)
      if (done === undefined) waiting.add(answer)
      else answer.end(done.said, done.completion)
    },
    leave: (answer) => {
      if (waiting.delete(answer) && waiting.size === 0 && done === undefined) options.giveUp()
    },
    begun: (tokens) => {
      promptTokens = tokens
      toAll(({ begin }) => begin(tokens))
    },
    said: (more) => {
      deltas.push(...more)
      toAll(({ said }) => said(more))
    },
    committed: (completion) => {
      const said = Said.add([], deltas)
      done = { said, completion }
      // told in few pieces to those who ask again
      deltas = [...said]
      toAll(({ end }) => end(said, completion))
      waiting.clear()
      return said
    },
    failed: (error) => {
      const all = Array.from(waiting)
      waiting.clear()
      for (const { fail } of all) fail(error)
    },
    isDone: () => done !== undefined,
    waiting
  }
}
