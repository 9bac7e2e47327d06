/** `POST /inference/v1/generate`: token ids in, token ids out; and the log-probabilities of a prompt, by which a teacher scores. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Answer from "../Answer.ts"
import { invalid } from "../ApiError.ts"
import * as Body from "../Body.ts"
import type { Finish, Token } from "../Choice.ts"
import { Gate } from "../Gate.ts"
import * as Generation from "../Generation.ts"
import * as Logprobs from "../Logprobs.ts"
import { Models } from "../Models.ts"
import * as Parts from "../Parts.ts"
import * as Prompts from "../Prompts.ts"
import type { Reader } from "../Reader.ts"
import * as Sampling from "../Sampling.ts"
import * as Sse from "../Sse.ts"
import { GenerateRequest } from "../wire/GenerateRequest.ts"

/** Nothing is said: the answer is the ids. */
const silent: Reader = { push: () => [], finish: () => [] }

const prepare = ({ model: name, sampling_params: params, stream, token_ids, ...body }: GenerateRequest) =>
  Effect.gen(function* () {
    if (stream === true && params.prompt_logprobs != null) {
      return yield* invalid("sampling_params.prompt_logprobs come with whole answers only; leave out stream", {
        param: "sampling_params.prompt_logprobs"
      })
    }
    yield* Effect.flatMap(Gate, (gate) => gate.admit)
    const model = yield* Effect.flatMap(Models, (models) => models.lease(name))
    const { endIds, maxLength, tokenizer } = model.format
    // A sequence that fills the model can still be scored; then there is just nothing to sample.
    const room = params.prompt_logprobs == null && params.max_tokens !== 0 ? 1 : 0
    const promptIds = yield* Prompts.checked(token_ids, model, { param: "token_ids", room })
    const sampling = yield* Sampling.of({ ...params, stop: null }, params.ignore_eos === true ? [] : endIds)
    const most = maxLength - promptIds.length
    const choices = Array.from({ length: sampling.choices }, (_, index) =>
      Generation.choice(
        model.engine,
        {
          ...sampling.request,
          promptIds,
          maxTokens: Math.min(params.max_tokens ?? most, most),
          seed: sampling.seedOf(0, index)
        },
        { ...sampling, tokenizer, reader: silent }
      )
    )
    const identity = yield* Answer.identity("")
    return {
      requestId: body.request_id ?? identity.id,
      model,
      promptIds,
      choices,
      described: (tokens: ReadonlyArray<Token>, finish: Finish | undefined) => ({
        logprobs:
          params.logprobs == null
            ? null
            : { content: Logprobs.chatContent(tokens, { spelling: Logprobs.asId, candidates: params.logprobs }) },
        finish_reason: finish?.reason ?? null,
        token_ids: tokens.map(({ id }) => id)
      }),
      tokenizer
    }
  })

type Prepared = Effect.Effect.Success<ReturnType<typeof prepare>>

const whole = (body: GenerateRequest, prepared: Prepared) =>
  Effect.gen(function* () {
    const { choices, described, model, promptIds, requestId, tokenizer } = prepared
    const { prompt_logprobs, prompt_logprobs_temperature: temperature } = body.sampling_params
    const score =
      prompt_logprobs == null ? undefined : yield* Generation.score(model.engine, promptIds, temperature ?? 1)
    const all = yield* Effect.forEach(choices, Parts.gather, { concurrency: "unbounded" })
    return HttpServerResponse.unsafeJson({
      request_id: requestId,
      choices: all.map(({ finish, tokens }, index) => ({ index, ...described(tokens, finish) })),
      prompt_logprobs: score === undefined ? null : Logprobs.prompt(promptIds, score, tokenizer),
      usage: Answer.usage(
        promptIds.length,
        all.reduce((sum, { tokens }) => sum + tokens.length, 0)
      )
    })
  })

const streamed = (body: GenerateRequest, { choices, described, promptIds, requestId }: Prepared) => {
  let completionTokens = 0
  const events = Parts.interleaved(choices).pipe(
    Stream.map(({ index, part: { finish, tokens } }) => {
      completionTokens += tokens.length
      return { request_id: requestId, choices: [{ index, ...described(tokens, finish) }] }
    })
  )
  const last = Stream.suspend(() =>
    body.stream_options?.include_usage === true
      ? Stream.succeed({
          request_id: requestId,
          choices: [],
          usage: Answer.usage(promptIds.length, completionTokens)
        })
      : Stream.empty
  )
  return Sse.response(Stream.concat(events, last))
}

const generate = Effect.gen(function* () {
  const body = yield* Body.read(GenerateRequest)
  const prepared = yield* prepare(body)
  return yield* body.stream === true ? streamed(body, prepared) : whole(body, prepared)
})

/** @category routes */
export const routes = HttpRouter.empty.pipe(HttpRouter.post("/inference/v1/generate", generate))
