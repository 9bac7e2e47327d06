import * as NodeContext from "@effect/platform-node/NodeContext"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Engine from "../../src/Trainer/Engine.ts"
import { ids, policy, serve } from "./kit.ts"

const path = "/v1/completions"
const prompt = "the sea was calm"

layer(NodeContext.layer)("POST /v1/completions", (it) => {
  it.scoped("answers with the tokens and log-probabilities that the engine samples for the seed", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const engine = yield* Engine.open(policy, { threads: 1, trainable: false })
      const sampled = yield* engine.generate({
        promptIds: Int32Array.from(ids(prompt)),
        maxTokens: 12,
        temperature: 0.7,
        topP: 0.9,
        topK: 20,
        minP: 0.01,
        stopTokenIds: Int32Array.of(261),
        seed: 5
      })
      const { body, status } = yield* call(path, {
        model: "policy",
        prompt,
        max_tokens: 12,
        temperature: 0.7,
        top_p: 0.9,
        top_k: 20,
        min_p: 0.01,
        seed: 5,
        logprobs: 0,
        return_token_ids: true
      })
      expect(status).toBe(200)
      const [choice] = body.choices
      expect(choice.token_ids).toEqual(Array.from(sampled.tokenIds))
      expect(choice.logprobs.token_logprobs).toEqual(Array.from(sampled.logprobs))
      expect(choice.prompt_token_ids).toEqual(ids(prompt))
      expect(choice.logprobs.tokens.join("")).toBe(choice.text)
      expect(choice.logprobs.top_logprobs).toBeNull()
      expect(choice.finish_reason).toBe("length")
      expect(body).toMatchObject({
        object: "text_completion",
        model: "policy",
        usage: { prompt_tokens: 16, completion_tokens: 12, total_tokens: 28 }
      })
    })
  )

  it.scoped("takes text, ids and lists of them alike, and a prompt among others yields what it yields alone", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const more = { max_tokens: 6, seed: 3, n: 2, return_token_ids: true }
      const texts = (body: { readonly choices: ReadonlyArray<{ readonly index: number; readonly text: string }> }) => {
        expect(body.choices.map(({ index }) => index)).toEqual(body.choices.map((_, at) => at))
        return body.choices.map(({ text }) => text)
      }
      const one = texts((yield* call(path, { prompt, ...more })).body)
      const other = texts((yield* call(path, { prompt: "he said", ...more })).body)
      expect(one).toHaveLength(2)
      expect(texts((yield* call(path, { prompt: ids(prompt), ...more })).body)).toEqual(one)
      expect(texts((yield* call(path, { prompt: [prompt, "he said"], ...more })).body)).toEqual([...one, ...other])
      expect(texts((yield* call(path, { prompt: [ids(prompt), ids("he said")], ...more })).body)).toEqual([
        ...one,
        ...other
      ])
    })
  )

  it.scoped("without a seed two choices and two requests differ; with one they repeat", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const ask = (more: object) =>
        Effect.map(call(path, { prompt: ids("q"), max_tokens: 40, temperature: 3, ...more }), ({ body }) =>
          body.choices.map(({ text }: { readonly text: string }) => text)
        )
      const fresh = [...(yield* ask({ n: 2 })), ...(yield* ask({})), ...(yield* ask({ seed: -1 }))]
      expect(new Set(fresh).size).toBe(4)
      const large = { seed: 2 ** 40 + 1, n: 2 }
      const [first, second] = yield* ask(large)
      expect(first).not.toBe(second)
      expect(yield* ask(large)).toEqual([first, second])
    })
  )

  it.scoped("a stop text ends the choice and is left out, with the tokens up to it", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const request = { prompt, max_tokens: 30, seed: 5, logprobs: 1, return_token_ids: true }
      const whole = (yield* call(path, request)).body.choices[0]
      const stop = whole.text.slice(7, 10)
      const at = whole.text.indexOf(stop)
      const cut = (yield* call(path, { ...request, stop: ["never said", stop] })).body.choices[0]
      expect(cut.text).toBe(whole.text.slice(0, at))
      expect(cut.token_ids).toEqual(whole.token_ids.slice(0, at + stop.length))
      expect(cut.logprobs.token_logprobs).toEqual(whole.logprobs.token_logprobs.slice(0, at + stop.length))
      expect(cut).toMatchObject({ finish_reason: "stop", stop_reason: stop })

      const byId = (yield* call(path, { ...request, stop_token_ids: [whole.token_ids[9]] })).body.choices[0]
      const first = whole.token_ids.indexOf(whole.token_ids[9])
      expect(byId.token_ids).toEqual(whole.token_ids.slice(0, first + 1))
      expect(byId.text).toBe(whole.text.slice(0, first))
      expect(byId).toMatchObject({ finish_reason: "stop", stop_reason: whole.token_ids[9] })
    })
  )

  it.scoped("the model's own end is no stop of the caller's, and can be passed over", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const turn = [260, 257, 10, ...ids("abc"), 261, 10, 260, 258, 10]
      const request = { prompt: turn, max_tokens: 60, seed: 1, return_token_ids: true }
      const [ended] = (yield* call(path, request)).body.choices
      expect(ended).toMatchObject({ finish_reason: "stop", stop_reason: null })
      expect(ended.token_ids.at(-1)).toBe(261)
      const [on] = (yield* call(path, { ...request, ignore_eos: true })).body.choices
      expect(on.token_ids).toHaveLength(60)
      expect(on.token_ids.slice(0, ended.token_ids.length)).toEqual(ended.token_ids)
      expect(on.text).not.toContain("<|im_end|>")
      const [shown] = (yield* call(path, { ...request, ignore_eos: true, skip_special_tokens: false })).body.choices
      expect(shown.text).toContain("<|im_end|>")
    })
  )

  it.scoped("echo repeats the prompt; its first token has no log-probability, and that is null", () =>
    Effect.gen(function* () {
      const { call, events } = yield* serve()
      const engine = yield* Engine.open(policy, { threads: 1, trainable: false })
      const tokens = ids("señor")
      const scores = yield* engine.score(
        Int32Array.from(tokens),
        Int32Array.of(tokens.length),
        new Float32Array(tokens.length).fill(1)
      )
      const request = { prompt: tokens, echo: true, logprobs: 1, max_tokens: 3, seed: 2, temperature: 0.5 }
      const [{ logprobs, text }] = (yield* call(path, request)).body.choices
      expect(text.startsWith("señor")).toBe(true)
      expect(logprobs.token_logprobs.slice(0, tokens.length)).toEqual([null, ...Array.from(scores.logprobs).slice(1)])
      expect(logprobs.token_logprobs).toHaveLength(tokens.length + 3)
      // ñ is two tokens, and one character
      expect(logprobs.text_offset.slice(0, 9)).toEqual([0, 1, 2, 2, 3, 4, 5, 6, 7])
      expect(logprobs.top_logprobs[0]).toBeNull()
      expect(logprobs.top_logprobs[1]).toEqual({ e: scores.logprobs[1] })

      const alone = (yield* call(path, { ...request, max_tokens: 0 })).body
      expect(alone.choices[0]).toMatchObject({ text: "señor", finish_reason: "length" })
      expect(alone.usage.completion_tokens).toBe(0)
      const streamed = (yield* events(path, request)).filter((event) => event !== "[DONE]")
      expect(streamed.map(({ choices }) => choices[0].text).join("")).toBe(text)
      expect(streamed.flatMap(({ choices }) => choices[0].logprobs.text_offset)).toEqual(logprobs.text_offset)
    })
  )

  it.scoped("prompt_logprobs are the engine's scores of the prompt, without one for the first token", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const { body } = yield* call(path, { prompt: "abc", prompt_logprobs: 1, max_tokens: 1, echo: true, logprobs: 0 })
      const [first, ...others] = body.choices[0].prompt_logprobs
      expect(first).toBeNull()
      expect(others.map((entry: object) => Object.keys(entry))).toEqual([["98"], ["99"]])
      expect(others[0]["98"]).toEqual({ logprob: body.choices[0].logprobs.token_logprobs[1], decoded_token: "b" })
    })
  )

  it.scoped("streamed and whole answers of a seed are the same text, tokens and log-probabilities", () =>
    Effect.gen(function* () {
      const { call, events } = yield* serve()
      const request = {
        prompt: [prompt, "and then"],
        n: 2,
        seed: 11,
        max_tokens: 40,
        temperature: 2,
        stop: ["\n\n", "ee"],
        logprobs: 0,
        return_token_ids: true,
        stream_options: { include_usage: true }
      }
      const { stream_options: _, ...plain } = request
      const whole = (yield* call(path, plain)).body
      const chunks = yield* events(path, request)
      expect(chunks.at(-1)).toBe("[DONE]")
      expect(chunks.at(-2)).toMatchObject({ choices: [], usage: whole.usage })
      for (const choice of whole.choices) {
        const own = chunks.slice(0, -2).filter(({ choices }) => choices[0].index === choice.index)
        const parts = own.map(({ choices }) => choices[0])
        expect(parts.map(({ text }) => text).join("")).toBe(choice.text)
        expect(parts.flatMap(({ token_ids }) => token_ids)).toEqual(choice.token_ids)
        expect(parts.flatMap(({ logprobs }) => logprobs.token_logprobs)).toEqual(choice.logprobs.token_logprobs)
        expect(parts.map(({ finish_reason }) => finish_reason).filter((reason) => reason !== null)).toEqual([
          choice.finish_reason
        ])
        expect(own.every(({ id, usage }) => id === chunks[0].id && usage === null)).toBe(true)
      }
    })
  )

  it.scoped("eight requests at once yield what each yields alone", () =>
    Effect.gen(function* () {
      const { call } = yield* serve({ limits: { running: 3 } })
      const ask = (seed: number) =>
        Effect.map(
          call(path, { prompt: `number ${seed}`, seed, max_tokens: 24, temperature: 1.5, logprobs: 0 }),
          ({ body }) => body.choices
        )
      const seeds = [1, 2, 3, 4, 5, 6, 7, 8]
      const alone = yield* Effect.forEach(seeds, ask)
      expect(yield* Effect.forEach(seeds, ask, { concurrency: "unbounded" })).toEqual(alone)
    })
  )
})
