/** One client's answer while it is made: all at once, or event by event. It ends exactly once, whoever ends it. */
import type { ServerResponse } from "node:http"
import type { Completion } from "../Session.ts"
import type { ApiError } from "../wire/ApiError.ts"
import * as Sse from "../wire/Sse.ts"
import type { Delta } from "./Delta.ts"
import type { Ask, Dialect, Identity } from "./Dialect.ts"
import type { Part } from "./Said.ts"

/** @category model */
export interface Answer {
  readonly begin: (promptTokens: number) => void
  readonly said: (deltas: ReadonlyArray<Delta>) => void
  readonly end: (said: ReadonlyArray<Part>, completion: Completion) => void
  readonly fail: (error: ApiError) => void
  /** Shows that it is being worked on, to clients and proxies that give up on a connection that is silent. */
  readonly beat: (nowMs: number) => void
}

/** Sends a JSON body. @category responses */
export const send = (response: ServerResponse, status: number, body: object): void => {
  if (response.destroyed) return
  // A text goes out in one piece with its head, which bytes would not.
  const text = JSON.stringify(body)
  // What was begun with blanks has no status any more.
  if (!response.headersSent) {
    response.writeHead(status, {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(text),
      ...(status === 401 ? { "www-authenticate": "Bearer" } : {})
    })
  }
  response.end(text)
}

/** An error in the envelope of the dialect. @category responses */
export const refuse = (response: ServerResponse, dialect: Dialect, error: ApiError): void =>
  send(response, error.status, dialect.error(error))

/** A silence that HTTP clients bear: the shortest limit of a common one is 300 s. */
const quietMs = 240_000

const whole = (
  response: ServerResponse,
  dialect: Dialect,
  ask: Ask,
  options: { readonly identity: Identity; readonly startedMs: number }
): Answer => ({
  begin: () => {},
  said: () => {},
  end: (said, completion) => send(response, 200, ask.whole(options.identity, said, completion)),
  // A success that was promised cannot be taken back; a connection that breaks is asked for again.
  fail: (error) => (response.headersSent ? response.destroy() : refuse(response, dialect, error)),
  beat: (nowMs) => {
    if (nowMs - options.startedMs < quietMs) return
    if (!response.headersSent) response.writeHead(200, { "content-type": "application/json" })
    // JSON may begin with blanks.
    response.write(" ")
  }
})

const streamed = (response: ServerResponse, dialect: Dialect, ask: Ask, identity: Identity): Answer => {
  const writer = ask.writer(identity)
  const write = (events: string) => {
    if (events !== "" && !response.destroyed) response.write(events)
  }
  const open = () => {
    if (response.headersSent || response.destroyed) return
    response.writeHead(200, {
      "content-type": "text/event-stream",
      "cache-control": "no-cache",
      "x-accel-buffering": "no"
    })
  }
  return {
    begin: (promptTokens) => {
      open()
      write(writer.begin(promptTokens))
    },
    said: (deltas) => write(writer.said(deltas)),
    end: (_, completion) => {
      if (!response.destroyed) response.end(writer.end(completion))
    },
    fail: (error) => {
      if (!response.headersSent) refuse(response, dialect, error)
      else if (!response.destroyed) response.end(writer.fail(error))
    },
    beat: () => {
      open()
      write(Sse.comment("the model is at work"))
    }
  }
}

/** @category constructors */
export const make = (
  response: ServerResponse,
  dialect: Dialect,
  ask: Ask,
  options: { readonly identity: Identity; readonly startedMs: number }
): Answer => (ask.stream ? streamed(response, dialect, ask, options.identity) : whole(response, dialect, ask, options))
