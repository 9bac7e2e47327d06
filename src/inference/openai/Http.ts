/**
 * One attempt at one server. Invariants: the time limit given here is the only one, since the HTTP client's own would cut
 * long generations short; a refusal is told before its body is read as an answer; the key is in no message.
 */

import * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Undici from "@effect/platform-node/Undici"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { inWords } from "../../internal/inWords.ts"
import * as Backoff from "./Backoff.ts"
import * as ErrorWire from "./ErrorWire.ts"
import { Failure } from "./Failure.ts"

const connectTimeoutMs = 10_000

/** Connections without time limits of their own, beside the one for opening them. @category constructors */
export const client: Effect.Effect<HttpClient.HttpClient, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => new Undici.Agent({ connect: { timeout: connectTimeoutMs } })),
    (agent) => Effect.promise(() => agent.destroy())
  ),
  (agent) => {
    const unlimited = agent.compose(
      (dispatch) => (options, handler) => dispatch({ ...options, headersTimeout: 0, bodyTimeout: 0 }, handler)
    )
    return HttpClient.withTracerPropagation(NodeHttpClient.makeUndici(unlimited), false)
  }
)

/** A server, as what can be asked of it; answers are parsed JSON. @category model */
export interface Server {
  /** where its routes begin, without a trailing /v1, and without what names a user */
  readonly root: string
  readonly get: (path: string) => Effect.Effect<unknown, Failure>
  readonly post: (path: string, body: object) => Effect.Effect<unknown, Failure>
}

/** @category model */
export interface Options {
  readonly client: HttpClient.HttpClient
  readonly baseUrl: string
  readonly key: Redacted.Redacted | undefined
  /** of one attempt */
  readonly timeoutMs: number
}

const rootOf = (baseUrl: string) =>
  baseUrl
    .replace(/^(https?:\/\/)[^/@]*@/, "$1")
    .replace(/\/+$/, "")
    .replace(/\/v1$/, "")

/** The code of a failed connection, or what the error says. */
const causeOf = (error: HttpClientError.HttpClientError): string => {
  const { cause } = error
  if (Predicate.hasProperty(cause, "code") && typeof cause.code === "string") return cause.code
  return inWords(cause ?? error)
}

/** @category constructors */
export const make = ({ baseUrl, client, key, timeoutMs }: Options): Server => {
  const root = rootOf(baseUrl)
  const secret = key === undefined ? "" : Redacted.value(key)
  const hidden = (text: string) => (secret === "" ? text : text.replaceAll(secret, "***"))

  const attempt = (request: HttpClientRequest.HttpClientRequest, path: string) => {
    const asked = `${request.method} ${root}${path}`
    const failed = (what: string, more?: Partial<Failure>) =>
      new Failure({ passing: true, ...more, what: hidden(`${asked}: ${what}`) })
    const authorized = key === undefined ? request : HttpClientRequest.bearerToken(request, key)
    const refused = (status: number, body: string, retryAfterMs: number | undefined) => {
      const words = ErrorWire.wordsOf(body)
      const what = `status ${status}${words === "" ? "" : `: ${words}`}`
      const passing = status === 408 || status === 429 || (status >= 500 && status !== 501)
      if (passing && retryAfterMs !== undefined && retryAfterMs > timeoutMs) {
        const wait = `it asks to wait ${Math.ceil(retryAfterMs / 1_000)} s, longer than timeout_ms`
        return failed(`${what}; ${wait}`, { passing: false, status })
      }
      const promptTooLong = ErrorWire.saysPromptTooLong(status, body) ? true : undefined
      return failed(what, { passing, status, retryAfterMs, promptTooLong })
    }
    return client.execute(authorized).pipe(
      Effect.mapError((error) => failed(`no connection (${causeOf(error)})`)),
      Effect.flatMap((response) =>
        Effect.map(
          Effect.mapError(response.text, (error) =>
            failed(`the connection ended within the answer (${causeOf(error)})`)
          ),
          (text) => ({ status: response.status, retryAfter: response.headers["retry-after"], text })
        )
      ),
      Effect.timeoutFail({ duration: timeoutMs, onTimeout: () => failed(`no answer within ${timeoutMs} ms`) }),
      Effect.flatMap(({ retryAfter, status, text }) =>
        status >= 200 && status < 300
          ? Either.mapLeft(ErrorWire.parse(text), (what) => failed(what, { status }))
          : Effect.flatMap(Clock.currentTimeMillis, (now) =>
              refused(status, text, Backoff.retryAfterMs(retryAfter, now))
            )
      )
    )
  }

  return {
    root,
    get: (path) => attempt(HttpClientRequest.get(`${root}${path}`), path),
    post: (path, body) =>
      attempt(HttpClientRequest.post(`${root}${path}`).pipe(HttpClientRequest.bodyUnsafeJson(body)), path)
  }
}
