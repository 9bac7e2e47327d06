/** `POST /inference/v1/generate`: vLLM's tokens in, tokens out (its `entrypoints/serve/disagg/protocol.py`). */
import * as Either from "effect/Either"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Logprob from "./Logprob.ts"
import * as LongList from "./LongList.ts"
import {
  decode,
  generationOf,
  only,
  type Route,
  type SamplingParams,
  type ScoringParams,
  samplingParams,
  scoringParams
} from "./Route.ts"

const path = "/inference/v1/generate"

/** @category model */
export interface GenerateRequest {
  readonly model: string
  readonly token_ids: ReadonlyArray<number>
  /** `logprobs`: how many candidates are returned beside the sampled token */
  readonly sampling_params: ScoringParams | (SamplingParams & { readonly logprobs: number })
}

/** A sampled token as `token_id:N`. @category model */
export interface SampledLogprob {
  readonly token: string
  readonly logprob?: number | null
}

const isSampled = (item: unknown): item is SampledLogprob =>
  Predicate.hasProperty(item, "token") &&
  typeof item.token === "string" &&
  (!Predicate.hasProperty(item, "logprob") || item.logprob === null || typeof item.logprob === "number")

/** One sampled sequence. @category schemas */
export const GenerateChoice = Schema.Struct({
  token_ids: Schema.optional(Schema.NullOr(LongList.numbers)),
  logprobs: Schema.optional(
    Schema.NullOr(
      Schema.Struct({
        content: Schema.optional(Schema.NullOr(LongList.of(isSampled, "a list of tokens with log-probabilities")))
      })
    )
  ),
  finish_reason: Schema.optional(Schema.NullOr(Schema.String))
})

/** @category schemas */
export const GenerateResponse = Schema.Struct({
  choices: Schema.Array(GenerateChoice),
  prompt_logprobs: Schema.optional(Schema.NullOr(Logprob.PromptLogprobs))
})

const read = decode(GenerateResponse, path)

/** @category routes */
export const route: Route = {
  path,
  generation: (model, promptIds, sampling): GenerateRequest => ({
    model,
    token_ids: Array.from(promptIds),
    sampling_params: { ...samplingParams(sampling), logprobs: 1 }
  }),
  readGeneration: (answer, sampling) =>
    Either.gen(function* () {
      const { finish_reason, logprobs, token_ids } = yield* only((yield* read(answer)).choices, path)
      const content = logprobs?.content
      const said = {
        tokenIds: token_ids,
        logprobs: content?.map(({ logprob }) => logprob),
        named: content?.map(({ token }) => token) ?? [],
        finishReason: finish_reason
      }
      return yield* generationOf(said, sampling, path)
    }),
  score: (model, tokenIds, temperature): GenerateRequest => ({
    model,
    token_ids: Array.from(tokenIds),
    sampling_params: scoringParams(temperature)
  }),
  readScore: (answer, tokenIds) =>
    Either.flatMap(read(answer), ({ prompt_logprobs }) => Logprob.ofPrompt(prompt_logprobs, tokenIds, path))
}
