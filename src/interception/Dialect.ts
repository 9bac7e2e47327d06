/** What a protocol decides: how a request is read, and how a turn, its pieces and its failure are written. */
import type * as Either from "effect/Either"
import type { Message, ToolSpec } from "../Message.ts"
import type { Completion } from "../Session.ts"
import type { ApiError } from "../wire/ApiError.ts"
import type { Spelling } from "../wire/Logprobs.ts"
import type { Delta } from "./Delta.ts"
import type { Part } from "./Said.ts"

/** What every answer says beside the turn. @category model */
export interface Identity {
  /** unique on this server */
  readonly id: string
  /** seconds since 1970 */
  readonly created: number
  /** the model that answers, whichever was asked for */
  readonly model: string
  /** how a token is written where its text is asked for */
  readonly spelling: Spelling
}

/** Writes one turn as server-sent events, of which each is whole. @category model */
export interface Writer {
  readonly begin: (promptTokens: number) => string
  readonly said: (deltas: ReadonlyArray<Delta>) => string
  /** What closes the turn, with the event by which a client knows that it has all: never before the turn is in the trace. */
  readonly end: (completion: Completion) => string
  /** Instead of the end. */
  readonly fail: (error: ApiError) => string
}

/** What a client asks of the policy, in no protocol's words. @category model */
export interface Ask {
  readonly messages: ReadonlyArray<Message>
  readonly tools: ReadonlyArray<ToolSpec>
  readonly maxTokens: number | undefined
  readonly stop: ReadonlyArray<string>
  readonly stream: boolean
  readonly whole: (identity: Identity, said: ReadonlyArray<Part>, completion: Completion) => object
  readonly writer: (identity: Identity) => Writer
}

/** @category model */
export interface Dialect {
  readonly read: (body: object) => Either.Either<Ask, ApiError>
  /** The body of an answer that is an error. */
  readonly error: (error: ApiError) => object
}
