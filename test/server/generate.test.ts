import * as NodeContext from "@effect/platform-node/NodeContext"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Engine from "../../src/Trainer/Engine.ts"
import { ids, policy, serve } from "./kit.ts"

const path = "/inference/v1/generate"

layer(NodeContext.layer)("POST /inference/v1/generate", (it) => {
  it.scoped("scores a prompt as the engine does: the first token null, each other by its id", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const engine = yield* Engine.open(policy, { threads: 1, trainable: false })
      const token_ids = [260, 257, 10, ...ids("ab"), 261]
      for (const temperature of [1, 0.6]) {
        const { logprobs } = yield* engine.score(
          Int32Array.from(token_ids),
          Int32Array.of(token_ids.length),
          new Float32Array(token_ids.length).fill(temperature)
        )
        const { body } = yield* call(path, {
          model: "policy",
          token_ids,
          sampling_params: {
            max_tokens: 1,
            temperature: 1,
            top_p: 1,
            prompt_logprobs: 1,
            ...(temperature === 1 ? {} : { prompt_logprobs_temperature: temperature })
          }
        })
        expect(body.prompt_logprobs).toHaveLength(token_ids.length)
        expect(body.prompt_logprobs[0]).toBeNull()
        for (let at = 1; at < token_ids.length; at++) {
          const entry = body.prompt_logprobs[at]
          expect(Object.keys(entry)).toEqual([String(token_ids[at])])
          expect(entry[token_ids[at]!].logprob).toBe(logprobs[at])
        }
        expect(body.usage).toEqual({ prompt_tokens: 6, completion_tokens: 1, total_tokens: 7 })
      }
    })
  )

  it.scoped("samples what the engine samples, as far as the sequence has room, and ends where the model ends", () =>
    Effect.gen(function* () {
      const { call } = yield* serve({ maxSequenceLength: 40 })
      const engine = yield* Engine.open(policy, { threads: 1, trainable: false })
      const token_ids = ids("he said nothing")
      const sampled = yield* engine.generate({
        promptIds: Int32Array.from(token_ids),
        maxTokens: 25,
        temperature: 1,
        topP: 1,
        topK: 0,
        minP: 0,
        stopTokenIds: Int32Array.of(261, 76),
        seed: 9
      })
      const request = { token_ids, sampling_params: { seed: 9, logprobs: 1, stop_token_ids: [76] } }
      const { body } = yield* call(path, { ...request, request_id: "mine" })
      const [choice] = body.choices
      expect(body).toMatchObject({ request_id: "mine", prompt_logprobs: null })
      expect(choice.token_ids).toEqual(Array.from(sampled.tokenIds))
      expect(choice.finish_reason).toBe(sampled.finishReason)
      expect(choice.logprobs.content.map(({ logprob }: { readonly logprob: number }) => logprob)).toEqual(
        Array.from(sampled.logprobs)
      )
      expect(choice.logprobs.content[0].token).toBe(`token_id:${sampled.tokenIds[0]}`)

      const { body: endless } = yield* call(path, { token_ids, sampling_params: { seed: 9, ignore_eos: true } })
      expect(endless.choices[0]).toMatchObject({ finish_reason: "length", logprobs: null })
      expect(endless.choices[0].token_ids).toHaveLength(40 - token_ids.length)
    })
  )

  it.scoped("a sequence that fills the model is scored, and refused where something must be sampled", () =>
    Effect.gen(function* () {
      const { call } = yield* serve({ maxSequenceLength: 8 })
      const token_ids = [1, 2, 3, 4, 5, 6, 7, 8]
      const scored = yield* call(path, { token_ids, sampling_params: { max_tokens: 1, prompt_logprobs: 0 } })
      expect(scored.body.prompt_logprobs).toHaveLength(8)
      expect(scored.body.choices[0]).toMatchObject({ token_ids: [], finish_reason: "length" })
      const refused = yield* call(path, { token_ids, sampling_params: {} })
      expect(refused.status).toBe(400)
      expect(refused.body.error).toMatchObject({ code: "context_length_exceeded", param: "token_ids" })
      expect(refused.body.error.message).toMatch(/maximum context length is 8 tokens.* 8/)
      const longer = yield* call(path, { token_ids: [...token_ids, 9], sampling_params: { prompt_logprobs: 1 } })
      expect(longer.status).toBe(400)
    })
  )

  it.scoped("streams the tokens that it answers with", () =>
    Effect.gen(function* () {
      const { call, events } = yield* serve()
      const request = { token_ids: ids("q"), sampling_params: { n: 3, seed: 4, max_tokens: 30, logprobs: 0 } }
      const whole = (yield* call(path, request)).body
      const chunks = yield* events(path, { ...request, stream_options: { include_usage: true } })
      expect(chunks.at(-1)).toBe("[DONE]")
      expect(chunks.at(-2).usage).toEqual(whole.usage)
      for (const choice of whole.choices) {
        const parts = chunks
          .slice(0, -2)
          .flatMap(({ choices }) => choices.filter(({ index }: { readonly index: number }) => index === choice.index))
        expect(parts.flatMap(({ token_ids }) => token_ids)).toEqual(choice.token_ids)
        expect(parts.flatMap(({ logprobs }) => logprobs.content)).toEqual(choice.logprobs.content)
        expect(parts.at(-1).finish_reason).toBe(choice.finish_reason)
      }
    })
  )
})
