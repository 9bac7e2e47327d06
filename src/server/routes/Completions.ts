/** `POST /v1/completions`: text or token ids to go on from. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Answer from "../Answer.ts"
import { invalid } from "../ApiError.ts"
import * as Body from "../Body.ts"
import type { Finish, Part, Token } from "../Choice.ts"
import { Gate } from "../Gate.ts"
import * as Generation from "../Generation.ts"
import * as Logprobs from "../Logprobs.ts"
import { Models } from "../Models.ts"
import * as Parts from "../Parts.ts"
import * as Prompts from "../Prompts.ts"
import * as Reader from "../Reader.ts"
import * as Sampling from "../Sampling.ts"
import * as Sse from "../Sse.ts"
import { CompletionRequest } from "../wire/CompletionRequest.ts"

/** A prompt as the beginning of its own completion. */
const echoOf = (promptIds: Int32Array, logprobs: Float32Array | undefined, reader: Reader.Reader) => {
  let text = ""
  let offset = 0
  const tokens = Array.from(promptIds, (id, at) => {
    const token = { id, offset, logprob: at === 0 ? null : (logprobs?.[at] ?? null) }
    const piece = Parts.contentOf(reader.push(id))
    text += piece
    offset += Array.from(piece).length
    return token
  })
  text += Parts.contentOf(reader.finish())
  return { text, tokens, length: Array.from(text).length }
}

const prepare = (body: CompletionRequest) =>
  Effect.gen(function* () {
    if (body.stream === true && body.prompt_logprobs != null) {
      return yield* invalid("prompt_logprobs come with whole answers only; leave out stream", {
        param: "prompt_logprobs"
      })
    }
    yield* Effect.flatMap(Gate, (gate) => gate.admit)
    const model = yield* Effect.flatMap(Models, (models) => models.lease(body.model))
    const { endIds, maxLength, tokenizer } = model.format
    const most = body.max_tokens ?? 16
    const prompts = yield* Prompts.of(body.prompt, model, Math.min(most, 1))
    const sampling = yield* Sampling.of(body, body.ignore_eos === true ? [] : endIds)
    const { skipSpecialTokens } = sampling
    const reader = () => Reader.plain(tokenizer, { skipSpecialTokens })
    const scored = body.prompt_logprobs != null || (body.echo === true && body.logprobs != null)
    const scores = yield* Effect.forEach(
      prompts,
      (ids) => (scored ? Generation.score(model.engine, ids, body.prompt_logprobs_temperature ?? 1) : Effect.void),
      {
        concurrency: "unbounded"
      }
    )
    const choices = prompts.flatMap((promptIds, prompt) =>
      Array.from({ length: sampling.choices }, (_, index) => ({
        prompt,
        promptIds,
        score: scores[prompt] ?? undefined,
        echo: body.echo === true ? echoOf(promptIds, scores[prompt] ?? undefined, reader()) : undefined,
        parts: Generation.choice(
          model.engine,
          {
            ...sampling.request,
            promptIds,
            maxTokens: Math.min(most, maxLength - promptIds.length),
            seed: sampling.seedOf(prompt, index)
          },
          { ...sampling, tokenizer, reader: reader() }
        )
      }))
    )
    const spelling = body.return_tokens_as_token_ids === true ? Logprobs.asId : Logprobs.asText(tokenizer)
    const described = (
      choice: (typeof choices)[number],
      part: { readonly text: string; readonly tokens: ReadonlyArray<Token>; readonly finish: Finish | undefined },
      options: { readonly first: boolean }
    ) => {
      const echo = options.first ? choice.echo : undefined
      const shift = choice.echo?.length ?? 0
      const own = part.tokens.map((token) => ({ ...token, offset: token.offset + shift }))
      const { logprobs } = body
      return {
        text: `${echo?.text ?? ""}${part.text}`,
        logprobs:
          logprobs == null
            ? null
            : Logprobs.completion([...(echo?.tokens ?? []), ...own], { spelling, candidates: logprobs }),
        finish_reason: part.finish?.reason ?? null,
        stop_reason: part.finish?.stop ?? null,
        ...(body.return_token_ids === true
          ? {
              token_ids: part.tokens.map(({ id }) => id),
              ...(options.first ? { prompt_token_ids: Array.from(choice.promptIds) } : {})
            }
          : {})
      }
    }
    const identity = yield* Answer.identity("cmpl-")
    return {
      head: { id: identity.id, object: "text_completion", created: identity.created, model: model.id },
      promptTokens: prompts.reduce((sum, { length }) => sum + length, 0),
      tokenizer,
      choices,
      described
    }
  })

type Prepared = Effect.Effect.Success<ReturnType<typeof prepare>>

const whole = (body: CompletionRequest, { choices, described, head, promptTokens, tokenizer }: Prepared) =>
  Effect.gen(function* () {
    const all = yield* Effect.forEach(choices, ({ parts }) => Parts.gather(parts), { concurrency: "unbounded" })
    return HttpServerResponse.unsafeJson({
      ...head,
      choices: all.map((result, index) => {
        const choice = choices[index]!
        return {
          index,
          ...described(choice, { ...result, text: Parts.contentOf(result.deltas) }, { first: true }),
          ...(body.prompt_logprobs == null
            ? {}
            : { prompt_logprobs: Logprobs.prompt(choice.promptIds, choice.score!, tokenizer) })
        }
      }),
      usage: Answer.usage(
        promptTokens,
        all.reduce((sum, { tokens }) => sum + tokens.length, 0)
      )
    })
  })

const streamed = (body: CompletionRequest, { choices, described, head, promptTokens }: Prepared) => {
  const withUsage = body.stream_options?.include_usage === true
  const tellsTokens = body.logprobs != null || body.return_token_ids === true
  const says = (part: Part, text: string) =>
    text !== "" || part.finish !== undefined || (tellsTokens && part.tokens.length > 0)
  let completionTokens = 0
  const begun = new Set<number>()
  const events = Parts.interleaved(choices.map(({ parts }) => parts)).pipe(
    Stream.mapConcat(({ index, part }) => {
      completionTokens += part.tokens.length
      const first = !begun.has(index)
      const text = Parts.contentOf(part.deltas)
      if (!first && !says(part, text)) return []
      begun.add(index)
      const choice = { index, ...described(choices[index]!, { ...part, text }, { first }) }
      return [{ ...head, choices: [choice], ...(withUsage ? { usage: null } : {}) }]
    })
  )
  const last = Stream.suspend(() =>
    withUsage
      ? Stream.succeed({ ...head, choices: [], usage: Answer.usage(promptTokens, completionTokens) })
      : Stream.empty
  )
  return Sse.response(Stream.concat(events, last))
}

const completions = Effect.gen(function* () {
  const body = yield* Body.read(CompletionRequest)
  const prepared = yield* prepare(body)
  return yield* body.stream === true ? streamed(body, prepared) : whole(body, prepared)
})

/** @category routes */
export const routes = HttpRouter.empty.pipe(HttpRouter.post("/v1/completions", completions))
