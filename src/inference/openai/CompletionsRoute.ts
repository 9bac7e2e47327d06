/** `POST /v1/completions` with token ids as the prompt, and vLLM's extensions to get them back. */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Logprob from "./Logprob.ts"
import * as LongList from "./LongList.ts"
import { decode, generationOf, only, type Route, type SamplingParams, samplingParams, scoringParams } from "./Route.ts"

const path = "/v1/completions"

/** @category model */
export interface CompletionRequest extends SamplingParams {
  readonly model: string
  readonly prompt: ReadonlyArray<number>
  /** how many candidates are returned beside the sampled token */
  readonly logprobs?: number
  readonly prompt_logprobs?: number
  readonly prompt_logprobs_temperature?: number
  /** adds `token_ids` to a choice (vLLM from 0.10.2) */
  readonly return_token_ids?: boolean
  /** writes tokens as `token_id:N` (vLLM before it) */
  readonly return_tokens_as_token_ids?: boolean
}

/** One sampled sequence. @category schemas */
export const CompletionChoice = Schema.Struct({
  token_ids: Schema.optional(Schema.NullOr(LongList.numbers)),
  logprobs: Schema.optional(
    Schema.NullOr(
      Schema.Struct({
        tokens: Schema.optional(Schema.NullOr(LongList.strings)),
        token_logprobs: Schema.optional(Schema.NullOr(LongList.numbersOrNull))
      })
    )
  ),
  finish_reason: Schema.optional(Schema.NullOr(Schema.String)),
  prompt_logprobs: Schema.optional(Schema.NullOr(Logprob.PromptLogprobs))
})

/** @category schemas */
export const CompletionResponse = Schema.Struct({ choices: Schema.Array(CompletionChoice) })

const choiceOf = (answer: unknown) =>
  Either.flatMap(decode(CompletionResponse, path)(answer), ({ choices }) => only(choices, path))

/** Ids from a server that gives them only as the names of tokens. */
const idsOf = (tokens: ReadonlyArray<string>): ReadonlyArray<number> | undefined =>
  Option.getOrUndefined(Option.all(tokens.map(Logprob.idOf)))

/** @category routes */
export const route: Route = {
  path,
  generation: (model, promptIds, sampling): CompletionRequest => ({
    model,
    prompt: Array.from(promptIds),
    ...samplingParams(sampling),
    logprobs: 1,
    return_token_ids: true,
    return_tokens_as_token_ids: true
  }),
  readGeneration: (answer, sampling) =>
    Either.gen(function* () {
      const { finish_reason, logprobs, token_ids } = yield* choiceOf(answer)
      const named = logprobs?.tokens ?? []
      const said = {
        tokenIds: token_ids ?? (logprobs?.tokens ? idsOf(named) : undefined),
        logprobs: logprobs?.token_logprobs,
        named,
        finishReason: finish_reason
      }
      return yield* generationOf(said, sampling, path)
    }),
  score: (model, tokenIds, temperature): CompletionRequest => ({
    model,
    prompt: Array.from(tokenIds),
    ...scoringParams(temperature)
  }),
  readScore: (answer, tokenIds) =>
    Either.flatMap(choiceOf(answer), ({ prompt_logprobs }) => Logprob.ofPrompt(prompt_logprobs, tokenIds, path))
}
