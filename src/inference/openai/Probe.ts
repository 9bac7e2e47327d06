/**
 * What a server's answers can be trusted with, found out by a few tokens: which route gives token ids and
 * log-probabilities, and whether these are of the distribution at the temperature that was asked for. At a very high
 * temperature every token is equally likely, and all log-probabilities are the same; those of the untouched distribution
 * differ from token to token.
 */
import * as Effect from "effect/Effect"
import type { Sampling } from "../../Inference.ts"
import * as CompletionsRoute from "./CompletionsRoute.ts"
import { type Failure, isRouteMissing } from "./Failure.ts"
import * as GenerateRoute from "./GenerateRoute.ts"
import type { Server } from "./Http.ts"
import type { Route } from "./Route.ts"

/** Log-probabilities at the sampling temperature, at temperature 1 whatever was asked, or not to be told. @category model */
export type LogprobsMode = "processed" | "raw" | "unknown"

/** @category model */
export interface Found {
  readonly route: Route
  /** of sampled tokens */
  readonly logprobs: LogprobsMode
  /** whether given tokens are scored at another temperature than 1 when that is asked for */
  readonly scoresAtTemperature: boolean
}

const temperature = 1_000

/** Far more than the spread of a model's logits leaves at that temperature, far less than it is without. */
const tolerance = 0.1

const sampling = (temperature: number): Sampling => ({ temperature, maxTokens: 8, stopTokenIds: [], seed: 0 })

const sample = (server: Server, route: Route, model: string, promptIds: Int32Array, temperature: number) =>
  server
    .post(route.path, route.generation(model, promptIds, sampling(temperature)))
    .pipe(Effect.flatMap((answer) => route.readGeneration(answer, sampling(temperature))))

const isFlat = (logprobs: Float32Array): boolean => Math.max(...logprobs) - Math.min(...logprobs) < tolerance

const modeOf = (logprobs: Float32Array): LogprobsMode => {
  if (logprobs.length < 2) return "unknown"
  return isFlat(logprobs) ? "processed" : "raw"
}

const sampled = (server: Server, route: Route, { model, promptIds }: Options): Effect.Effect<LogprobsMode, Failure> =>
  sample(server, route, model, promptIds, temperature).pipe(
    Effect.map(({ logprobs }) => modeOf(logprobs)),
    // a server that refuses such a temperature still has to show that it gives ids and log-probabilities
    Effect.catchIf(
      ({ status }) => status === 400 || status === 422,
      () => Effect.as(sample(server, route, model, promptIds, 1), "unknown" as const)
    )
  )

/** A server that scores nothing at all may still be sampled from. */
const scored = (server: Server, route: Route, { model, promptIds }: Options): Effect.Effect<boolean, Failure> =>
  server.post(route.path, route.score(model, promptIds, temperature)).pipe(
    Effect.flatMap((answer) => route.readScore(answer, promptIds)),
    Effect.map((logprobs) => isFlat(logprobs.subarray(1))),
    Effect.catchIf(
      ({ passing }) => !passing,
      () => Effect.succeed(false)
    )
  )

const through = (server: Server, route: Route, options: Options): Effect.Effect<Found, Failure> =>
  Effect.gen(function* () {
    const logprobs = yield* sampled(server, route, options)
    return { route, logprobs, scoresAtTemperature: yield* scored(server, route, options) }
  })

/** @category model */
export interface Options {
  readonly model: string
  readonly promptIds: Int32Array
}

/** Prefers the route of token ids; where it is missing, completions. @category requests */
export const run = (server: Server, options: Options): Effect.Effect<Found, Failure> =>
  Effect.catchIf(through(server, GenerateRoute.route, options), isRouteMissing, () =>
    through(server, CompletionsRoute.route, options)
  )
