/**
 * The one place where stages start fibers. A step sees a chunk of input and says what to emit now and which effects to
 * run; each effect is a fiber in the stream's scope, and what it returns is emitted when it is done. Invariant: nothing
 * is emitted twice, nothing is lost in silence, and no fiber outlives the stream. `Stream.mapEffect` does this at a
 * tenth of the speed and cannot leave a fiber waiting for later input.
 */
import type * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Mailbox from "effect/Mailbox"
import * as Stream from "effect/Stream"

/** Work of a stage: an effect becomes a fiber, a function is called in its turn to wake the fiber of an earlier step. */
export type Work<A> = Effect.Effect<ReadonlyArray<A>> | (() => void)

/** What one chunk of input asks for. Work begins in the order given, whatever chunks the input came in. */
export interface Step<A> {
  readonly now: ReadonlyArray<A>
  readonly later: ReadonlyArray<Work<A>>
}

export interface Options {
  /** results that may wait for the consumer before input is no longer pulled */
  readonly buffer: number
  /** fibers that may run before input is no longer pulled; never bounded where a fiber waits for later input */
  readonly running?: number | undefined
  /** called when the input has ended: wakes what would otherwise wait for ever */
  readonly onEnd?: (() => void) | undefined
  readonly onFibers?: ((count: number) => void) | undefined
}

/** Runs a step over every chunk of a stream; a fiber that dies or is interrupted from outside fails the stream. */
export const drive =
  <In, A>(step: (chunk: Chunk.Chunk<In>) => Step<A>, options: Options) =>
  <E, R>(self: Stream.Stream<In, E, R>): Stream.Stream<A, E, R> =>
    Stream.unwrapScoped(
      Effect.gen(function* () {
        const { buffer, onEnd, onFibers, running = Number.POSITIVE_INFINITY } = options
        const scope = yield* Effect.scope
        const out = yield* Mailbox.make<A, E>()
        const fibers = new Set<Fiber.RuntimeFiber<void>>()
        let queued = 0

        // only the feeding fiber ever waits, so one waiter is enough
        let waiter: { readonly until: () => boolean; readonly resume: () => void } | undefined
        const wait = (until: () => boolean) =>
          Effect.async<void>((resume) => {
            if (until()) resume(Effect.void)
            else waiter = { until, resume: () => resume(Effect.void) }
          })
        const moved = () => {
          if (waiter?.until() !== true) return
          const { resume } = waiter
          waiter = undefined
          resume()
        }

        const emit = (items: ReadonlyArray<A>) => {
          queued += items.length
          for (const item of items) out.unsafeOffer(item)
        }
        const ended = (fiber: Fiber.RuntimeFiber<void>) => (exit: Exit.Exit<void>) => {
          fibers.delete(fiber)
          onFibers?.(fibers.size)
          if (Exit.isFailure(exit)) out.unsafeDone(exit)
          moved()
        }
        const feed = (chunk: Chunk.Chunk<In>) =>
          Effect.gen(function* () {
            const { later, now } = step(chunk)
            emit(now)
            for (const work of later) {
              if (typeof work === "function") {
                work()
                continue
              }
              if (fibers.size >= running) yield* wait(() => fibers.size < running)
              const fiber = yield* Effect.forkIn(Effect.map(work, emit), scope)
              fibers.add(fiber)
              fiber.addObserver(ended(fiber))
            }
            onFibers?.(fibers.size)
            // lets what was started or woken run up to its first wait before more input can start or wake others
            if (later.length > 0) yield* Effect.yieldNow()
            if (queued > buffer) yield* wait(() => queued <= buffer)
          })

        yield* Stream.runForEachChunk(self, feed).pipe(
          Effect.zipRight(
            Effect.suspend(() => {
              onEnd?.()
              return wait(() => fibers.size === 0)
            })
          ),
          (feeding) => Mailbox.into(feeding, out),
          Effect.forkIn(scope)
        )
        return Stream.mapChunks(Mailbox.toStream(out), (chunk) => {
          queued -= chunk.length
          moved()
          return chunk
        })
      })
    )
