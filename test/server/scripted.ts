/** Routes over an engine that says what a test wants: no weights, no network, the same answers as a server's. */
import * as HttpApp from "@effect/platform/HttpApp"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Stream from "effect/Stream"
import * as ChatMl from "../../src/renderers/ChatMl.ts"
import * as ApiError from "../../src/server/ApiError.ts"
import * as Gate from "../../src/server/Gate.ts"
import * as Models from "../../src/server/Models.ts"
import * as Chat from "../../src/server/routes/Chat.ts"
import * as Completions from "../../src/server/routes/Completions.ts"
import type { TokenizerService } from "../../src/Tokenizer.ts"
import type { Engine } from "../../src/Trainer/Engine.ts"
import * as HuggingFace from "../../src/tokenizer/HuggingFace.ts"
import { makeByteLevelTokenizer } from "../../src/tokenizer/makeByteLevelTokenizer.ts"
import { eventsOf, type Reply } from "./kit.ts"

const specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]

const made = makeByteLevelTokenizer({
  specials,
  merges: [["o", "k"]],
  eosToken: "<|im_end|>",
  padToken: "<|endoftext|>",
  chatTemplate: "",
  modelMaxLength: 4096
})

export const tokenizer: TokenizerService = Either.getOrThrow(HuggingFace.fromJson(made.tokenizer))

/** Ids of a text in which the spellings of special tokens are those tokens. */
export const said = (text: string): ReadonlyArray<number> =>
  text.split(/(<\|?\/?\w+\|?>)/).flatMap((piece) => {
    const id = specials.includes(piece) ? tokenizer.special(piece) : undefined
    return id === undefined ? Array.from(tokenizer.encode(piece).ids) : [id]
  })

/** How the engine hands the tokens over: so many at once. */
const chunked = (tokens: ReadonlyArray<number>, size: number) =>
  Array.from({ length: Math.ceil(tokens.length / size) }, (_, at) => tokens.slice(at * size, (at + 1) * size))

const engineOf = (tokens: ReadonlyArray<number>, size: number, logprobOf: (id: number) => number): Engine =>
  ({
    config: { vocabSize: tokenizer.vocabularySize, maxPositionEmbeddings: 4096 },
    score: (ids: Int32Array) =>
      Effect.succeed({ logprobs: Float32Array.from(ids, (id, i) => (i === 0 ? 0 : logprobOf(id))) }),
    stream: ({ maxTokens, stopTokenIds }: { readonly maxTokens: number; readonly stopTokenIds: Int32Array }) => {
      const end = tokens.findIndex((id) => stopTokenIds.includes(id)) + 1
      const sampled = tokens.slice(0, Math.min(maxTokens, end === 0 ? tokens.length : end))
      return Stream.fromIterable(chunked(sampled, size)).pipe(
        Stream.map((ids) => ({
          _tag: "Tokens" as const,
          tokenIds: Int32Array.from(ids),
          logprobs: Float32Array.from(ids, logprobOf)
        })),
        Stream.concat(
          Stream.succeed({ _tag: "End" as const, finishReason: "length" as const, swaps: [], weightsVersion: 0 })
        )
      )
    }
  }) as unknown as Engine

/** Asks for what the engine then says; `size` tokens come at once. */
export const scripted = (
  tokens: ReadonlyArray<number>,
  size = 1,
  logprobOf: (id: number) => number = (id) => -id / 1024
) =>
  Effect.gen(function* () {
    const models = yield* Models.make({
      id: "scripted",
      root: "nowhere",
      engine: engineOf(tokens, size, logprobOf),
      format: {
        tokenizer,
        renderer: ChatMl.make(tokenizer),
        endIds: [tokenizer.special("<|im_end|>")!],
        maxLength: 4096
      }
    })
    const gate = yield* Gate.make(Gate.defaults)
    const provided = <A, E, R>(app: Effect.Effect<A, E, R>) =>
      app.pipe(Effect.provideService(Models.Models, models), Effect.provideService(Gate.Gate, gate))
    const handlers = {
      chat: HttpApp.toWebHandler(
        Chat.routes.pipe(
          Effect.catchTag("ApiError", (error) => Effect.succeed(ApiError.response(error))),
          provided
        )
      ),
      completions: HttpApp.toWebHandler(
        Completions.routes.pipe(
          Effect.catchTag("ApiError", (error) => Effect.succeed(ApiError.response(error))),
          provided
        )
      )
    }
    const paths = { chat: "/v1/chat/completions", completions: "/v1/completions" }
    const send = (to: keyof typeof paths, body: object) =>
      Effect.promise(() =>
        handlers[to](new Request(`http://x${paths[to]}`, { method: "POST", body: JSON.stringify(body) }))
      )
    return {
      call: (to: keyof typeof paths, body: object): Effect.Effect<Reply["body"]> =>
        Effect.flatMap(send(to, body), (response) => Effect.promise(() => response.json())),
      events: (to: keyof typeof paths, body: object): Effect.Effect<ReadonlyArray<Reply["body"]>> =>
        Effect.map(
          Effect.flatMap(send(to, { ...body, stream: true }), (response) => Effect.promise(() => response.text())),
          eventsOf
        )
    }
  })
