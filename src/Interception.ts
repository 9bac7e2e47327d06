/**
 * The endpoint that an agent talks to instead of a provider. One server for many rollouts: each has its own base URL and
 * secret, and what is asked there becomes turns of its session, token by token as they were sampled.
 *
 * An agent needs a base URL and a key, nothing else; it may speak OpenAI's chat completions, OpenAI's Responses or
 * Anthropic's messages. Whatever model and sampling it asks for, it gets the run's.
 */
import * as Crypto from "node:crypto"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as RcRef from "effect/RcRef"
import * as Scope from "effect/Scope"
import * as OpenRollout from "./interception/OpenRollout.ts"
import * as Server from "./interception/Server.ts"
import type { Session } from "./Session.ts"
import type { ListenError } from "./wire/ListenError.ts"

/** Where one rollout's model is. @category model */
export interface Endpoint {
  /** ends with `/v1`; clients that append it themselves may take it as it is */
  readonly baseUrl: string
  /** the API key */
  readonly secret: string
  /** the name of the model that answers, whichever is asked for */
  readonly model: string
}

/** Where the server listens, and what its clients may take. @category model */
export interface Options {
  /** 127.0.0.1 unless given: this machine alone */
  readonly host?: string | undefined
  /** 0 unless given: a free one */
  readonly port?: number | undefined
  /** how agents reach the server, if not by where it listens: through a tunnel or from a container */
  readonly url?: string | undefined
  readonly limits?: Partial<Server.Limits> | undefined
}

/** Opens rollouts to their agents. @category model */
export interface InterceptionService {
  /**
   * An address and a secret for one rollout, which both mean nothing once the scope closes: turns that run then are given
   * up, and nothing of them is kept.
   */
  readonly open: (options: {
    readonly session: Session
    /** what the model is called in answers; the policy's own name unless given */
    readonly model?: string | undefined
  }) => Effect.Effect<Endpoint, never, Scope.Scope>
}

/** The server that agents talk to. @category tags */
export class Interception extends Context.Tag("primerl/Interception")<Interception, InterceptionService>() {}

/** Unguessable, and nothing that a run repeats: no secret gets into a trace. */
const random = (bytes: number): Effect.Effect<string> => Effect.sync(() => Crypto.randomBytes(bytes).toString("hex"))

/** Listens until the scope closes. @category constructors */
export const make = (options: Options = {}): Effect.Effect<InterceptionService, ListenError, Scope.Scope> =>
  Effect.gen(function* () {
    const { host = "127.0.0.1", port = 0 } = options
    const { rollouts, url } = yield* Server.make({ host, port, limits: { ...Server.defaultLimits, ...options.limits } })
    const root = (options.url ?? url).replace(/\/+$/, "")
    return {
      open: ({ model, session }) =>
        Effect.gen(function* () {
          const id = yield* random(8)
          const secret = yield* random(32)
          const rollout = yield* OpenRollout.make({
            id,
            secret: Buffer.from(secret),
            session,
            model: model ?? session.name
          })
          yield* Effect.acquireRelease(
            Effect.sync(() => rollouts.set(id, rollout)),
            () => Effect.sync(() => rollouts.delete(id))
          )
          return { baseUrl: `${root}/${id}/v1`, secret, model: rollout.model }
        })
    }
  })

/** The server, for as long as the program runs. @category layers */
export const layer = (options?: Options): Layer.Layer<Interception, ListenError> =>
  Layer.scoped(Interception, make(options))

/**
 * A server that listens while somebody has it: from the first who asks to the last scope that closes. The outer effect
 * makes it, the inner one has it.
 *
 * @category constructors
 */
export const shared = (
  options?: Options
): Effect.Effect<Effect.Effect<InterceptionService, ListenError, Scope.Scope>> =>
  Effect.gen(function* () {
    // Nothing is held without a user, so that there is nothing for a scope of its own to release.
    const scope = yield* Scope.make()
    return RcRef.get(yield* Scope.extend(RcRef.make({ acquire: make(options) }), scope))
  })
