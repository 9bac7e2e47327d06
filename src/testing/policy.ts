/** A policy over bytes that says what a test tells it to. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Inference, InferenceError, type InferenceService, type Sampling } from "../Inference.ts"
import * as Mock from "../inference/Mock.ts"
import { bytes, END, textOf } from "./byteChat.ts"

/** What a scripted model says and how long it takes. @category model */
export interface Script {
  /** names the model in errors; "policy" unless given */
  readonly name?: string | undefined
  /**
   * The answer to a prompt, whose text has neither roles nor ends; undefined leaves it to chance, an Error is what the
   * provider fails with.
   */
  readonly reply?: ((prompt: string, sampling: Sampling) => string | Error | undefined) | undefined
  /** by the clock; 0 unless given */
  readonly durationMs?: ((prompt: string, sampling: Sampling) => number) | undefined
  /** 4096 unless given */
  readonly maxSequenceLength?: number | undefined
}

/** A model that follows a script; `score` gives what it said the log-probability that it was said with. @category constructors */
export const scripted = ({
  durationMs,
  maxSequenceLength,
  name = "policy",
  reply
}: Script): Effect.Effect<InferenceService> =>
  Effect.map(
    Mock.make({
      name,
      salt: name,
      maxSequenceLength,
      vocabularySize: END + 1,
      durationMs: durationMs && ((ids, sampling) => durationMs(textOf(ids), sampling)),
      reply: (ids, sampling) => {
        const said = reply?.(textOf(ids), sampling)
        return typeof said === "string" ? bytes(said) : undefined
      }
    }),
    (model) => ({
      ...model,
      generate: (promptIds, sampling, options) =>
        Effect.suspend(() => {
          const said = reply?.(textOf(promptIds), sampling)
          return said instanceof Error
            ? Effect.fail(new InferenceError({ endpoint: name, reason: said.message }))
            : model.generate(promptIds, sampling, options)
        })
    })
  )

/** A scripted policy as the `Inference` of a test; `layerRenderer` renders for it. @category layers */
export const layerPolicy = (script: Script = {}): Layer.Layer<Inference> => Layer.effect(Inference, scripted(script))
