/**
 * The one counter that all dispatch draws on. Invariant: a permit is either free or held by someone who will give it
 * back, whenever an interruption lands; waiting is first come, first served, and everyone who waits is known by name.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** Someone who waits for permits. @category model */
export interface Waiting {
  readonly who: string
  readonly count: number
}

/** A counter of permits, with who holds up whom. @category model */
export interface PermitsService {
  /**
   * Runs an effect while it holds `count` permits (1 unless told). Who asks for more than there are runs alone with all
   * of them.
   */
  readonly withPermits: (
    who: string,
    count?: number
  ) => <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  readonly limit: Effect.Effect<number>
  readonly held: Effect.Effect<number>
  /** In the order in which they will be served. */
  readonly waiting: Effect.Effect<ReadonlyArray<Waiting>>
  /** Changes the limit. What is held stays held: a lower limit takes hold as permits come back. */
  readonly resize: (limit: number) => Effect.Effect<void>
}

/** How many rollouts may run at the same time. @category tags */
export class Permits extends Context.Tag("primerl/Permits")<Permits, PermitsService>() {}

interface Request extends Waiting {
  /** permits given to this request; undefined while it waits */
  given: number | undefined
  resume: (() => void) | undefined
}

/** A counter of `limit` permits, at least 1. @category constructors */
export const make = (limit: number): PermitsService => {
  let size = atLeastOne(limit)
  let held = 0
  const queue = new Set<Request>()

  /** Serves those in front as far as the permits go. A grant is booked here, before the waiting fiber hears of it. */
  const serve = () => {
    for (const request of queue) {
      const count = Math.min(request.count, size)
      if (held + count > size) return
      queue.delete(request)
      held += count
      request.given = count
      request.resume?.()
    }
  }
  const giveBack = (request: Request) => {
    queue.delete(request)
    held -= request.given ?? 0
    request.given = undefined
    serve()
  }
  const granted = (request: Request) =>
    Effect.async<void>((resume) => {
      if (request.given === undefined) request.resume = () => resume(Effect.void)
      else resume(Effect.void)
    })
  return Permits.of({
    withPermits:
      (who, count = 1) =>
      (effect) =>
        Effect.acquireUseRelease(
          Effect.sync(() => {
            const request: Request = { who, count: atLeastOne(count), given: undefined, resume: undefined }
            queue.add(request)
            serve()
            return request
          }),
          (request) => (request.given === undefined ? Effect.zipRight(granted(request), effect) : effect),
          (request) => Effect.sync(() => giveBack(request))
        ),
    limit: Effect.sync(() => size),
    held: Effect.sync(() => held),
    waiting: Effect.sync(() => Array.from(queue, ({ count, who }) => ({ who, count }))),
    resize: (limit) =>
      Effect.sync(() => {
        size = atLeastOne(limit)
        serve()
      })
  })
}

const atLeastOne = (count: number): number => (count >= 1 ? Math.floor(count) : 1)

/** One counter for everything that is built on this layer. @category layers */
export const layer = (limit: number): Layer.Layer<Permits> => Layer.sync(Permits, () => make(limit))
