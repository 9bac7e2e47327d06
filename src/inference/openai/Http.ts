/**
 * One attempt at one server. Invariants: the time limit given here is the only one, since the HTTP client's own would cut
 * long generations short; a refusal is told before its body is read as an answer; the key is in no message.
 */

import * as Undici from "@effect/platform-node/Undici"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { inWords } from "../../internal/inWords.ts"
import * as Backoff from "./Backoff.ts"
import * as Deadlines from "./Deadlines.ts"
import * as ErrorWire from "./ErrorWire.ts"
import { Failure } from "./Failure.ts"

const connectTimeoutMs = 10_000

/** Connections that are kept, and the time limits of what is asked over them. @category model */
export interface Client {
  readonly agent: Undici.Agent
  readonly deadlines: Deadlines.Deadlines
}

/** Connections without time limits of their own, beside the one for opening them. @category constructors */
export const client: Effect.Effect<Client, never, Scope.Scope> = Effect.gen(function* () {
  const deadlines = yield* Deadlines.make
  const agent = yield* Effect.acquireRelease(
    Effect.sync(() => new Undici.Agent({ connect: { timeout: connectTimeoutMs } })),
    (agent) => Effect.promise(() => agent.destroy())
  )
  return { agent, deadlines }
})

/** A server, as what can be asked of it; answers are parsed JSON. @category model */
export interface Server {
  /** where its routes begin, without a trailing /v1, and without what names a user */
  readonly root: string
  readonly get: (path: string) => Effect.Effect<unknown, Failure>
  readonly post: (path: string, body: object) => Effect.Effect<unknown, Failure>
}

/** @category model */
export interface Options {
  readonly client: Client
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
const causeOf = (error: unknown): string =>
  Predicate.hasProperty(error, "code") && typeof error.code === "string" ? error.code : inWords(error)

interface Received {
  readonly status: number
  readonly retryAfter: string | undefined
  readonly text: string
}

/** No time is left, or the connection broke: within the answer where there is a status. */
type Broken = "late" | { readonly status: number | undefined; readonly cause: unknown }

/** One request on the agent's own callbacks: what lies between costs more than all else that is done for a request. */
const exchange = (
  { agent, deadlines }: Client,
  options: Undici.Dispatcher.DispatchOptions,
  timeoutMs: number
): Effect.Effect<Received, Broken> =>
  Effect.async((resume) => {
    let controller: Undici.Dispatcher.DispatchController | undefined
    let isGivenUp = false
    let status: number | undefined
    let retryAfter: string | undefined
    const parts: Array<Buffer> = []
    const giveUp = () => {
      isGivenUp = true
      controller?.abort(new Error("given up"))
    }
    const inTime = deadlines.after(timeoutMs, () => {
      resume(Effect.fail("late"))
      giveUp()
    })
    agent.dispatch(
      { ...options, headersTimeout: 0, bodyTimeout: 0 },
      {
        onRequestStart: (started) => {
          controller = started
          if (isGivenUp) started.abort(new Error("given up"))
        },
        onResponseStart: (_, code, headers) => {
          status = code
          const given = headers["retry-after"]
          retryAfter = typeof given === "string" ? given : given?.[0]
        },
        onResponseData: (_, part) => {
          parts.push(part)
        },
        onResponseEnd: () => {
          inTime()
          const text = (parts.length === 1 ? parts[0]! : Buffer.concat(parts)).toString()
          // a byte order mark is no part of JSON
          resume(Effect.succeed({ status: status!, retryAfter, text: text.replace(/^\ufeff/, "") }))
        },
        onResponseError: (_, cause) => {
          inTime()
          resume(Effect.fail({ status, cause }))
        }
      }
    )
    return Effect.sync(() => {
      inTime()
      giveUp()
    })
  })

/** @category constructors */
export const make = ({ baseUrl, client, key, timeoutMs }: Options): Server => {
  const root = rootOf(baseUrl)
  const secret = key === undefined ? "" : Redacted.value(key)
  const hidden = (text: string) => (secret === "" ? text : text.replaceAll(secret, "***"))

  const address = Either.try({ try: () => new URL(root), catch: inWords })

  const attempt = (method: "GET" | "POST", path: string, body?: object) => {
    const asked = `${method} ${root}${path}`
    const failed = (what: string, more?: Partial<Failure>) =>
      new Failure({ passing: true, ...more, what: hidden(`${asked}: ${what}`) })
    if (Either.isLeft(address)) return failed(`no connection (${address.left})`)
    const { origin, pathname } = address.right
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
    const received = exchange(
      client,
      {
        origin,
        path: `${pathname === "/" ? "" : pathname}${path}`,
        method,
        headers: {
          ...(secret === "" ? {} : { authorization: `Bearer ${secret}` }),
          ...(body === undefined ? {} : { "content-type": "application/json" })
        },
        body: body === undefined ? null : JSON.stringify(body)
      },
      timeoutMs
    )
    return Effect.matchEffect(received, {
      onFailure: (broken) => {
        if (broken === "late") return failed(`no answer within ${timeoutMs} ms`)
        const where = broken.status === undefined ? "no connection" : "the connection ended within the answer"
        return failed(`${where} (${causeOf(broken.cause)})`)
      },
      onSuccess: ({ retryAfter, status, text }) =>
        status >= 200 && status < 300
          ? Either.mapLeft(ErrorWire.parse(text), (what) => failed(what, { status }))
          : Effect.flatMap(Clock.currentTimeMillis, (now) =>
              refused(status, text, Backoff.retryAfterMs(retryAfter, now))
            )
    })
  }

  return {
    root,
    get: (path) => attempt("GET", path),
    post: (path, body) => attempt("POST", path, body)
  }
}
