/** Work on the engine in the server's terms: it takes a place, and what the engine cannot do is an answer. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Engine } from "../Trainer/Engine.ts"
import type { GenerateRequest } from "../Trainer/Native.ts"
import type { NativeError } from "../Trainer/NativeError.ts"
import { type ApiError, internal } from "./ApiError.ts"
import * as Choice from "./Choice.ts"
import { Gate } from "./Gate.ts"

const failed = (error: NativeError): ApiError => internal(`the engine failed: ${error.reason}`)

/** A log-probability that is no number has no form in JSON, and must not be read as any other. */
const finite = (logprobs: Float32Array): Effect.Effect<void, ApiError> => {
  const at = logprobs.findIndex((logprob) => !Number.isFinite(logprob))
  return at < 0
    ? Effect.void
    : Effect.fail(internal(`the engine gave ${logprobs[at]} as a log-probability; the weights may be broken`))
}

/**
 * The parts of one choice as they are sampled; ends with the part that has `finish`. Interruption stops the engine.
 *
 * @category running
 */
export const choice = (
  engine: Engine,
  request: GenerateRequest,
  options: Omit<Choice.Options, "maxTokens">
): Stream.Stream<Choice.Part, ApiError, Gate> =>
  request.maxTokens < 1
    ? Stream.succeed(Choice.empty)
    : Stream.unwrapScoped(
        Effect.gen(function* () {
          const gate = yield* Gate
          yield* gate.place
          const { push } = Choice.make({ ...options, maxTokens: request.maxTokens })
          return engine.stream(request).pipe(
            Stream.mapError(failed),
            Stream.mapEffect((sampled) =>
              sampled._tag === "End"
                ? internal("the engine stopped before the end of the choice")
                : Effect.map(finite(sampled.logprobs), () => push(sampled.tokenIds, sampled.logprobs))
            ),
            Stream.takeUntil(({ finish }) => finish !== undefined)
          )
        })
      )

/** Log-probability of each token after those before it; the first has none. @category running */
export const score = (
  engine: Engine,
  tokenIds: Int32Array,
  temperature: number
): Effect.Effect<Float32Array, ApiError, Gate> =>
  Effect.scoped(
    Effect.gen(function* () {
      const gate = yield* Gate
      yield* gate.place
      const temperatures = new Float32Array(tokenIds.length).fill(temperature)
      const { logprobs } = yield* Effect.mapError(
        engine.score(tokenIds, Int32Array.of(tokenIds.length), temperatures),
        failed
      )
      yield* finite(logprobs)
      return logprobs
    })
  )
