/** `POST /tokenize` and `POST /detokenize`: what ids a server reads in a text, and what text in ids. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Failure } from "./Failure.ts"
import type { Server } from "./Http.ts"
import * as LongList from "./LongList.ts"
import { decode } from "./Route.ts"

/** @category model */
export interface TokenizeRequest {
  readonly model: string
  readonly prompt: string
  /** whether a token for the beginning of a text is added */
  readonly add_special_tokens: boolean
}

/** @category schemas */
export const TokenizeResponse = Schema.Struct({ tokens: LongList.numbers })

/** The ids of a text. @category requests */
export const tokenize = (
  server: Server,
  model: string,
  prompt: string
): Effect.Effect<ReadonlyArray<number>, Failure> => {
  const body: TokenizeRequest = { model, prompt, add_special_tokens: false }
  const answer = Effect.flatMap(server.post("/tokenize", body), decode(TokenizeResponse, `${server.root}/tokenize`))
  return Effect.map(answer, ({ tokens }) => tokens)
}

/** @category model */
export interface DetokenizeRequest {
  readonly model: string
  readonly tokens: ReadonlyArray<number>
}

/** @category schemas */
export const DetokenizeResponse = Schema.Struct({ prompt: Schema.String })

/** The text of ids, special tokens spelled out. @category requests */
export const detokenize = (
  server: Server,
  model: string,
  tokens: ReadonlyArray<number>
): Effect.Effect<string, Failure> => {
  const body: DetokenizeRequest = { model, tokens }
  const answer = Effect.flatMap(
    server.post("/detokenize", body),
    decode(DetokenizeResponse, `${server.root}/detokenize`)
  )
  return Effect.map(answer, ({ prompt }) => prompt)
}
