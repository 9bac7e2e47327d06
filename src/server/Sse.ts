/** Answers that arrive in pieces, as server-sent events. */
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type ApiError, json } from "../wire/ApiError.ts"
import * as Frame from "../wire/Sse.ts"

const encoder = new TextEncoder()
const event = (data: string) => encoder.encode(Frame.frame(data))

/**
 * One event for each value, then [DONE]. An error on the way is an event of its own, and nothing follows it: a client
 * that overlooks it still sees that the end is missing.
 *
 * @category responses
 */
export const response = <R>(
  events: Stream.Stream<unknown, ApiError, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, never, R> =>
  Effect.contextWith((context: Context.Context<R>) =>
    HttpServerResponse.stream(
      events.pipe(
        Stream.map((value) => event(JSON.stringify(value))),
        Stream.concat(Stream.succeed(event("[DONE]"))),
        Stream.catchAll((error) => Stream.succeed(event(JSON.stringify(json(error))))),
        Stream.provideContext(context)
      ),
      {
        contentType: "text/event-stream",
        headers: { "cache-control": "no-cache", "x-accel-buffering": "no" }
      }
    )
  )
