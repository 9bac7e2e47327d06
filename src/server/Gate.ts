/** Lets work to the engines: so much at a time, so much that waits, and nothing new while the server is paused. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import type * as Scope from "effect/Scope"
import { ApiError } from "./ApiError.ts"

/** @category model */
export interface Limits {
  /** generations and scorings that run at the same time */
  readonly running: number
  /** requests that are in the server, waiting ones included; more are refused */
  readonly requests: number
}

/** @category defaults */
export const defaults: Limits = { running: 256, requests: 4096 }

/** @category model */
export interface GateService {
  /** Takes a request in for as long as its scope is open, or refuses it. */
  readonly admit: Effect.Effect<void, ApiError, Scope.Scope>
  /** Waits for one of the places in which engines are used, and holds it until the scope closes. */
  readonly place: Effect.Effect<void, never, Scope.Scope>
  readonly pause: Effect.Effect<void>
  readonly resume: Effect.Effect<void>
  /** requests that are in the server now */
  readonly load: Effect.Effect<number>
}

/** @category tags */
export class Gate extends Context.Tag("primerl/server/Gate")<Gate, GateService>() {}

const overloaded = (requests: number) =>
  new ApiError({
    status: 503,
    type: "overloaded_error",
    reason: `the server has ${requests} requests, which is all that it takes; try again in a while`
  })

/** @category constructors */
export const make = ({ requests, running }: Limits): Effect.Effect<GateService> =>
  Effect.gen(function* () {
    const count = yield* Ref.make(0)
    const places = yield* Effect.makeSemaphore(running)
    const open = yield* Effect.makeLatch(true)
    const admitted = Effect.flatten(
      Ref.modify(count, (now): readonly [Effect.Effect<void, ApiError>, number] =>
        now < requests ? [Effect.void, now + 1] : [Effect.fail(overloaded(requests)), now]
      )
    )
    return {
      admit: Effect.acquireRelease(admitted, () => Ref.update(count, (now) => now - 1)),
      place: Effect.zipRight(
        open.await,
        Effect.acquireReleaseInterruptible(places.take(1), () => places.release(1))
      ),
      pause: Effect.asVoid(open.close),
      resume: Effect.asVoid(open.open),
      load: Ref.get(count)
    }
  })

/** @category layers */
export const layer = (limits: Partial<Limits> = {}): Layer.Layer<Gate> =>
  Layer.effect(Gate, make({ ...defaults, ...limits }))
