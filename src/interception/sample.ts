/** One generation: whole, or read while it is drawn, up to the token that ends the turn. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import type { Generation, InferenceError, InferenceService, Sampling } from "../Inference.ts"
import * as Trace from "../Trace.ts"
import type { Delta } from "./Delta.ts"
import type { Reading } from "./Reading.ts"

/** The versions of the first tokens, where they are known one by one. */
const versionsOf = ({ policyVersion, stretches }: Generation, tokens: number) =>
  stretches === undefined ? { policyVersion } : { policyVersion, stretches: Trace.firstOf(stretches, tokens) }

/** What some providers send after the token that ends a turn is no part of it, in ids and log-probabilities alike. */
const upToStop = (generation: Generation, stopTokenIds: ReadonlyArray<number>): Generation => {
  const { logprobs, tokenIds } = generation
  const end = tokenIds.findIndex((id) => stopTokenIds.includes(id)) + 1
  // Streams of different lengths are refused when they are committed, never cut to fit.
  if (end === 0 || end === tokenIds.length || logprobs.length !== tokenIds.length) return generation
  const kept = { tokenIds: tokenIds.slice(0, end), logprobs: logprobs.slice(0, end) }
  return { ...generation, ...kept, ...versionsOf(generation, end) }
}

/** What is known of a turn once it is sampled. @category model */
export interface Sampled {
  readonly tokenIds: Int32Array
  readonly logprobs: Float32Array
  readonly finishReason: "stop" | "length"
  /** undefined where a stop text ended it before the engine said */
  readonly policyVersion: number | undefined
  /** where weights changed while it was sampled */
  readonly stretches?: Generation["stretches"]
  readonly stop: string | undefined
}

/** Feeds tokens to a reading, whoever brings them first: the engine while it draws, or the generation when it is whole. */
const follower = (reading: Reading, said: Options["said"]) => {
  const ids: Array<number> = []
  const logprobs: Array<number> = []
  return {
    hear: (tokenIds: Int32Array, of: Float32Array): string | undefined => {
      const deltas: Array<Delta> = []
      for (let at = 0; at < tokenIds.length && reading.stop() === undefined; at++) {
        ids.push(tokenIds[at]!)
        logprobs.push(of[at]!)
        deltas.push(...reading.push(tokenIds[at]!))
      }
      if (deltas.length > 0) said?.(deltas)
      return reading.stop()
    },
    count: () => ids.length,
    heard: (stop: string, generation?: Generation): Sampled => ({
      tokenIds: Int32Array.from(ids),
      logprobs: Float32Array.from(logprobs),
      finishReason: "stop",
      ...(generation === undefined ? { policyVersion: undefined } : versionsOf(generation, ids.length)),
      stop
    })
  }
}

/** @category model */
export interface Options {
  readonly sampling: Sampling
  /** without one nobody hears of the turn before it is whole, and no text ends it */
  readonly reading: Reading | undefined
  readonly said: ((deltas: ReadonlyArray<Delta>) => void) | undefined
}

/** @category sampling */
export const sample = (
  inference: InferenceService,
  promptIds: Int32Array,
  { reading, said, sampling }: Options
): Effect.Effect<Sampled, InferenceError> => {
  const whole = (generation: Generation): Sampled => ({
    ...upToStop(generation, sampling.stopTokenIds),
    stop: undefined
  })
  if (reading === undefined) return Effect.map(inference.generate(promptIds, sampling), whole)
  return Effect.suspend(() => {
    const { count, heard, hear } = follower(reading, said)
    const ended = Deferred.unsafeMake<string>(FiberId.none)
    const generated = inference
      .generate(promptIds, sampling, {
        onTokens: (tokenIds, logprobs) => {
          const stop = hear(tokenIds, logprobs)
          if (stop !== undefined) Deferred.unsafeDone(ended, Effect.succeed(stop))
        }
      })
      .pipe(
        Effect.map((generation) => {
          const stop = hear(generation.tokenIds.subarray(count()), generation.logprobs.subarray(count()))
          return stop === undefined ? whole(generation) : heard(stop, generation)
        })
      )
    return reading.canStop
      ? Effect.raceFirst(
          generated,
          Effect.map(Deferred.await(ended), (stop) => heard(stop))
        )
      : generated
  })
}
