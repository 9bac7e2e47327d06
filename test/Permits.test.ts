import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Random } from "effect"
import * as FastCheck from "effect/FastCheck"
import * as Permits from "../src/Permits.ts"

/** Lets every fiber that can go on do so. */
const settle = Effect.repeatN(Effect.yieldNow(), 50)

describe("Permits", () => {
  it.effect("LEAK-03: interruptions at any point while acquiring lose no permit", () =>
    Effect.gen(function* () {
      const permits = Permits.make(4)
      for (let round = 0; round < 100; round++) {
        const fibers = yield* Effect.forEach(
          Array.from({ length: 10 }, (_, i) => i),
          (i) => Effect.fork(permits.withPermits(`rollout ${round}/${i}`)(Effect.repeatN(Effect.yieldNow(), i % 3)))
        )
        const yields = yield* Random.nextIntBetween(0, 6)
        for (const fiber of fibers) {
          yield* Effect.repeatN(Effect.yieldNow(), yields)
          yield* Fiber.interruptFork(fiber)
        }
        yield* Effect.forEach(fibers, Fiber.await)
      }
      assert.strictEqual(yield* permits.held, 0)
      assert.deepStrictEqual(yield* permits.waiting, [])
      const four = yield* Effect.forEach([1, 2, 3, 4], () => permits.withPermits("after")(Effect.succeed("done")), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(four, Array(4).fill("done"))
    })
  )

  it.effect("a permit that is granted at the moment of interruption comes back", () =>
    Effect.gen(function* () {
      const permits = Permits.make(1)
      const gate = yield* Deferred.make<void>()
      const holder = yield* Effect.fork(permits.withPermits("holder")(Deferred.await(gate)))
      const waiter = yield* Effect.fork(permits.withPermits("waiter")(Effect.never))
      yield* settle
      assert.deepStrictEqual(yield* permits.waiting, [{ who: "waiter", count: 1 }])
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.interruptFork(waiter)
      yield* Fiber.await(waiter)
      yield* Fiber.join(holder)
      assert.strictEqual(yield* permits.held, 0)
    })
  )

  it.effect("never more than the limit are held, and whoever fails gives back", () =>
    Effect.gen(function* () {
      const permits = Permits.make(3)
      let most = 0
      const work = (i: number) =>
        permits.withPermits(`${i}`)(
          Effect.gen(function* () {
            most = Math.max(most, yield* permits.held)
            yield* Effect.yieldNow()
            return yield* i % 2 === 0 ? Effect.fail("broken") : Effect.void
          })
        )
      yield* Effect.forEach(
        Array.from({ length: 40 }, (_, i) => i),
        (i) => Effect.exit(work(i)),
        {
          concurrency: "unbounded"
        }
      )
      assert.strictEqual(most, 3)
      assert.strictEqual(yield* permits.held, 0)
    })
  )

  it.effect("first come, first served: who asks for many is not overtaken by who asks for one", () =>
    Effect.gen(function* () {
      const permits = Permits.make(2)
      const order: Array<string> = []
      const gate = yield* Deferred.make<void>()
      const holder = yield* Effect.fork(permits.withPermits("holder")(Deferred.await(gate)))
      const ask = (who: string, count: number) =>
        Effect.fork(permits.withPermits(who, count)(Effect.sync(() => order.push(who))))
      const both = yield* ask("both", 2)
      const one = yield* ask("one", 1)
      yield* settle
      assert.deepStrictEqual(order, [])
      yield* Deferred.succeed(gate, undefined)
      yield* Effect.forEach([holder, both, one], (fiber) => Fiber.await<unknown, never>(fiber))
      assert.deepStrictEqual(order, ["both", "one"])
    })
  )

  it.effect("who asks for more than there are runs alone, and does not wait for ever", () =>
    Effect.gen(function* () {
      const permits = Permits.make(2)
      assert.strictEqual(yield* permits.withPermits("group of 8", 8)(permits.held), 2)
      assert.strictEqual(yield* permits.held, 0)
    })
  )

  it.effect("a changed limit takes hold at once upward, and as permits come back downward", () =>
    Effect.gen(function* () {
      const permits = Permits.make(1)
      const gates = yield* Effect.forEach([0, 1, 2], () => Deferred.make<void>())
      const fibers = yield* Effect.forEach(gates, (gate, i) =>
        Effect.fork(permits.withPermits(`${i}`)(Deferred.await(gate)))
      )
      yield* settle
      assert.strictEqual(yield* permits.held, 1)
      yield* permits.resize(2)
      assert.strictEqual(yield* permits.held, 2)
      yield* permits.resize(1)
      yield* Deferred.succeed(gates[0]!, undefined)
      yield* Fiber.join(fibers[0]!)
      assert.strictEqual(yield* permits.held, 1)
      assert.deepStrictEqual(yield* permits.waiting, [{ who: "2", count: 1 }])
      yield* Effect.forEach(gates, (gate) => Deferred.succeed(gate, undefined))
      yield* Fiber.join(Fiber.all(fibers))
      assert.strictEqual(yield* permits.held, 0)
    })
  )

  it.effect("whatever is asked for in whatever order, everyone is served and all comes back", () =>
    Effect.promise(() =>
      FastCheck.assert(
        FastCheck.asyncProperty(
          FastCheck.integer({ min: 1, max: 5 }),
          FastCheck.array(
            FastCheck.tuple(FastCheck.integer({ min: 1, max: 7 }), FastCheck.integer({ min: 0, max: 4 })),
            {
              maxLength: 20
            }
          ),
          (limit, asks) => {
            const permits = Permits.make(limit)
            return Effect.runPromise(
              Effect.gen(function* () {
                yield* Effect.forEach(
                  asks,
                  ([count, yields]) => permits.withPermits("any", count)(Effect.repeatN(Effect.yieldNow(), yields)),
                  { concurrency: "unbounded" }
                )
                assert.strictEqual(yield* permits.held, 0)
              })
            )
          }
        ),
        { numRuns: 50 }
      )
    )
  )
})
