/** `POST /tokenize`: what ids a server reads in a text. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Failure } from "./Failure.ts"
import type { Server } from "./Http.ts"
import * as LongList from "./LongList.ts"
import { decode } from "./Route.ts"

const path = "/tokenize"

/** @category model */
export interface TokenizeRequest {
  readonly model: string
  readonly prompt: string
  /** whether a token for the beginning of a text is added */
  readonly add_special_tokens: boolean
}

/** @category schemas */
export const TokenizeResponse = Schema.Struct({ tokens: LongList.numbers })

/** The ids of a text, in which the spelling of a special token reads as that token. @category requests */
export const tokenize = (
  server: Server,
  model: string,
  prompt: string
): Effect.Effect<ReadonlyArray<number>, Failure> => {
  const body: TokenizeRequest = { model, prompt, add_special_tokens: false }
  return server.post(path, body).pipe(
    Effect.flatMap(decode(TokenizeResponse, `${server.root}${path}`)),
    Effect.map(({ tokens }) => tokens)
  )
}
