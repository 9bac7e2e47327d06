/** `GET /v1/models`: what a server serves, and how long a sequence it takes. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type Failure, unusable } from "./Failure.ts"
import type { Server } from "./Http.ts"
import { decode } from "./Route.ts"

const path = "/v1/models"

/** vLLM and SGLang say `max_model_len`, in tokens of prompt and completion; OpenAI does not. @category schemas */
export const ModelCard = Schema.Struct({
  id: Schema.String,
  max_model_len: Schema.optional(Schema.NullOr(Schema.Int.pipe(Schema.positive())))
})

/** @category schemas */
export const ModelList = Schema.Struct({ data: Schema.Array(ModelCard) })
/** @category schemas */
export type ModelList = typeof ModelList.Type

/** Fails in passing while nothing answers there. @category requests */
export const list = (server: Server): Effect.Effect<ModelList, Failure> =>
  Effect.flatMap(server.get(path), decode(ModelList, `${server.root}${path}`))

/** The card of a model; a server without it is told with what it serves instead. @category reading */
export const find = (
  { data }: ModelList,
  model: string,
  root: string
): Effect.Effect<typeof ModelCard.Type, Failure> => {
  const card = data.find(({ id }) => id === model)
  if (card !== undefined) return Effect.succeed(card)
  const served = data.length === 0 ? "nothing" : data.map(({ id }) => id).join(", ")
  return Effect.fail(unusable(`${root}${path}: "${model}" is not served there; ${served} is`))
}
