/** `POST /v1/chat/completions`: the model's next turn in a conversation. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { messagesOf, toolsOf } from "../../wire/Conversation.ts"
import * as Answer from "../Answer.ts"
import { invalid } from "../ApiError.ts"
import * as Body from "../Body.ts"
import * as ChatMessage from "../ChatMessage.ts"
import type { Token } from "../Choice.ts"
import * as Conversation from "../Conversation.ts"
import { Gate } from "../Gate.ts"
import * as Generation from "../Generation.ts"
import * as Logprobs from "../Logprobs.ts"
import { Models } from "../Models.ts"
import * as Parts from "../Parts.ts"
import * as Prompts from "../Prompts.ts"
import * as Reader from "../Reader.ts"
import * as Sampling from "../Sampling.ts"
import * as Sse from "../Sse.ts"
import { ChatRequest } from "../wire/ChatRequest.ts"

const contradiction = (body: ChatRequest) => {
  if (body.stream === true && body.prompt_logprobs != null) {
    return invalid("prompt_logprobs come with whole answers only; leave out stream", { param: "prompt_logprobs" })
  }
  return body.top_logprobs != null && body.logprobs !== true
    ? invalid("top_logprobs needs logprobs: true", { param: "top_logprobs" })
    : undefined
}

const prepare = (body: ChatRequest) =>
  Effect.gen(function* () {
    const wrong = contradiction(body)
    if (wrong !== undefined) return yield* wrong
    yield* Effect.flatMap(Gate, (gate) => gate.admit)
    const model = yield* Effect.flatMap(Models, (models) => models.lease(body.model))
    const { endIds, maxLength, tokenizer } = model.format
    const renderer = yield* Conversation.rendererOf(model)
    const tools = body.tool_choice === "none" ? [] : toolsOf(body)
    const rendered = yield* Conversation.render(renderer, messagesOf(body), { tools, addGenerationPrompt: true })
    const promptIds = yield* Prompts.checked(rendered, model, { param: "messages", room: 1 })
    const sampling = yield* Sampling.of(body, [...endIds, ...renderer.stopTokenIds])
    const room = maxLength - promptIds.length
    const choices = Array.from({ length: sampling.choices }, (_, index) =>
      Generation.choice(
        model.engine,
        {
          ...sampling.request,
          promptIds,
          maxTokens: Math.min(body.max_completion_tokens ?? body.max_tokens ?? room, room),
          seed: sampling.seedOf(0, index)
        },
        { ...sampling, tokenizer, reader: Reader.chat(renderer, promptIds) }
      )
    )
    const spelling = body.return_tokens_as_token_ids === true ? Logprobs.asId : Logprobs.asText(tokenizer)
    const candidates = body.top_logprobs ?? 0
    const identity = yield* Answer.identity("chatcmpl-")
    return {
      head: { id: identity.id, created: identity.created, model: model.id },
      model,
      promptIds,
      choices,
      /** of the tokens of one part */
      tokenFields: (tokens: ReadonlyArray<Token>) => ({
        logprobs:
          body.logprobs === true
            ? { content: Logprobs.chatContent(tokens, { spelling, candidates }), refusal: null }
            : null,
        ...(body.return_token_ids === true ? { token_ids: tokens.map(({ id }) => id) } : {})
      }),
      promptFields: body.return_token_ids === true ? { prompt_token_ids: Array.from(promptIds) } : {}
    }
  })

type Prepared = Effect.Effect.Success<ReturnType<typeof prepare>>

const whole = (body: ChatRequest, prepared: Prepared) =>
  Effect.gen(function* () {
    const { choices, head, model, promptFields, promptIds, tokenFields } = prepared
    const temperature = body.prompt_logprobs_temperature ?? 1
    const isScored = body.prompt_logprobs != null
    const score = isScored ? yield* Generation.score(model.engine, promptIds, temperature) : undefined
    const all = yield* Effect.forEach(choices, Parts.gather, { concurrency: "unbounded" })
    return HttpServerResponse.unsafeJson({
      ...head,
      object: "chat.completion",
      choices: all.map(({ deltas, finish, tokens }, index) => ({
        index,
        message: ChatMessage.message(deltas, promptIds.length),
        finish_reason: ChatMessage.finishReason(finish, ChatMessage.callCount(deltas)),
        stop_reason: finish.stop ?? null,
        ...tokenFields(tokens)
      })),
      usage: Answer.usage(
        promptIds.length,
        all.reduce((sum, { tokens }) => sum + tokens.length, 0)
      ),
      ...promptFields,
      ...(score === undefined ? {} : { prompt_logprobs: Logprobs.prompt(promptIds, score, model.format.tokenizer) })
    })
  })

const streamed = (body: ChatRequest, prepared: Prepared) => {
  const { choices, head, promptFields, promptIds, tokenFields } = prepared
  const promptTokens = promptIds.length
  const withUsage = body.stream_options?.include_usage === true
  const tellsTokens = body.logprobs === true || body.return_token_ids === true
  const chunk = (index: number, choice: object, more: object = {}) => ({
    ...head,
    object: "chat.completion.chunk",
    choices: [{ index, ...choice }],
    ...(withUsage ? { usage: null } : {}),
    ...more
  })
  const opening = choices.map((_, index) =>
    chunk(index, { delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }, promptFields)
  )
  let completionTokens = 0
  const calls = new Map<number, number>()
  const events = Parts.interleaved(choices).pipe(
    Stream.mapConcat(({ index, part: { deltas, finish, tokens } }) => {
      completionTokens += tokens.length
      const before = calls.get(index) ?? 0
      calls.set(index, before + ChatMessage.callCount(deltas))
      const delta = ChatMessage.delta(deltas, { promptTokens, before })
      const isSilent = Object.keys(delta).length === 0 && finish === undefined && !(tellsTokens && tokens.length > 0)
      if (isSilent) return []
      const finish_reason = ChatMessage.finishReason(finish, calls.get(index)!)
      const ended = finish === undefined ? {} : { stop_reason: finish.stop ?? null }
      return [chunk(index, { delta, finish_reason, ...ended, ...tokenFields(tokens) })]
    })
  )
  const last = Stream.suspend(() => {
    const usage = Answer.usage(promptTokens, completionTokens)
    return withUsage ? Stream.succeed({ ...head, object: "chat.completion.chunk", choices: [], usage }) : Stream.empty
  })
  return Sse.response(Stream.fromIterable(opening).pipe(Stream.concat(events), Stream.concat(last)))
}

const chat = Effect.gen(function* () {
  const body = yield* Body.read(ChatRequest)
  const prepared = yield* prepare(body)
  return yield* body.stream === true ? streamed(body, prepared) : whole(body, prepared)
})

/** @category routes */
export const routes = HttpRouter.empty.pipe(HttpRouter.post("/v1/chat/completions", chat))
