/** What became of one attempt at a server that did not answer as asked. */
import * as Data from "effect/Data"

/** One attempt that failed. @category errors */
export class Failure extends Data.TaggedError("Failure")<{
  /** what was asked, and what came of it */
  readonly what: string
  /** whether the same request may succeed later, or elsewhere */
  readonly passing: boolean
  /** of the answer, where there was one */
  readonly status?: number | undefined
  /** the server's own word on when to ask again */
  readonly retryAfterMs?: number | undefined
  /** the prompt does not fit in the model's sequence */
  readonly promptTooLong?: boolean | undefined
}> {
  override get message() {
    return this.what
  }
}

/** An answer that cannot be used, and would be the same again. @category constructors */
export const unusable = (what: string): Failure => new Failure({ what, passing: false })

/** Whether a server has no such route. @category predicates */
export const isRouteMissing = ({ status }: Failure): boolean => status === 404 || status === 405 || status === 501
