/** A policy over bytes that answers by a function: the smallest thing an environment can run on. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Generation, Inference, type InferenceError, type Sampling } from "../../src/Inference.ts"
import { bytes, END } from "../../src/testing/byteChat.ts"

export { bytes, END, layerRenderer, textOf } from "../../src/testing/byteChat.ts"

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
