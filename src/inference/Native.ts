/**
 * The embedded policy: generates and scores on an engine. A generation ends on the weights that it began with, and what
 * it yields depends on its prompt, its sampling and those weights alone, never on what else runs.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Inference, InferenceError, type InferenceService } from "../Inference.ts"
import type { Engine } from "../Trainer/Engine.ts"
import type { NativeError } from "../Trainer/NativeError.ts"

/** @category model */
export interface Options {
  /** names the endpoint in errors; "policy" unless given */
  readonly name?: string | undefined
  /** version of the weights that the engine holds now; 0 unless given */
  readonly version?: number | undefined
  /** longest prompt plus completion; the model's positions unless given, and never more */
  readonly maxSequenceLength?: number | undefined
}

/** @category constructors */
export const make = (engine: Engine, options: Options = {}): InferenceService => {
  const endpoint = options.name ?? "policy"
  const maxSequenceLength = Math.min(
    options.maxSequenceLength ?? engine.config.maxPositionEmbeddings,
    engine.config.maxPositionEmbeddings
  )
  // Policy versions by the engine's own number of its weights, so that a generation is stamped with what it really used
  // even when new weights were queued between its request and its start.
  const versions = new Map<number, number>()
  /** of the weights that the engine came with, which no `adopt` has numbered */
  const initial = options.version ?? 0
  const failed = (error: NativeError) =>
    new InferenceError({
      endpoint,
      reason: error.reason,
      ...(error.code === "ERR_PROMPT_TOO_LONG" ? { promptTooLong: true } : {})
    })
  const tooLong = (tokens: number, reason: string) =>
    new InferenceError({ endpoint, reason: `${tokens} tokens ${reason} ${maxSequenceLength}`, promptTooLong: true })

  return {
    name: endpoint,
    maxSequenceLength,
    generate: (promptIds, sampling, { onTokens } = {}) =>
      promptIds.length >= maxSequenceLength
        ? Effect.fail(tooLong(promptIds.length, "of prompt leave no room in a sequence of"))
        : engine
            .generate(
              {
                promptIds,
                maxTokens: Math.min(sampling.maxTokens, maxSequenceLength - promptIds.length),
                temperature: sampling.temperature,
                topP: sampling.topP ?? 1,
                topK: sampling.topK ?? 0,
                minP: sampling.minP ?? 0,
                stopTokenIds: Int32Array.from(sampling.stopTokenIds),
                seed: sampling.seed
              },
              { onTokens }
            )
            .pipe(
              Effect.map(({ finishReason, logprobs, tokenIds, weightsVersion }) => ({
                tokenIds,
                logprobs,
                finishReason,
                policyVersion: versions.get(weightsVersion) ?? initial
              })),
              Effect.mapError(failed)
            ),
    score: (tokenIds, temperature = 1) => {
      if (tokenIds.length === 0) return Effect.succeed(new Float32Array(0))
      if (tokenIds.length > maxSequenceLength) {
        return Effect.fail(tooLong(tokenIds.length, "to score do not fit in a sequence of"))
      }
      const temperatures = new Float32Array(tokenIds.length).fill(temperature)
      return engine.score(tokenIds, Int32Array.of(tokenIds.length), temperatures).pipe(
        Effect.map(({ logprobs }) => logprobs),
        Effect.mapError(failed)
      )
    },
    adopt: ({ snapshot, version }) =>
      engine.adopt(snapshot).pipe(
        Effect.tap((number) => Effect.sync(() => versions.set(number, version))),
        Effect.asVoid,
        Effect.mapError(failed),
        Effect.uninterruptible
      )
  }
}

/** Serves the policy of an engine. @category layers */
export const layer = (engine: Engine, options?: Options): Layer.Layer<Inference> =>
  Layer.sync(Inference, () => make(engine, options))
