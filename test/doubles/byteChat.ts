/** A chat format over bytes and a policy that answers by a function: the smallest things an environment can run on. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Generation, Inference, type InferenceError, type Sampling } from "../../src/Inference.ts"
import type { Message } from "../../src/Message.ts"
import { type Rendered, Renderer } from "../../src/Renderer.ts"

const ROLES = ["system", "user", "assistant", "tool"]
export const END = 260
const head = (role: string) => 256 + ROLES.indexOf(role)
export const bytes = (text: string) => [...new TextEncoder().encode(text)]
export const textOf = (ids: Iterable<number>) =>
  new TextDecoder().decode(Uint8Array.from([...ids].filter((id) => id < 256)))

const pieces = (
  messages: ReadonlyArray<Message>,
  lead: ReadonlyArray<number>,
  addGenerationPrompt: boolean
): Rendered => {
  const all: Array<readonly [id: number, message: number, content: number]> = lead.map((id) => [id, -1, 0])
  messages.forEach(({ content, role }, index) => {
    all.push([head(role), index, 0])
    for (const id of bytes(content ?? "")) all.push([id, index, 1])
    all.push([END, index, 0])
  })
  if (addGenerationPrompt) all.push([head("assistant"), -1, 0])
  return {
    tokenIds: Int32Array.from(all, ([id]) => id),
    messageIndices: Int32Array.from(all, ([, message]) => message),
    sampledMask: new Uint8Array(all.length),
    isContent: Uint8Array.from(all, ([, , content]) => content)
  }
}

export const layerRenderer = Layer.succeed(Renderer, {
  name: "byte-chat",
  stopTokenIds: [END],
  render: (messages, options) => pieces(messages, [], options?.addGenerationPrompt ?? false),
  parse: (completionIds) => ({
    message: { role: "assistant", content: textOf(completionIds) },
    toolCalls: [],
    reasoningComplete: undefined,
    terminatedBy: completionIds.at(-1) === END ? "stop" : undefined
  }),
  bridge: (promptIds, completionIds, messages) =>
    pieces(messages, [...promptIds, ...completionIds, ...(completionIds.at(-1) === END ? [] : [END])], true)
})

export interface Request {
  readonly promptIds: Int32Array
  readonly sampling: Sampling
}

/** Answers with `reply`, cut at `maxTokens`; records what it was asked. */
export const layerPolicy = (
  reply: (request: Request) => string | Effect.Effect<string | Generation, InferenceError>,
  options: { readonly maxSequenceLength?: number; readonly requests?: Array<Request> } = {}
) =>
  Layer.succeed(Inference, {
    name: "scripted",
    maxSequenceLength: options.maxSequenceLength ?? 4096,
    score: (ids) => Effect.succeed(new Float32Array(ids.length)),
    adopt: () => Effect.void,
    generate: (promptIds, sampling) =>
      Effect.suspend(() => {
        options.requests?.push({ promptIds, sampling })
        const answered = reply({ promptIds, sampling })
        return Effect.map(typeof answered === "string" ? Effect.succeed(answered) : answered, (text): Generation => {
          if (typeof text !== "string") return text
          const whole = [...bytes(text), END]
          const ids = whole.slice(0, sampling.maxTokens)
          return {
            tokenIds: Int32Array.from(ids),
            logprobs: new Float32Array(ids.length).fill(-0.5),
            finishReason: ids.length === whole.length ? "stop" : "length",
            policyVersion: 0
          }
        })
      })
  })
