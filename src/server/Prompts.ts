/** The prompts of a completion: text, token ids, or lists of either, each checked against the model. */
import * as Either from "effect/Either"
import { type ApiError, invalid, promptTooLong } from "./ApiError.ts"
import type { Model } from "./Models.ts"

const isIds = (value: unknown): value is ReadonlyArray<number> =>
  Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === "number")

const mostPrompts = 1024

const several = (value: unknown): Either.Either<ReadonlyArray<string | ReadonlyArray<number>>, ApiError> => {
  if (typeof value === "string" || isIds(value)) return Either.right([value])
  const list: ReadonlyArray<unknown> = Array.isArray(value) ? value : []
  const wrong = list.findIndex((item) => typeof item !== "string" && !isIds(item))
  if (list.length > 0 && list.length <= mostPrompts && wrong < 0) return Either.right(list as ReadonlyArray<string>)
  const place = list.length > 0 && wrong >= 0 ? `prompt[${wrong}]` : "prompt"
  return Either.left(
    invalid(
      `${place}: allowed is text, a list of token ids that is not empty, or a list of up to ${mostPrompts} of them`,
      {
        param: "prompt"
      }
    )
  )
}

/** Ids that the model reads, and room for at least `room` more. @category checks */
export const checked = (
  tokenIds: ArrayLike<number>,
  model: Model,
  options: { readonly param: string; readonly room: number }
): Either.Either<Int32Array, ApiError> => {
  const { param, room } = options
  const { maxLength } = model.format
  const { vocabSize } = model.engine.config
  if (tokenIds.length === 0) return Either.left(invalid(`${param}: there are no tokens in it`, { param }))
  for (let at = 0; at < tokenIds.length; at++) {
    const id = tokenIds[at]!
    if (Number.isInteger(id) && id >= 0 && id < vocabSize) continue
    const reason = `${param}: ${id} at position ${at} is no token id; the model has 0 to ${vocabSize - 1}`
    return Either.left(invalid(reason, { param }))
  }
  return tokenIds.length + room > maxLength
    ? Either.left(promptTooLong(tokenIds.length, maxLength, param))
    : Either.right(Int32Array.from(tokenIds))
}

/** Token ids of every prompt. The spelling of a special token in a text is text; its id is given as an id. @category conversions */
export const of = (value: unknown, model: Model, room: number): Either.Either<ReadonlyArray<Int32Array>, ApiError> =>
  Either.flatMap(several(value), (prompts) =>
    Either.all(
      prompts.map((prompt, index) => {
        const ids = typeof prompt === "string" ? model.format.tokenizer.encode(prompt).ids : prompt
        return checked(ids, model, { param: prompts.length === 1 ? "prompt" : `prompt[${index}]`, room })
      })
    )
  )
