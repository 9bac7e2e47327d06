/** A rollout that is open to its agent, with a policy that says what a test wants, and plain requests to it. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import { Inference, type InferenceService } from "../../src/Inference.ts"
import * as Interception from "../../src/Interception.ts"
import * as Mock from "../../src/inference/Mock.ts"
import type { Limits } from "../../src/interception/Server.ts"
import type { Renderer } from "../../src/Renderer.ts"
import * as ChatMl from "../../src/renderers/ChatMl.ts"
import * as Session from "../../src/Session.ts"
import { Tokenizer } from "../../src/Tokenizer.ts"
import { said, tokenizer } from "../server/scripted.ts"

export { said, tokenizer } from "../server/scripted.ts"

export interface Reply {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: answers are judged by their content
  readonly body: any
}

/** A prompt as text in which special tokens can be read. */
export const textOf = (ids: Iterable<number>) => tokenizer.decode([...ids])

/** How a call of a tool is said by the policy. */
export const callText = (name: string, args: string) =>
  `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`

export interface Script {
  /** what the policy says to a prompt; special tokens are spelt */
  readonly reply?: (prompt: string, call: number) => string
  readonly durationMs?: number
  readonly maxSequenceLength?: number
}

export const layerPolicy = ({ durationMs, maxSequenceLength, reply = () => "ok<|im_end|>" }: Script = {}) => {
  let calls = 0
  return Layer.mergeAll(
    Mock.layerMock({
      vocabularySize: tokenizer.vocabularySize,
      maxSequenceLength: maxSequenceLength ?? 1 << 16,
      reply: (promptIds) => said(reply(textOf(promptIds), calls++)),
      ...(durationMs === undefined ? {} : { durationMs: () => durationMs })
    }),
    ChatMl.layer,
    Layer.succeed(Tokenizer, tokenizer)
  ).pipe(Layer.provide(Layer.succeed(Tokenizer, tokenizer)))
}

/** A policy that draws half of its turn, tells that it has, and waits to be let go on; `ended` says how each call went. */
export const heldPolicy = (text: string) =>
  Effect.gen(function* () {
    const drawn = yield* Queue.unbounded<void>()
    const goOn = yield* Queue.unbounded<void>()
    const ended = yield* Queue.unbounded<"done" | "interrupted">()
    let calls = 0
    const ids = Int32Array.from(said(text))
    const logprobs = new Float32Array(ids.length).fill(-0.5)
    const half = ids.length >> 1
    const inference: InferenceService = {
      name: "held",
      maxSequenceLength: 1 << 16,
      score: () => Effect.die("not asked"),
      adopt: () => Effect.void,
      generate: (_, __, { onTokens } = {}) =>
        Effect.gen(function* () {
          calls++
          onTokens?.(ids.slice(0, half), logprobs.slice(0, half))
          yield* drawn.offer(undefined)
          yield* goOn.take
          return { tokenIds: ids, logprobs, finishReason: "stop" as const, policyVersion: 0 }
        }).pipe(Effect.onExit((exit) => ended.offer(exit._tag === "Success" ? "done" : "interrupted")))
    }
    const layer = Layer.mergeAll(
      Layer.succeed(Inference, inference),
      ChatMl.layer,
      Layer.succeed(Tokenizer, tokenizer),
      Interception.layer()
    ).pipe(Layer.provide(Layer.succeed(Tokenizer, tokenizer)))
    return { layer, drawn: drawn.take, goOn: goOn.offer(undefined), ended: ended.take, calls: () => calls }
  })

export const requests = (endpoint: Interception.Endpoint) => {
  const headersOf = (more: Readonly<Record<string, string>>) => ({
    "content-type": "application/json",
    authorization: `Bearer ${endpoint.secret}`,
    ...more
  })
  const send = (path: string, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
    Effect.promise((signal) =>
      fetch(`${endpoint.baseUrl}${path}`, {
        headers: headersOf(headers),
        signal,
        ...(body === undefined ? {} : { method: "POST", body: typeof body === "string" ? body : JSON.stringify(body) })
      })
    )
  return {
    send,
    call: (path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Effect.Effect<Reply> =>
      Effect.flatMap(send(path, body, headers), (response) =>
        Effect.map(
          Effect.promise(() => response.json()),
          (json) => ({ status: response.status, headers: response.headers, body: json })
        )
      ),
    /** Server-sent events: their names, and their data as JSON where it is JSON. */
    events: (path: string, body: object): Effect.Effect<ReadonlyArray<Reply["body"]>> =>
      Effect.flatMap(send(path, { ...body, stream: true }), (response) =>
        Effect.map(
          Effect.promise(() => response.text()),
          (text) => {
            if (response.headers.get("content-type") !== "text/event-stream") throw new Error(text)
            return text
              .split("\n\n")
              .map((event) =>
                event
                  .split("\n")
                  .find((line) => line.startsWith("data: "))
                  ?.slice(6)
              )
              .filter((data) => data !== undefined)
              .map((data) => (data === "[DONE]" ? data : JSON.parse(data)))
          }
        )
      )
  }
}

/** A rollout of its own on the server of the test. */
export const open = (
  options: { readonly limits?: Session.Limits; readonly sampling?: Session.Sampling; readonly model?: string } = {}
) =>
  Effect.gen(function* () {
    const { open } = yield* Interception.Interception
    const session = yield* Session.make({
      sampling: options.sampling ?? {},
      limits: options.limits,
      seedOf: (turn) => turn
    })
    const endpoint = yield* open({ session, model: options.model ?? "policy" })
    return { session, endpoint, ...requests(endpoint) }
  })

export type Rollout = Effect.Effect.Success<ReturnType<typeof open>>

/** All that a rollout needs, with a policy of the test's own. */
export const layer = (script: Script = {}, limits: Partial<Limits> = {}) =>
  Layer.merge(layerPolicy(script), Interception.layer({ limits }))

export type Provided = Inference | Renderer | Tokenizer | Interception.Interception
