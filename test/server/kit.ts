/** A server on a free port with the small policy of the examples, and plain requests to it. */
import { fileURLToPath } from "node:url"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Serve from "../../src/server/Serve.ts"
import * as Engine from "../../src/Trainer/Engine.ts"

export const policy = fileURLToPath(new URL("../../examples/reverse-text/policy", import.meta.url))
export const adminKey = "the admin's key"
export const asAdmin = { authorization: `Bearer ${adminKey}` }

export interface Reply {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: answers are judged by their content
  readonly body: any
}

const init = (body: unknown, headers: Readonly<Record<string, string>>): RequestInit =>
  body === undefined
    ? { headers }
    : { method: "POST", headers, body: typeof body === "string" ? body : JSON.stringify(body) }

export const requests = (url: string) => {
  const call = (path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}): Effect.Effect<Reply> =>
    Effect.promise(async (signal) => {
      const response = await fetch(`${url}${path}`, { ...init(body, headers), signal })
      return { status: response.status, headers: response.headers, body: await response.json() }
    })
  /** The data of every event, the last of which is "[DONE]" when the answer is whole. */
  const events = (path: string, body: object): Effect.Effect<ReadonlyArray<Reply["body"]>> =>
    Effect.promise(async (signal) => {
      const response = await fetch(`${url}${path}`, { ...init({ ...body, stream: true }, {}), signal })
      expectEvents(response)
      return eventsOf(await response.text())
    })
  return { url, call, events }
}

const expectEvents = (response: Response) => {
  if (response.headers.get("content-type") !== "text/event-stream") throw new Error(`no events: ${response.status}`)
}

export const eventsOf = (text: string): ReadonlyArray<Reply["body"]> =>
  text
    .split("\n\n")
    .filter((event) => event !== "")
    .map((event) => event.replace(/^data: /, ""))
    .map((data) => (data === "[DONE]" ? data : JSON.parse(data)))

/** Starts a server that lives as long as the scope. */
export const serve = (options: Partial<Serve.Options> = {}) =>
  Effect.map(
    Serve.start({ model: policy, port: 0, threads: 1, adminKey: Redacted.make(adminKey), ...options }),
    (listening) => ({ ...listening, ...requests(listening.url) })
  )

/** A copy of the policy whose weights and settings are changed. */
export const changed = (options: {
  readonly config?: object
  readonly weights?: (engine: Engine.Engine) => Effect.Effect<void, unknown>
}) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped()
    yield* Effect.scoped(
      Effect.gen(function* () {
        const engine = yield* Engine.open(policy, { threads: 1, trainable: false })
        yield* options.weights?.(engine) ?? Effect.void
        yield* engine.save(directory)
      })
    )
    const config = JSON.parse(yield* fs.readFileString(`${policy}/config.json`))
    yield* fs.writeFileString(`${directory}/config.json`, JSON.stringify({ ...config, ...options.config }))
    return directory
  })

/** Ids with the special tokens of the policy's format. */
export const ids = (text: string) => Array.from(new TextEncoder().encode(text))
