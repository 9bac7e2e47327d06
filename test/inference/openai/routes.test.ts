/** What is posted, and how answers read: recorded shapes of vLLM, without a server. */
import { describe, expect, it } from "@effect/vitest"
import * as Either from "effect/Either"
import type { Sampling } from "../../../src/Inference.ts"
import * as Completions from "../../../src/inference/openai/CompletionsRoute.ts"
import * as ErrorWire from "../../../src/inference/openai/ErrorWire.ts"
import * as Generate from "../../../src/inference/openai/GenerateRoute.ts"
import type { Route } from "../../../src/inference/openai/Route.ts"

const sampling: Sampling = { temperature: 0.6, maxTokens: 8, stopTokenIds: [11], seed: 3 }
const ids = Int32Array.of(7, 9)

/** One answer in the shape of a route. */
interface Shape {
  readonly name: string
  readonly route: Route
  readonly sampled: (
    tokenIds: unknown,
    logprobs: ReadonlyArray<unknown> | null,
    finish: unknown,
    names?: ReadonlyArray<number>
  ) => { readonly choices: ReadonlyArray<unknown> }
  readonly scored: (json: string) => unknown
}

const shapes: ReadonlyArray<Shape> = [
  {
    name: "generate",
    route: Generate.route,
    sampled: (tokenIds, logprobs, finish, names) => ({
      request_id: "1",
      choices: [
        {
          index: 0,
          token_ids: tokenIds,
          logprobs: logprobs && {
            content: logprobs.map((logprob, i) => ({
              token: `token_id:${names?.[i] ?? (tokenIds as Array<number>)?.[i]}`,
              logprob,
              bytes: null,
              top_logprobs: []
            }))
          },
          finish_reason: finish
        }
      ],
      prompt_logprobs: null
    }),
    scored: (json: string) => JSON.parse(`{"choices":[{"index":0,"token_ids":[1]}],"prompt_logprobs":${json}}`)
  },
  {
    name: "completions",
    route: Completions.route,
    sampled: (tokenIds, logprobs, finish, names) => ({
      choices: [
        {
          index: 0,
          text: "…",
          token_ids: tokenIds,
          logprobs: logprobs && {
            tokens: logprobs.map((_, i) => `token_id:${names?.[i] ?? (tokenIds as Array<number>)?.[i]}`),
            token_logprobs: logprobs,
            text_offset: [],
            top_logprobs: []
          },
          finish_reason: finish
        }
      ]
    }),
    scored: (json: string) => JSON.parse(`{"choices":[{"index":0,"text":"","prompt_logprobs":${json}}]}`)
  }
]

describe.each(shapes)("$name", ({ route, sampled, scored }) => {
  const generation = (...of: Parameters<Shape["sampled"]>) => route.readGeneration(sampled(...of), sampling)
  const refusal = (...of: Parameters<Shape["sampled"]>) => Either.getOrThrow(Either.flip(generation(...of)))
  const score = (json: string) => route.readScore(scored(json), ids)
  const refusedScore = (json: string) => Either.getOrThrow(Either.flip(score(json))).what

  it("ids and log-probabilities come out as they were sent", () => {
    const { finishReason, logprobs, tokenIds } = Either.getOrThrow(generation([5, 6], [-0.5, -1.25], "length"))
    expect([[...tokenIds], [...logprobs], finishReason]).toEqual([[5, 6], [-0.5, -1.25], "length"])
  })

  it("TOK-09: a teacher's log-probability is that of the exact token, in whatever order candidates are written", () => {
    const one = '[null,{"9":{"logprob":-2.0,"rank":3},"5":{"logprob":-0.1,"rank":1}}]'
    const other = '[null,{"5":{"logprob":-0.1,"rank":1},"9":{"logprob":-2.0,"rank":3}}]'
    for (const json of [one, other]) expect([...Either.getOrThrow(score(json))]).toEqual([0, -2])
  })

  it("TOK-09: a missing id, a short list and a gap are errors, never 0", () => {
    expect(refusedScore('[null,{"5":{"logprob":-0.1}}]')).toMatch(/prompt_logprobs\[1\] of token id 9 is missing/)
    expect(refusedScore("[null,null]")).toMatch(/prompt_logprobs\[1\] of token id 9 is missing/)
    expect(refusedScore('[{"9":{"logprob":-2.0}}]')).toMatch(/1 prompt_logprobs for 2 tokens/)
    expect(refusedScore('[null,null,{"9":{"logprob":-2.0}}]')).toMatch(/3 prompt_logprobs for 2 tokens/)
    expect(refusedScore("null")).toMatch(/did not return prompt_logprobs/)
    expect(refusedScore('[null,{"9":{"rank":3}}]')).toMatch(/is missing/)
    expect(refusedScore('[null,{"9":{"logprob":null}}]')).toMatch(/is missing/)
    expect(refusedScore('[null,{"9":-2.0}]')).toMatch(/is missing/)
  })

  it("API-14: what stands for minus infinity is no log-probability, and neither is a logit", () => {
    expect(refusedScore('[null,{"9":{"logprob":-9999.0}}]')).toMatch(/stands for minus infinity/)
    expect(refusedScore('[null,{"9":{"logprob":14.5}}]')).toMatch(/a logit perhaps/)
    expect(refusal([5, 6], [-0.5, -9999], "stop").what).toMatch(/log-probability 1 is -9999/)
    expect(refusal([5, 6], [3, -1], "stop").what).toMatch(/log-probability 0 is 3, a logit perhaps/)
    expect(refusal([5, 6], [null, -1], "stop").what).toMatch(/log-probability 0 is missing/)
  })

  it("TOK-08: streams of different lengths are refused, never cut to the shorter", () => {
    const { passing, what } = refusal([5, 6, 7], [-1, -1, -1, -1], "stop", [5, 6, 7, 8])
    expect([what, passing]).toEqual([expect.stringMatching(/3 token ids, 4 log-probabilities/), false])
    expect(refusal([5, 6, 7], [-1, -1], "stop").what).toMatch(/3 token ids, 2 log-probabilities/)
  })

  it("TOK-17: an answer without ids or without log-probabilities fails at once, and in those words", () => {
    const words = /the endpoint did not return token ids and log-probabilities/
    for (const failure of [
      refusal([5], null, "stop"),
      route
        .readGeneration({ choices: [{ index: 0, text: "Hi", finish_reason: "stop" }] }, sampling)
        .pipe(Either.flip, Either.getOrThrow)
    ]) {
      expect(failure.what).toMatch(words)
      expect(failure.passing).toBe(false)
    }
  })

  it("TOK-15: what was cut short is what finish_reason says, whatever the last token", () => {
    expect(Either.getOrThrow(generation([5, 11], [-1, -1], "stop")).finishReason).toBe("stop")
    expect(Either.getOrThrow(generation([5, 2], [-1, -1], "length")).finishReason).toBe("length")
  })

  it("API-17: a generation that was aborted or went wrong is none, and may be asked for again", () => {
    for (const reason of ["abort", "error", null]) {
      const failure = refusal([5], [-1], reason)
      expect(failure.what).toMatch(new RegExp(`finish_reason ${reason}`))
      expect(failure.passing).toBe(true)
    }
  })

  it("a log-probability beside another token's name is refused", () => {
    expect(refusal([5, 6], [-1, -1], "stop", [5, 7]).what).toMatch(/token 1 is 6, and its log-probability is that of 7/)
  })

  it("more than was asked for, or what is no id, is refused", () => {
    const nine = Array.from({ length: 9 }, () => 1)
    expect(
      refusal(
        nine,
        nine.map(() => -1),
        "length"
      ).what
    ).toMatch(/9 tokens where at most 8/)
    expect(refusal([1.5], [-1], "stop").what).toMatch(/token 0 is 1.5/)
    expect(refusal([-1], [-1], "stop", [1]).what).toMatch(/token 0 is -1/)
    const two = { choices: [sampled([5], [-1], "stop").choices[0], sampled([5], [-1], "stop").choices[0]] }
    expect(Either.getOrThrow(Either.flip(route.readGeneration(two, sampling))).what).toMatch(/2 choices where one/)
  })

  it("an answer of another form is told by the place where it differs", () => {
    const failure = Either.getOrThrow(Either.flip(route.readGeneration({ choices: [{ token_ids: "5 6" }] }, sampling)))
    expect(failure.what).toMatch(/choices\.0\.token_ids/)
  })
})

it("a refusal is about the prompt's length only where it says so of the request", () => {
  const words = "This model's maximum context length is 8192 tokens."
  expect([400, 413, 422].map((status) => ErrorWire.saysPromptTooLong(status, words))).toEqual([true, true, true])
  expect([401, 404, 500, 503].some((status) => ErrorWire.saysPromptTooLong(status, words))).toBe(false)
  expect(ErrorWire.saysPromptTooLong(400, "temperature must be at least 0")).toBe(false)
})

describe("what is asked for", () => {
  const params = {
    max_tokens: 8,
    temperature: 0.6,
    top_p: 1,
    top_k: -1,
    min_p: 0,
    repetition_penalty: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    stop_token_ids: [11],
    seed: 3,
    skip_special_tokens: false,
    logprobs: 1
  }

  it("sampling is said in full, so that a model's generation_config fills nothing in", () => {
    expect(Generate.route.generation("m", ids, sampling)).toEqual({
      model: "m",
      token_ids: [7, 9],
      sampling_params: params
    })
    expect(Completions.route.generation("m", ids, { ...sampling, topP: 0.9, topK: 20, minP: 0.1 })).toEqual({
      model: "m",
      prompt: [7, 9],
      ...params,
      top_p: 0.9,
      top_k: 20,
      min_p: 0.1,
      return_token_ids: true,
      return_tokens_as_token_ids: true
    })
  })

  it("a request without a limit on candidates says -1, which is vLLM's word for it", () => {
    const topK = (topK: number | undefined) =>
      (Completions.route.generation("m", ids, { ...sampling, topK }) as Completions.CompletionRequest).top_k
    expect([undefined, 0, 1].map(topK)).toEqual([-1, -1, 1])
  })

  it("a prompt is scored beside one token, and the temperature of its distributions is said where it is not 1", () => {
    const one = { max_tokens: 1, temperature: 1, top_p: 1, prompt_logprobs: 1 }
    const generate = Generate.route.score("m", ids, 1)
    expect(generate).toMatchObject({ token_ids: [7, 9], sampling_params: one })
    const completions = Completions.route.score("m", ids, 1)
    expect(completions).toMatchObject({ prompt: [7, 9], ...one })
    expect(JSON.stringify([generate, completions])).not.toContain("prompt_logprobs_temperature")
    const other = { ...one, prompt_logprobs_temperature: 0.6 }
    expect(Generate.route.score("m", ids, 0.6)).toMatchObject({ sampling_params: other })
    expect(Completions.route.score("m", ids, 0.6)).toMatchObject(other)
  })

  it("ids that are only written as names of tokens are read from them", () => {
    const answer = {
      choices: [
        {
          text: "…",
          finish_reason: "stop",
          logprobs: { tokens: ["token_id:5", "token_id:6"], token_logprobs: [-1, -2] }
        }
      ]
    }
    expect([...Either.getOrThrow(Completions.route.readGeneration(answer, sampling)).tokenIds]).toEqual([5, 6])
    const texts = {
      choices: [{ text: "…", finish_reason: "stop", logprobs: { tokens: [" he", "llo"], token_logprobs: [-1, -2] } }]
    }
    expect(Either.getOrThrow(Either.flip(Completions.route.readGeneration(texts, sampling))).what).toMatch(
      /did not return token ids/
    )
  })
})
