/**
 * The embedded policy: generates and scores on an engine. A generation ends on the weights that it began with, unless it
 * is said that running ones swap, and what it yields depends on its prompt, its sampling and those weights alone, never
 * on what else runs.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Inference, InferenceError, type InferenceService } from "../Inference.ts"
import type { Engine } from "../Trainer/Engine.ts"
import type { GenerateResult, Running } from "../Trainer/Native.ts"
import type { NativeError } from "../Trainer/NativeError.ts"

/** @category model */
export interface Options {
  /** names the endpoint in errors; "policy" unless given */
  readonly name?: string | undefined
  /** version of the weights that the engine holds now; 0 unless given */
  readonly version?: number | undefined
  /** longest prompt plus completion; the model's positions unless given, and never more */
  readonly maxSequenceLength?: number | undefined
  /**
   * What running generations do when weights are adopted: "finish" on those that they began with (unless given), or "swap"
   * at their next token. Then what they yield depends on when the weights came, and no run repeats bit for bit.
   */
  readonly running?: Running | undefined
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

  const versionOf = (weightsVersion: number) => versions.get(weightsVersion) ?? initial
  const stretchesOf = ({ swaps, tokenIds, weightsVersion }: GenerateResult) => {
    const runs = [{ from: 0, weightsVersion }, ...swaps]
    return runs.map(({ from, weightsVersion }, i) => ({
      version: versionOf(weightsVersion),
      tokens: (runs[i + 1]?.from ?? tokenIds.length) - from
    }))
  }

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
              Effect.map((result) => ({
                tokenIds: result.tokenIds,
                logprobs: result.logprobs,
                finishReason: result.finishReason,
                policyVersion: versionOf(result.weightsVersion),
                ...(result.swaps.length === 0 ? {} : { stretches: stretchesOf(result) })
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
      engine.adopt(snapshot, options.running).pipe(
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
