/** Log-probabilities as servers write them. What is missing, cannot be one, or belongs to another token is a failure. */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { type Failure, unusable } from "./Failure.ts"
import * as LongList from "./LongList.ts"

/** vLLM's word for minus infinity, and for a value that it does not have: JSON knows neither. */
const lowest = -9_999

/** Above rounding, a logarithm of a probability is never positive. */
const highest = 1e-3

/** Why a number is no log-probability; undefined when it is one. */
const misfit = (value: number | null | undefined): string | undefined => {
  if (typeof value !== "number") return "is missing"
  if (!Number.isFinite(value)) return `is ${value}`
  if (value <= lowest) return `is ${value}, which stands for minus infinity or for none`
  return value > highest
    ? `is ${value}, a logit perhaps: a server must run with log-probabilities, not logits`
    : undefined
}

/** @category conversions */
export const stream = (
  values: ReadonlyArray<number | null | undefined>,
  where: string
): Either.Either<Float32Array, Failure> => {
  const at = values.findIndex((value) => misfit(value) !== undefined)
  return at === -1
    ? Either.right(Float32Array.from(values as ReadonlyArray<number>))
    : Either.left(unusable(`${where}: log-probability ${at} ${misfit(values[at])}`))
}

/** The candidates at a position of a prompt, by token id in decimal. @category model */
export interface PromptCandidates {
  readonly [id: string]: { readonly logprob?: number | null } | null | undefined
}

/**
 * One entry per token of the prompt: null for the first, which has no context, and then the candidates of each position by
 * token id, in any order, the prompt's own token among them.
 *
 * @category schemas
 */
export const PromptLogprobs = LongList.of(
  (item): item is PromptCandidates | null => typeof item === "object",
  "a list of candidates or null"
)

/** Of exactly this token: which candidate is written first says nothing. */
const entryOf = (candidates: PromptCandidates | null | undefined, id: number): number | null | undefined => {
  const key = String(id)
  return candidates && Object.hasOwn(candidates, key) ? candidates[key]?.logprob : undefined
}

/** The log-probability of each token of a prompt, by its own id; the first is 0. @category conversions */
export const ofPrompt = (
  entries: ReadonlyArray<PromptCandidates | null> | null | undefined,
  tokenIds: Int32Array,
  where: string
): Either.Either<Float32Array, Failure> => {
  if (entries === null || entries === undefined) {
    return Either.left(unusable(`${where}: the endpoint did not return prompt_logprobs`))
  }
  if (entries.length !== tokenIds.length) {
    return Either.left(unusable(`${where}: ${entries.length} prompt_logprobs for ${tokenIds.length} tokens`))
  }
  const logprobs = new Float32Array(tokenIds.length)
  for (let i = 1; i < tokenIds.length; i++) {
    const value = entryOf(entries[i], tokenIds[i]!)
    const wrong = misfit(value)
    if (wrong !== undefined) {
      return Either.left(unusable(`${where}: prompt_logprobs[${i}] of token id ${tokenIds[i]} ${wrong}`))
    }
    logprobs[i] = value!
  }
  return Either.right(logprobs)
}

const marked = /^token_id:(\d+)$/

/** The id in vLLM's `token_id:N`; none for a token that is written as its text. @category parsing */
export const idOf = (token: string): Option.Option<number> =>
  Option.map(Option.fromNullable(marked.exec(token)), ([, digits]) => Number(digits))
