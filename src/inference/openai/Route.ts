/** A way to ask a server for tokens: what is posted, and how its answer reads. */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import type { Generation, Sampling } from "../../Inference.ts"
import * as ErrorWire from "./ErrorWire.ts"
import { Failure, unusable } from "./Failure.ts"
import * as Logprob from "./Logprob.ts"

/** Nothing here asks a server; a route is data in both directions. @category model */
export interface Route {
  readonly path: string
  readonly generation: (model: string, promptIds: Int32Array, sampling: Sampling) => object
  readonly readGeneration: (answer: unknown, sampling: Sampling) => Either.Either<Generation, Failure>
  readonly score: (model: string, tokenIds: Int32Array, temperature: number) => object
  readonly readScore: (answer: unknown, tokenIds: Int32Array) => Either.Either<Float32Array, Failure>
}

/** Sampling as vLLM takes it, in full: what is left out is filled in from the model's generation_config.json. @category model */
export interface SamplingParams {
  readonly max_tokens: number
  readonly temperature: number
  readonly top_p: number
  /** −1 leaves the distribution whole */
  readonly top_k: number
  readonly min_p: number
  readonly repetition_penalty: number
  readonly presence_penalty: number
  readonly frequency_penalty: number
  readonly stop_token_ids: ReadonlyArray<number>
  readonly seed?: number
  readonly skip_special_tokens: boolean
}

/** @category conversions */
export const samplingParams = (sampling: Sampling): SamplingParams => ({
  max_tokens: sampling.maxTokens,
  temperature: sampling.temperature,
  top_p: sampling.topP ?? 1,
  top_k: sampling.topK === undefined || sampling.topK === 0 ? -1 : sampling.topK,
  min_p: sampling.minP ?? 0,
  repetition_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  stop_token_ids: sampling.stopTokenIds,
  seed: sampling.seed,
  skip_special_tokens: false
})

/** How a prompt is scored. @category model */
export interface ScoringParams extends SamplingParams {
  /** how many candidates are returned beside the prompt's own token */
  readonly prompt_logprobs: number
  /**
   * Of the prompt's distributions, which `temperature` says nothing of; left out at 1. vLLM has it from pull request 37082
   * on, and takes no notice of it before: whether it is heeded has to be found out.
   */
  readonly prompt_logprobs_temperature?: number
}

/** A prompt is scored beside the one token that must be sampled. @category conversions */
export const scoringParams = (temperature: number): ScoringParams => ({
  ...samplingParams({ temperature: 1, maxTokens: 1, stopTokenIds: [], seed: 0 }),
  prompt_logprobs: 1,
  ...(temperature === 1 ? {} : { prompt_logprobs_temperature: temperature })
})

/** Reads an answer by its schema; what does not fit is named by its place. @category parsing */
export const decode =
  <A, I>(schema: Schema.Schema<A, I>, where: string) =>
  (answer: unknown): Either.Either<A, Failure> =>
    Either.mapLeft(ParseResult.decodeUnknownEither(schema)(answer), (error) => {
      const refusal = Option.getOrUndefined(ErrorWire.errorIn(answer))
      if (refusal !== undefined) return unusable(`${where}: an error under a status of success: ${refusal}`)
      if (!Predicate.isRecord(answer)) return unusable(`${where}: the answer is no JSON object`)
      const [issue] = ParseResult.ArrayFormatter.formatIssueSync(error)
      const at = issue === undefined || issue.path.length === 0 ? "the answer" : issue.path.join(".")
      return unusable(`${where}: ${at} is not as expected: ${issue?.message ?? "it has another form"}`)
    })

/** The one choice that was asked for. @category parsing */
export const only = <A>(choices: ReadonlyArray<A>, where: string): Either.Either<A, Failure> =>
  choices.length === 1
    ? Either.right(choices[0]!)
    : Either.left(unusable(`${where}: ${choices.length} choices where one was asked for`))

/**
 * What was sampled: an id and a log-probability for every token, or a failure. The streams are never cut to the shorter,
 * and whether a turn was cut short is what `finishReason` says, not what its last token is.
 *
 * @category parsing
 */
export const generationOf = (
  said: {
    readonly tokenIds: ReadonlyArray<number> | null | undefined
    readonly logprobs: ReadonlyArray<number | null | undefined> | null | undefined
    /** ids as written beside the log-probabilities, where they are */
    readonly named: ReadonlyArray<string>
    readonly finishReason: string | null | undefined
  },
  { maxTokens }: Sampling,
  where: string
): Either.Either<Generation, Failure> =>
  Either.gen(function* () {
    const { finishReason, logprobs, named, tokenIds } = said
    if (finishReason !== "stop" && finishReason !== "length") {
      // aborted, or failed within the server: the same request may succeed
      return yield* Either.left(
        new Failure({ what: `${where}: it ended with finish_reason ${finishReason}`, passing: true })
      )
    }
    if (!tokenIds || !logprobs) {
      return yield* Either.left(unusable(`${where}: the endpoint did not return token ids and log-probabilities`))
    }
    if (tokenIds.length !== logprobs.length) {
      return yield* Either.left(
        unusable(`${where}: ${tokenIds.length} token ids, ${logprobs.length} log-probabilities`)
      )
    }
    if (tokenIds.length > maxTokens) {
      return yield* Either.left(
        unusable(`${where}: ${tokenIds.length} tokens where at most ${maxTokens} were asked for`)
      )
    }
    for (const [i, id] of tokenIds.entries()) {
      if (!(Number.isInteger(id) && id >= 0 && id < 2 ** 31)) {
        return yield* Either.left(unusable(`${where}: token ${i} is ${id}, which is no token id`))
      }
      const beside = Logprob.idOf(named[i] ?? "")
      if (beside._tag === "Some" && beside.value !== id) {
        return yield* Either.left(
          unusable(`${where}: token ${i} is ${id}, and its log-probability is that of ${beside.value}`)
        )
      }
    }
    return {
      tokenIds: Int32Array.from(tokenIds),
      logprobs: yield* Logprob.stream(logprobs, where),
      finishReason,
      policyVersion: 0
    }
  })
