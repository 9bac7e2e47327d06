/** A server on this machine that speaks vLLM's routes, over a model without weights. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import type { InferenceError, InferenceService } from "../../src/Inference.ts"
import * as Mock from "../../src/inference/Mock.ts"

export interface Asked {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  // biome-ignore lint/suspicious/noExplicitAny: what a client sent
  readonly body: any
}

/** An answer by hand: JSON or text, nothing at all, or half of it and then the end of the connection. */
export type Reply =
  | { readonly status?: number; readonly headers?: Readonly<Record<string, string>>; readonly body: unknown }
  | "hang"
  | "die"

export interface Options {
  readonly model?: string
  /** one more than the highest id */
  readonly vocabularySize?: number
  readonly maxModelLen?: number | null
  readonly routes?: ReadonlyArray<"generate" | "completions" | "tokenize">
  /** log-probabilities of sampled tokens at the sampling temperature, or as vLLM gives them unasked */
  readonly logprobs?: "processed" | "raw"
  readonly tokenize?: (text: string) => ReadonlyArray<number>
  readonly detokenize?: (ids: ReadonlyArray<number>) => string
  /** heeds `prompt_logprobs_temperature`, of which vLLM takes no notice */
  readonly scoresAtTemperature?: boolean
  readonly port?: number
  /** says something else than the server would, by the number of the request for that path */
  readonly reply?: (asked: Asked, count: number) => Reply | undefined | Promise<Reply | undefined>
}

export interface Vllm {
  readonly url: string
  readonly port: number
  readonly asked: ReadonlyArray<Asked>
  /** requests for a path */
  readonly at: (path: string) => ReadonlyArray<Asked>
  /** requests whose client went away before they were answered */
  readonly gone: () => number
  /** the model behind it */
  readonly model: InferenceService
  readonly close: Effect.Effect<void>
}

export const generatePath = "/inference/v1/generate"

const run = Effect.runPromise as <A>(effect: Effect.Effect<A, InferenceError>) => Promise<A>

const candidates = (ids: ReadonlyArray<number>, logprobs: Float32Array) =>
  ids.map((id, i) =>
    i === 0
      ? null
      : {
          // the likeliest candidate first, as vLLM does not promise but gives
          [(id + 1) % 256]: { logprob: -0.01, rank: 1, decoded_token: "x" },
          [id]: { logprob: logprobs[i], rank: 7, decoded_token: "y" }
        }
  )

const scored = async (model: InferenceService, ids: ReadonlyArray<number>, temperature = 1) =>
  candidates(ids, await run(model.score(Int32Array.from(ids), temperature)))

const sampled = async (
  model: InferenceService,
  ids: ReadonlyArray<number>,
  // biome-ignore lint/suspicious/noExplicitAny: what a client sent
  params: any,
  mode: "processed" | "raw"
) => {
  const { temperature, max_tokens: maxTokens, stop_token_ids: stopTokenIds, seed } = params
  const promptIds = Int32Array.from(ids)
  const made = await run(model.generate(promptIds, { temperature, maxTokens, stopTokenIds, seed }))
  if (mode === "processed") return made
  const all = await run(model.score(Int32Array.from([...promptIds, ...made.tokenIds])))
  return { ...made, logprobs: all.subarray(promptIds.length) }
}

export const vllm = (options: Options = {}): Effect.Effect<Vllm, never, Scope.Scope> =>
  Effect.gen(function* () {
    const {
      logprobs = "processed",
      maxModelLen = 512,
      model: name = "teacher",
      routes = ["generate", "completions", "tokenize"],
      tokenize = (text) => [...new TextEncoder().encode(text)],
      vocabularySize = 261
    } = options
    const model = yield* Mock.make({ name, salt: name, vocabularySize, maxSequenceLength: maxModelLen ?? 100_000 })
    const asked: Array<Asked> = []
    const at = (path: string) => asked.filter((one) => one.path === path)
    const temperatureOf = (params: { readonly prompt_logprobs_temperature?: number }) =>
      options.scoresAtTemperature === true ? params.prompt_logprobs_temperature : undefined
    let gone = 0
    let url = ""

    const answer = async ({ body, path }: Asked): Promise<Reply> => {
      if (path === "/v1/models") {
        return { body: { object: "list", data: [{ id: name, object: "model", max_model_len: maxModelLen }] } }
      }
      if (path === "/tokenize" && routes.includes("tokenize")) {
        const tokens = tokenize(body.prompt)
        return { body: { count: tokens.length, max_model_len: maxModelLen, tokens, token_strs: null } }
      }
      if (path === "/detokenize" && options.detokenize !== undefined) {
        return { body: { prompt: options.detokenize(body.tokens) } }
      }
      if (path === generatePath && routes.includes("generate")) {
        const { sampling_params: params, token_ids: ids } = body
        if (ids.some((id: number) => id >= vocabularySize)) {
          return { status: 400, body: { error: { message: `Token id ${Math.max(...ids)} is out of vocabulary` } } }
        }
        const made = await sampled(model, ids, params, logprobs)
        return {
          body: {
            request_id: "1",
            choices: [
              {
                index: 0,
                token_ids: [...made.tokenIds],
                finish_reason: made.finishReason,
                logprobs: params.logprobs && {
                  content: Array.from(made.tokenIds, (id, i) => ({
                    token: `token_id:${id}`,
                    logprob: made.logprobs[i]
                  }))
                }
              }
            ],
            prompt_logprobs: params.prompt_logprobs ? await scored(model, ids, temperatureOf(params)) : null
          }
        }
      }
      if (path === "/v1/completions" && routes.includes("completions")) {
        const made = await sampled(model, body.prompt, body, logprobs)
        const tokens = Array.from(made.tokenIds, (id) => `token_id:${id}`)
        return {
          body: {
            object: "text_completion",
            choices: [
              {
                index: 0,
                text: "…",
                token_ids: body.return_token_ids ? [...made.tokenIds] : null,
                finish_reason: made.finishReason,
                logprobs: body.logprobs ? { tokens, token_logprobs: [...made.logprobs], text_offset: [] } : null,
                prompt_logprobs: body.prompt_logprobs ? await scored(model, body.prompt, temperatureOf(body)) : null
              }
            ]
          }
        }
      }
      return { status: 404, body: { detail: "Not Found" } }
    }

    const send = (response: ServerResponse, reply: Reply) => {
      if (reply === "hang") return
      if (reply === "die") {
        response.writeHead(200, { "content-type": "application/json", "content-length": "1000" })
        response.write('{"choices":[{"tok', () => response.destroy())
        return
      }
      const text = typeof reply.body === "string" ? reply.body : JSON.stringify(reply.body)
      response.writeHead(reply.status ?? 200, { "content-type": "application/json", ...reply.headers })
      response.end(text)
    }

    const server = createServer((request, response) => {
      const parts: Array<Buffer> = []
      response.on("close", () => {
        if (!response.writableFinished) gone++
      })
      request.on("data", (part: Buffer) => parts.push(part))
      request.on("end", async () => {
        const text = Buffer.concat(parts).toString()
        const one: Asked = {
          method: request.method ?? "",
          path: request.url ?? "",
          headers: request.headers,
          body: text === "" ? undefined : JSON.parse(text)
        }
        asked.push(one)
        const byHand = await options.reply?.(one, at(one.path).length)
        send(response, byHand ?? (await answer(one).catch((error) => ({ status: 500, body: String(error) }))))
      })
    })
    const close = Effect.async<void>((resume) => {
      server.closeAllConnections()
      server.close(() => resume(Effect.void))
    })
    const port = yield* Effect.acquireRelease(
      Effect.async<number>((resume) => {
        server.listen(options.port ?? 0, "127.0.0.1", () =>
          resume(Effect.succeed((server.address() as AddressInfo).port))
        )
      }),
      () => close
    )
    url = `http://127.0.0.1:${port}`
    return { url: `${url}/v1`, port, asked, at, gone: () => gone, model, close }
  })

/** Lets everything else that can run do so, the network included, until something holds. */
export const until = (holds: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() =>
    holds()
      ? Effect.void
      : Effect.zipRight(
          Effect.promise(() => new Promise((resolve) => setImmediate(resolve))),
          until(holds)
        )
  )

/** Waits until somebody sleeps until this time of the test's clock, in ms. */
export const asleepUntil = (ms: number): Effect.Effect<void> =>
  Effect.flatMap(TestClock.sleeps(), (sleeps) =>
    Chunk.some(sleeps, (time) => time === ms)
      ? Effect.void
      : Effect.zipRight(
          Effect.promise(() => new Promise((resolve) => setImmediate(resolve))),
          asleepUntil(ms)
        )
  )
