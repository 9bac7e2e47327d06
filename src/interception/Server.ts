/**
 * The HTTP server under all rollouts, on Node's own: a request costs no router, no span and no fiber before it is a turn.
 *
 * The secret is looked at before the body is read, so that only an agent can make the server hold one. Its time limits are
 * its own: Node's would cut off what an agent's client is still waiting for.
 */
import { timingSafeEqual } from "node:crypto"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Runtime from "effect/Runtime"
import type * as Scope from "effect/Scope"
import { type ApiError, invalid } from "../wire/ApiError.ts"
import { ListenError } from "../wire/ListenError.ts"
import * as Answer from "./Answer.ts"
import * as InTurn from "./InTurn.ts"
import * as Models from "./Models.ts"
import type { OpenRollout } from "./OpenRollout.ts"
import { receive } from "./Receive.ts"
import * as Refusals from "./Refusals.ts"
import * as Routes from "./Routes.ts"

/** What one client may take, and for how long. @category model */
export interface Limits {
  /** most bytes of one request (64 MiB) */
  readonly maxBodyBytes: number
  /** time for the head of a request, which is before its secret is known (60 s) */
  readonly headMs: number
  /** time for a whole request (15 min) */
  readonly receiveMs: number
  /** how long a connection is kept that nothing is asked on: longer than clients keep theirs (15 min) */
  readonly keepAliveMs: number
  /** how often the connections are looked at (5 s) */
  readonly checkMs: number
  /** how often clients that wait hear that they are not forgotten (15 s) */
  readonly beatMs: number
}

/** @category defaults */
export const defaultLimits: Limits = {
  maxBodyBytes: 64 * 1024 * 1024,
  headMs: 60_000,
  receiveMs: 900_000,
  keepAliveMs: 900_000,
  checkMs: 5_000,
  beatMs: 15_000
}

/** @category model */
export interface Listening {
  /** of this machine, without a trailing slash */
  readonly url: string
  readonly rollouts: Map<string, OpenRollout>
}

/** Whether they are equal, in a time that tells nothing but how long the secret is. */
const isSecret = (given: string, secret: Buffer): boolean => {
  const bytes = Buffer.from(given)
  return bytes.length === secret.length && timingSafeEqual(bytes, secret)
}

/** Connections that wait to be taken: a step's rollouts begin at once, and Node's 511 would keep some waiting for seconds. */
const backlog = 4096

const listen = (server: Server, host: string, port: number): Effect.Effect<void, ListenError, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.async<void, ListenError>((resume) => {
      server.once("error", (error: NodeJS.ErrnoException) =>
        resume(Effect.fail(new ListenError({ host, port, code: error.code ?? String(error) })))
      )
      server.listen({ port, host, backlog }, () => resume(Effect.void))
    }),
    () =>
      Effect.async<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )

/** Listens until the scope closes. @category constructors */
export const make = (options: {
  readonly host: string
  readonly port: number
  readonly limits: Limits
}): Effect.Effect<Listening, ListenError, Scope.Scope> =>
  Effect.gen(function* () {
    const { host, limits, port } = options
    const clock = yield* Effect.clock
    const runtime = yield* Effect.runtime()
    const rollouts = new Map<string, OpenRollout>()
    const inTurn = InTurn.make()

    const opened = (id: string, key: string | undefined): OpenRollout | undefined => {
      const rollout = rollouts.get(id)
      return rollout !== undefined && key !== undefined && isSecret(key, rollout.secret) ? rollout : undefined
    }

    const answer = (request: IncomingMessage, response: ServerResponse): void => {
      const { headers, method, url = "" } = request
      const { dialect, path, rollout: id, route } = Routes.match(url, headers)
      const refuse = (error: ApiError) => Answer.refuse(response, dialect, error)
      const rollout = opened(id, Routes.keyOf(headers))
      if (rollout === undefined) refuse(Refusals.unauthorized)
      else if (route === undefined) refuse(invalid(`there is no ${path}`, { status: 404 }))
      else if (route.method !== method) {
        response.setHeader("allow", route.method)
        refuse(invalid(`${path} takes ${route.method}, not ${method}`, { status: 405 }))
      } else if (route._tag === "Models") {
        Answer.send(response, 200, Models.answer(rollout, { dialect, one: route.name !== "models" }))
      } else {
        receive(request, limits.maxBodyBytes, (body) =>
          inTurn(() =>
            guarded(response, () => {
              if (response.destroyed) return
              // It may have been closed while the body was on its way.
              if (rollouts.get(id) !== rollout) refuse(Refusals.unauthorized)
              else if (Either.isLeft(body)) refuse(body.left)
              else rollout.answer({ route, body: body.right, isRetry: Routes.isRetry(headers) }, response)
            })
          )
        )
      }
    }

    /** A defect ends one request, and not the process with all other rollouts. */
    const guarded = (response: ServerResponse, work: () => void): void =>
      Either.match(Either.try(work), {
        onRight: () => {},
        onLeft: (defect) => {
          Runtime.runFork(runtime, Effect.logError("a defect while answering a rollout", defect))
          Answer.send(response, 500, { error: { message: Refusals.defect.reason, type: Refusals.defect.type } })
        }
      })

    const server = createServer(
      {
        headersTimeout: limits.headMs,
        requestTimeout: limits.receiveMs,
        keepAliveTimeout: limits.keepAliveMs,
        connectionsCheckingInterval: limits.checkMs
      },
      (request, response) => guarded(response, () => answer(request, response))
    )
    server.timeout = 0
    yield* listen(server, host, port)
    yield* Effect.sleep(limits.beatMs).pipe(
      Effect.zipRight(
        Effect.sync(() => {
          for (const rollout of rollouts.values()) rollout.beat(clock.unsafeCurrentTimeMillis())
        })
      ),
      Effect.forever,
      Effect.forkScoped
    )
    const { port: taken } = server.address() as AddressInfo
    return { url: `http://${host.includes(":") ? `[${host}]` : host}:${taken}`, rollouts }
  })
