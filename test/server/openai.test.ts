import * as NodeContext from "@effect/platform-node/NodeContext"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import OpenAI, { type APIError } from "openai"
import { serve } from "./kit.ts"

const messages = [{ role: "user" as const, content: "the sea was calm" }]

layer(NodeContext.layer)("OpenAI's own client", (it) => {
  const client = Effect.map(
    serve({ apiKey: Redacted.make("s3cret") }),
    ({ url }) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "s3cret", maxRetries: 0 })
  )
  const promised = <A>(start: () => Promise<A>) => Effect.promise(start)

  it.scoped("lists the models, chats, completes and reads streams", () =>
    Effect.gen(function* () {
      const openai = yield* client
      const models = yield* promised(() => openai.models.list())
      expect(models.data.map(({ id }) => id)).toEqual(["policy"])

      const request = { model: "policy", messages, seed: 4, logprobs: true }
      const turn = yield* promised(() => openai.chat.completions.create(request))
      const [choice] = turn.choices
      expect(choice!.message.role).toBe("assistant")
      expect(choice!.logprobs!.content!.length).toBe(turn.usage!.completion_tokens)

      const streamed = yield* promised(() => openai.chat.completions.stream(request).finalChatCompletion())
      expect(streamed.choices[0]!.message.content).toBe(choice!.message.content)
      expect(streamed.choices[0]!.finish_reason).toBe(choice!.finish_reason)
      expect(streamed.choices[0]!.logprobs!.content).toEqual(choice!.logprobs!.content)

      const completion = yield* promised(() =>
        openai.completions.create({ model: "policy", prompt: "he said", seed: 4, max_tokens: 9 })
      )
      const pieces = yield* promised(async () => {
        const stream = await openai.completions.create({
          model: "policy",
          prompt: "he said",
          seed: 4,
          max_tokens: 9,
          stream: true
        })
        const texts: Array<string> = []
        for await (const { choices } of stream) texts.push(choices[0]!.text)
        return texts
      })
      expect(pieces.join("")).toBe(completion.choices[0]!.text)
    })
  )

  it.scoped("reads errors as its own", () =>
    Effect.gen(function* () {
      const openai = yield* client
      const failure = (start: () => Promise<unknown>) =>
        Effect.promise(() =>
          start().then(
            () => undefined,
            (error: unknown) => error as APIError
          )
        )
      const unknown = yield* failure(() => openai.chat.completions.create({ model: "gpt", messages }))
      expect(unknown).toBeInstanceOf(OpenAI.NotFoundError)
      expect([unknown!.code, unknown!.param, unknown!.type]).toEqual([
        "model_not_found",
        "model",
        "invalid_request_error"
      ])
      const tooLong = yield* failure(() =>
        openai.chat.completions.create({ model: "policy", messages: [{ role: "user", content: "x".repeat(600) }] })
      )
      expect(tooLong).toBeInstanceOf(OpenAI.BadRequestError)
      expect(tooLong!.code).toBe("context_length_exceeded")
      const stranger = new OpenAI({ baseURL: openai.baseURL, apiKey: "wrong", maxRetries: 0 })
      expect(yield* failure(() => stranger.models.list())).toBeInstanceOf(OpenAI.AuthenticationError)
    })
  )
})
