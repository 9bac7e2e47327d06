/**
 * A policy without weights. The distribution of the next token is a function of the tokens before it, a draw is a
 * function of the prompt and the seed, and `score` gives a generated token the log-probability it was generated with.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import { Inference, InferenceError, type InferenceService, type Sampling } from "../Inference.ts"

/** What the policy knows, says, and how long it takes. @category model */
export interface Options {
  /** names the endpoint in errors; "mock" unless given */
  readonly name?: string | undefined
  /** ids are drawn from 0 up to here; 64 unless given */
  readonly vocabularySize?: number | undefined
  /** tells models apart: what is likely follows from it too; "" unless given */
  readonly salt?: string | undefined
  /** 4096 unless given */
  readonly maxSequenceLength?: number | undefined
  /** version that is stamped until the first `adopt`; 0 unless given */
  readonly version?: number | undefined
  /**
   * Scripts a completion; undefined leaves it to chance. It is cut to `maxTokens` and at the first stop token, and ended
   * with the request's first stop token when it has none and room is left.
   */
  readonly reply?: ((promptIds: Int32Array, sampling: Sampling) => ArrayLike<number> | undefined) | undefined
  /** how long a generation takes, by the clock; who hears of its tokens hears of them spread evenly over that time */
  readonly durationMs?: ((promptIds: Int32Array, sampling: Sampling) => number) | undefined
}

const mix = (a: number, b: number): number => {
  let h = Math.imul(a ^ (b + 0x9e3779b9), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

/** Log-probabilities of the next token after a context with this digest, at a temperature above 0. */
const logprobsAfter = (context: number, vocabularySize: number, temperature: number): Float64Array => {
  const logits = Float64Array.from(
    { length: vocabularySize },
    (_, id) => (mix(context, id) / 2 ** 31 - 1) / temperature
  )
  const top = logits.reduce((a, b) => Math.max(a, b))
  const total = logits.reduce((sum, logit) => sum + Math.exp(logit - top), 0)
  return logits.map((logit) => logit - top - Math.log(total))
}

const draw = (logprobs: Float64Array, u: number): number => {
  let sum = 0
  for (let id = 0; id < logprobs.length; id++) {
    sum += Math.exp(logprobs[id]!)
    if (sum > u) return id
  }
  return logprobs.length - 1
}

const greedy = (logprobs: Float64Array): number =>
  logprobs.reduce((best, logprob, id) => (logprob > logprobs[best]! ? id : best), 0)

/** What is said when nothing is scripted, or `undefined` after the script's end. */
const scripted = (script: ArrayLike<number>, sampling: Sampling, at: number): number | undefined =>
  at < script.length ? script[at]! : sampling.stopTokenIds[0]

/** Digest of a context before its first token. */
const begin = (salt: string): number => Array.from(salt, (letter) => letter.codePointAt(0)!).reduce(mix, 1)

const complete = (
  begun: number,
  promptIds: Int32Array,
  sampling: Sampling,
  vocabularySize: number,
  maxTokens: number,
  script: ArrayLike<number> | undefined
) => {
  const tokenIds: Array<number> = []
  const logprobs: Array<number> = []
  const stops = new Set(sampling.stopTokenIds)
  let context = promptIds.reduce(mix, begun)
  let finishReason: "stop" | "length" = "length"
  while (tokenIds.length < maxTokens) {
    const next = logprobsAfter(context, vocabularySize, sampling.temperature > 0 ? sampling.temperature : 1)
    const u = mix(mix(sampling.seed, context), promptIds.length + tokenIds.length) / 2 ** 32
    const chosen =
      script !== undefined
        ? scripted(script, sampling, tokenIds.length)
        : sampling.temperature > 0
          ? draw(next, u)
          : greedy(next)
    if (chosen === undefined) break
    tokenIds.push(chosen)
    logprobs.push(next[chosen] ?? Number.NEGATIVE_INFINITY)
    context = mix(context, chosen)
    if (stops.has(chosen)) {
      finishReason = "stop"
      break
    }
  }
  return { tokenIds: Int32Array.from(tokenIds), logprobs: Float32Array.from(logprobs), finishReason }
}

const outside = (tokenIds: ArrayLike<number>, vocabularySize: number): number =>
  Array.prototype.findIndex.call(tokenIds, (id: number) => !(id >= 0 && id < vocabularySize))

/** Filters (top-p, top-k, min-p) are not applied. @category constructors */
export const make = (options: Options = {}): Effect.Effect<InferenceService> =>
  Effect.gen(function* () {
    const endpoint = options.name ?? "mock"
    const begun = begin(options.salt ?? "")
    const vocabularySize = options.vocabularySize ?? 64
    const maxSequenceLength = options.maxSequenceLength ?? 4096
    const policyVersion = yield* Ref.make(options.version ?? 0)
    const fail = (reason: string, promptTooLong = false) =>
      new InferenceError({ endpoint, reason, ...(promptTooLong ? { promptTooLong } : {}) })
    const known = (what: string, tokenIds: ArrayLike<number>) => {
      const at = outside(tokenIds, vocabularySize)
      return at < 0
        ? Effect.void
        : Effect.fail(fail(`${what}[${at}] is ${tokenIds[at]}, outside the vocabulary of ${vocabularySize}`))
    }

    return {
      name: endpoint,
      maxSequenceLength,
      generate: (promptIds, sampling, { onTokens } = {}) =>
        Effect.gen(function* () {
          const room = maxSequenceLength - promptIds.length
          if (promptIds.length === 0) return yield* fail("promptIds is empty")
          if (room < 1) {
            return yield* fail(`${promptIds.length} tokens of prompt leave no room in ${maxSequenceLength}`, true)
          }
          yield* known("promptIds", promptIds)
          const script = options.reply?.(promptIds, sampling)
          if (script !== undefined) yield* known("reply", script)
          const version = yield* Ref.get(policyVersion)
          const durationMs = options.durationMs?.(promptIds, sampling) ?? 0
          const maxTokens = Math.min(room, sampling.maxTokens)
          const drawn = complete(begun, promptIds, sampling, vocabularySize, maxTokens, script)
          const { logprobs, tokenIds } = drawn
          if (onTokens === undefined) {
            if (durationMs > 0) yield* Effect.sleep(durationMs)
          } else {
            for (let at = 0; at < tokenIds.length; at++) {
              if (durationMs > 0) yield* Effect.sleep(durationMs / tokenIds.length)
              onTokens(tokenIds.slice(at, at + 1), logprobs.slice(at, at + 1))
            }
          }
          return { ...drawn, policyVersion: version }
        }),
      score: (tokenIds, temperature = 1) =>
        Effect.gen(function* () {
          yield* known("tokenIds", tokenIds)
          const logprobs = new Float32Array(tokenIds.length)
          let context = begun
          tokenIds.forEach((id, i) => {
            if (i > 0) logprobs[i] = logprobsAfter(context, vocabularySize, temperature > 0 ? temperature : 1)[id]!
            context = mix(context, id)
          })
          return logprobs
        }),
      adopt: ({ version }) => Ref.set(policyVersion, version)
    }
  })

/** The policy without weights, as the `Inference` of a test. @category layers */
export const layerMock = (options?: Options): Layer.Layer<Inference> => Layer.effect(Inference, make(options))
