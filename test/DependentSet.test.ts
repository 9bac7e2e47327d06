import { assert, describe, it } from "@effect/vitest"
import { Cause, Chunk, Deferred, Effect, Exit, Fiber, Mailbox, Ref, Schema, Stream, TestClock } from "effect"
import * as Algorithm from "../src/Algorithm.ts"
import * as Credit from "../src/Credit.ts"
import * as DependentSet from "../src/DependentSet.ts"
import * as Pipeline from "../src/Pipeline.ts"
import { absent, type Ended, type Rollout } from "../src/Rollout.ts"
import * as State from "../src/State.ts"
import * as Testing from "../src/testing/index.ts"

const { advantages, group, many, rollout, through } = Testing

/** Its advantage says what the set looked like when it was scored: members, and absent ones as tenths. */
const sizes = (dependsOn: DependentSet.Rule) =>
  Algorithm.define({
    type: "sizes",
    actionLoss: "rl",
    dependsOn,
    hooks: () => ({ scoreGroup: (members, set) => members.map(() => Credit.uniform(set.arrived + set.absent / 10)) })
  }).layer()
const waiting = Algorithm.define({
  type: "waiting",
  actionLoss: "rl",
  hooks: () => ({
    scoreGroup: (members) =>
      Effect.as(
        Effect.yieldNow(),
        members.map(() => Credit.empty)
      )
  })
})

const settle = Effect.repeatN(Effect.yieldNow(), 200)
const left = (watch: DependentSet.Watch) => [watch.fibers, watch.sets().length, watch.pending()]
const tags = (outcomes: ReadonlyArray<Testing.Outcome>) =>
  outcomes.map((outcome) => (outcome._tag === "Absent" ? outcome.reason._tag : outcome._tag))
const staged = (input: Mailbox.ReadonlyMailbox<Ended>, watch?: DependentSet.Watch) =>
  Mailbox.toStream(input).pipe(Pipeline.score, (scored) => Pipeline.dependentSets(scored, { watch }))

describe("rules", () => {
  it.effect("self, group, episode, count", () =>
    Effect.gen(function* () {
      const seats = ["p", "q"].map((seat) => rollout({ id: seat, seat, episode: { id: "e", size: 2 } }))
      const all = (rule: DependentSet.Rule, ended: Iterable<Ended>) =>
        Effect.map(Effect.provide(through(ended), sizes(rule)), (out) => Object.values(advantages(out)))
      assert.deepStrictEqual(yield* all(DependentSet.self, seats), [1, 1])
      assert.deepStrictEqual(yield* all(DependentSet.episode, seats), [2, 2])
      assert.deepStrictEqual(yield* all(DependentSet.group, group([1, 2, 3])), [3, 3, 3])
      const three = DependentSet.count(3, ({ source }) => source)
      assert.deepStrictEqual(yield* all(three, many(9, { groupSize: 1 })), Array(9).fill(3))
    })
  )

  it.effect("a quorum opens early; who ends later is Late, and the set is as it was when it opened", () =>
    Effect.gen(function* () {
      const rule = DependentSet.quorum(DependentSet.group, 2)
      const [a, b, c, d] = group([1, 2, 3, 4])
      const ended: Array<Ended> = [a!, b!, c!, absent(d!, { _tag: "NothingTrainable" })]
      for (const size of [1, 4]) {
        const out = yield* Stream.fromIterable(ended).pipe(
          Stream.rechunk(size),
          Pipeline.score,
          Pipeline.dependentSets,
          Testing.collect,
          Effect.provide(sizes(rule))
        )
        assert.deepStrictEqual(advantages(out), { "g0/0": 2, "g0/1": 2, "g0/2": "Late", "g0/3": "NothingTrainable" })
      }
    })
  )

  it.effect("a rule that breaks costs the rollouts it was asked about, with its name, and never the stream", () =>
    Effect.gen(function* () {
      const words = (ended: ReadonlyArray<Testing.Outcome>) =>
        ended.map((one) => (one._tag === "Absent" && one.reason._tag === "Failed" ? one.reason.message : one._tag))
      const opens: DependentSet.Rule = {
        ...DependentSet.group,
        name: "moody",
        opens: ({ arrived, key }) => {
          if (key === "g0" && arrived === 2) throw new Error("no such set")
          return false
        }
      }
      const out = yield* Effect.provide(through([...group([1, 2, 3]), ...group([1, 2], { group: "g1" })]), sizes(opens))
      assert.deepStrictEqual(out.map((one) => (one._tag === "Absent" ? one.planned.id : one.rollout.id)).sort(), [
        "g0/0",
        "g0/1",
        "g0/2",
        "g1/0",
        "g1/1"
      ])
      assert.deepStrictEqual(
        words(out).sort(),
        ["Absent", 'rule "moody": no such set', 'rule "moody": no such set', "Scored", "Scored"].sort()
      )
      for (const sets of [undefined, "g", [{ key: "g" }], [{ key: "g", size: 0 }], [undefined]]) {
        const of = () => sets as ReadonlyArray<DependentSet.Membership>
        const refused = yield* Effect.provide(through(group([1])), sizes(DependentSet.make({ name: "odd", of })))
        assert.match(words(refused)[0]!, /^rule "odd": `of` gave no list of sets/)
      }
    })
  )

  it.effect("a quorum that its members can no longer reach opens when all have ended", () =>
    Effect.gen(function* () {
      const [a, b] = group([1, 2])
      const out = yield* through([a!, absent(b!, { _tag: "NothingTrainable" })]).pipe(
        Effect.provide(sizes(DependentSet.quorum(DependentSet.group, 2)))
      )
      assert.deepStrictEqual(advantages(out), { "g0/0": 1.1, "g0/1": "NothingTrainable" })
    })
  )

  it.effect("a rollout in two sets is final when both have opened, with both credits", () =>
    Effect.gen(function* () {
      const input = yield* Mailbox.make<Ended>()
      const out: Array<string> = []
      const two = DependentSet.make({
        name: "group and episode",
        of: (member) => [...DependentSet.group.of(member), ...DependentSet.episode.of(member)]
      })
      const both = Algorithm.define({
        type: "both",
        actionLoss: "rl",
        dependsOn: two,
        hooks: () => ({ scoreGroup: (members, set) => members.map(() => Credit.perTurn(members[0]!, [set.size])) })
      })
      const fiber = yield* staged(input).pipe(
        Stream.runForEach((outcome) =>
          Effect.sync(() => {
            if (outcome._tag === "Scored")
              out.push(`${outcome.rollout.id} ${outcome.credit.claims.map((c) => c.values)}`)
          })
        ),
        Effect.provide(both.layer()),
        Effect.fork
      )
      const [a, b] = group([0, 0])
      yield* input.offer({ ...a!, episode: { id: "e", size: 3 } })
      yield* input.offer({ ...b!, episode: { id: "f", size: 1 } })
      yield* settle
      assert.deepStrictEqual(out, ["g0/1 2,1"])
      for (const id of ["x", "y"])
        yield* input.offer(rollout({ id, group: { id, size: 1 }, episode: { id: "e", size: 3 } }))
      yield* input.end
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(out.sort(), ["g0/0 2,3", "g0/1 2,1", "x 1,3", "y 1,3"])
    })
  )

  it.effect("a rule that throws costs the rollout, and says so", () =>
    Effect.gen(function* () {
      const rule = DependentSet.make({
        name: "by match",
        of: ({ labels }) => [{ key: labels.match!.trim(), size: 1 }]
      })
      const out = yield* Effect.provide(
        through([rollout(), rollout({ id: "r1", labels: { match: "m" } })]),
        sizes(rule)
      )
      assert.deepStrictEqual(tags(out).sort(), ["Failed", "Scored"])
      assert.include(JSON.stringify(out), 'rule \\"by match\\"')
    })
  )
})

describe("barriers", () => {
  it.effect("a failed member and one without a reward release the barrier, and are known to be absent", () =>
    Effect.gen(function* () {
      const [a, b, c] = group([1, 2, 3])
      const watch = DependentSet.watch()
      const failed = absent(b!, { _tag: "Failed", blame: "tools", message: "sandbox died" })
      const out = yield* through([a!, failed, { ...c!, reward: Number.NaN }], { watch })
      assert.deepStrictEqual(advantages(out), { "g0/0": 1.2, "g0/1": "Failed", "g0/2": "NoReward" })
      assert.deepStrictEqual(left(watch), [0, 0, 0])
    }).pipe(Effect.provide(sizes(DependentSet.group)))
  )

  it.effect("a group of which all are gone ends too", () =>
    Effect.gen(function* () {
      const watch = DependentSet.watch()
      const gone = group([1, 2]).map((member) => absent(member, { _tag: "Cancelled", why: "stale" }))
      assert.deepStrictEqual(tags(yield* through(gone, { watch })), ["Cancelled", "Cancelled"])
      assert.deepStrictEqual(left(watch), [0, 0, 0])
    }).pipe(Effect.provide(sizes(DependentSet.group)))
  )

  it.effect("when the input ends before a set is whole, its members say which set and how many are missing", () =>
    Effect.gen(function* () {
      const watch = DependentSet.watch()
      const cut = group([1, 2, 3], { group: "cut" })
      const out = yield* through([...group([1, 2], { group: "whole" }), ...cut.slice(0, 2)], { watch })
      assert.deepStrictEqual(
        out.map((outcome) => (outcome._tag === "Absent" ? outcome.reason : outcome._tag)),
        ["Scored", "Scored", ...Array(2).fill({ _tag: "Incomplete", set: "cut", missing: 1 })]
      )
      assert.deepStrictEqual(left(watch), [0, 0, 0])
    }).pipe(Effect.provide(sizes(DependentSet.group)))
  )

  it.effect(
    "a set that waits is one fiber that shows what it waits for; a whole one with a plain formula needs none",
    () =>
      Effect.gen(function* () {
        const input = yield* Mailbox.make<Ended>()
        const watch = DependentSet.watch()
        const fiber = yield* Effect.fork(Stream.runDrain(staged(input, watch)))
        yield* input.offerAll(group([1, 2], { group: "whole" }))
        yield* settle
        assert.strictEqual(watch.maxFibers, 0)
        const [a, b, c] = group([1, 2, 3], { group: "open" })
        yield* input.offerAll([a!, absent(b!, { _tag: "NothingTrainable" })])
        yield* settle
        assert.deepStrictEqual(watch.sets(), [{ key: "open", size: 3, arrived: 1, absent: 1 }])
        assert.deepStrictEqual([watch.fibers, watch.pending()], [1, 1])
        yield* input.offer(c!)
        yield* settle
        assert.deepStrictEqual(left(watch), [0, 0, 0])
        yield* input.end
        yield* Fiber.join(fiber)
      }).pipe(Effect.provide(sizes(DependentSet.group)))
  )

  it.effect("the fiber of a set carries its name into every log line and hook", () =>
    Effect.gen(function* () {
      const names: Array<unknown> = []
      const named = Algorithm.define({
        type: "named",
        actionLoss: "rl",
        hooks: () => ({
          scoreGroup: (members) =>
            Effect.map(Effect.logAnnotations, (annotations) => {
              names.push(Object.fromEntries(annotations))
              return members.map(() => Credit.empty)
            })
        })
      })
      yield* Stream.fromIterable(group([1, 2], { group: "g7" })).pipe(
        Stream.rechunk(1),
        Pipeline.score,
        Pipeline.dependentSets,
        Stream.runDrain,
        Effect.provide(named.layer())
      )
      assert.deepStrictEqual(names, [{ dependentSet: "group g7" }])
    })
  )

  it.effect("LEAK-06: 64 groups open at once all finish, and one that stalls does not hold the others", () =>
    Effect.gen(function* () {
      const input = yield* Mailbox.make<Ended>()
      const done: Array<string> = []
      const fiber = yield* staged(input).pipe(
        Stream.runForEach((outcome) =>
          Effect.sync(() => outcome._tag === "Scored" && done.push(outcome.rollout.group.id))
        ),
        Effect.fork
      )
      const all = [...many(256, { groupSize: 4, open: 64 })]
      const stalled = all.find(({ id }) => id === "mock/g7/3")!
      for (const one of all) if (one !== stalled) yield* input.offer(one)
      yield* settle
      assert.strictEqual(new Set(done).size, 63)
      yield* input.offer(stalled)
      yield* input.end
      yield* Fiber.join(fiber)
      assert.strictEqual(new Set(done).size, 64)
      assert.strictEqual(done.length, 256)
    }).pipe(Effect.provide(waiting.layer()))
  )

  it.effect("items come out as soon as they are final, while the input stays open", () =>
    Effect.gen(function* () {
      const input = yield* Mailbox.make<Ended>()
      const out: Array<string> = []
      const fiber = yield* staged(input).pipe(
        Stream.runForEach((outcome) => Effect.sync(() => out.push(outcome._tag))),
        Effect.fork
      )
      const [a, b] = group([1, 2])
      yield* input.offer(a!)
      yield* settle
      assert.deepStrictEqual(out, [])
      yield* input.offer(b!)
      yield* settle
      assert.deepStrictEqual(out, ["Scored", "Scored"])
      yield* Fiber.interrupt(fiber)
    }).pipe(Effect.provide(sizes(DependentSet.group)))
  )

  it.effect(
    "LEAK-05: 100,000 rollouts through both hooks, none lost, no fiber and no entry left",
    () =>
      Effect.gen(function* () {
        const slow = Algorithm.define({
          type: "slow",
          actionLoss: "rl",
          hooks: () => ({
            scoreRollout: () => Effect.sync(() => Credit.empty),
            scoreGroup: (members) => Effect.sync(() => members.map(() => Credit.uniform(1)))
          })
        })
        const watch = DependentSet.watch()
        const count = yield* Stream.suspend(() => Stream.fromIterable(many(100_000))).pipe(
          Stream.rechunk(16),
          Pipeline.score,
          (scored) => Pipeline.dependentSets(scored, { watch }),
          Stream.filter(({ _tag }) => _tag === "Scored"),
          Stream.runCount,
          Effect.provide(slow.layer()),
          Effect.withTracerEnabled(false)
        )
        assert.strictEqual(count, 100_000)
        assert.deepStrictEqual(left(watch), [0, 0, 0])
        assert.isBelow(watch.maxFibers, 200)
      }),
    300_000
  )

  it.effect("LEAK-05: a source that fails fails the stream at once, and leaves nothing", () =>
    Effect.gen(function* () {
      const watch = DependentSet.watch()
      const exit = yield* Stream.concat(Stream.fromIterable(many(8, { groupSize: 16 })), Stream.fail("boom")).pipe(
        Pipeline.score,
        (scored) => Pipeline.dependentSets(scored, { watch }),
        Stream.runDrain,
        Effect.exit
      )
      assert.deepStrictEqual(exit, Exit.fail("boom"))
      assert.deepStrictEqual(left(watch), [0, 0, 0])
    }).pipe(Effect.provide(waiting.layer()))
  )

  it.effect(
    "LEAK-04: a set whose fiber is interrupted from outside fails the stream; it does not lose its rollouts",
    () =>
      Effect.gen(function* () {
        const mine = yield* Deferred.make<Fiber.RuntimeFiber<unknown, unknown>>()
        const held = Algorithm.define({
          type: "held",
          actionLoss: "rl",
          hooks: () => ({
            scoreGroup: () =>
              Effect.withFiberRuntime<never>((fiber) => Effect.zipRight(Deferred.succeed(mine, fiber), Effect.never))
          })
        })
        const fiber = yield* Effect.fork(Effect.provide(through(many(8)), held.layer()))
        yield* Effect.flatMap(Deferred.await(mine), Fiber.interrupt)
        assert.isTrue(Exit.isFailure(yield* Fiber.await(fiber)))
      })
  )

  it.effect("interruption releases every open set, those being scored included", () =>
    Effect.gen(function* () {
      const watch = DependentSet.watch()
      let interrupted = 0
      const never = Algorithm.define({
        type: "never",
        actionLoss: "rl",
        hooks: () => ({
          scoreGroup: () =>
            Effect.onInterrupt(Effect.never, () =>
              Effect.sync(() => {
                interrupted++
              })
            )
        })
      })
      const ended = [...many(512, { groupSize: 8, open: 64 })].slice(0, 480)
      const input = yield* Mailbox.make<Ended>()
      const fiber = yield* Effect.fork(Effect.provide(Stream.runDrain(staged(input, watch)), never.layer()))
      yield* input.offerAll(ended)
      yield* settle
      assert.deepStrictEqual(left(watch), [64, 32, 480])
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(interrupted, 32)
      assert.deepStrictEqual(left(watch), [0, 0, 0])
    })
  )

  it.effect("a failing scoreGroup costs its members, not the stream, and says what failed where", () =>
    Effect.gen(function* () {
      const half = Algorithm.define({
        type: "half",
        actionLoss: "rl",
        hooks: () => ({
          scoreGroup: (members, set) =>
            set.key.endsWith("1") ? Effect.fail("judge is down") : Effect.succeed(members.map(() => Credit.empty))
        })
      })
      const out = yield* Effect.provide(through(many(16, { groupSize: 8, open: 2 })), half.layer())
      assert.deepStrictEqual(tags(out).sort(), [...Array(8).fill("Failed"), ...Array(8).fill("Scored")])
      assert.include(JSON.stringify(out), "half.scoreGroup of mock/g1: judge is down")
    })
  )

  it.effect("a slow consumer stops the input, open sets or not", () =>
    Effect.gen(function* () {
      let pulled = 0
      const gate = yield* Deferred.make<void>()
      const fiber = yield* Stream.suspend(() => Stream.fromIterable(many(20_000))).pipe(
        Stream.rechunk(16),
        Stream.tap(() =>
          Effect.sync(() => {
            pulled++
          })
        ),
        Pipeline.score,
        Pipeline.dependentSets,
        Stream.mapEffect((outcome) => Effect.as(Deferred.await(gate), outcome)),
        Stream.runCount,
        Effect.fork
      )
      yield* TestClock.adjust("1 second")
      yield* Effect.repeatN(Effect.yieldNow(), 2000)
      assert.isBelow(pulled, 4000)
      yield* Deferred.succeed(gate, undefined)
      assert.strictEqual(yield* Fiber.join(fiber), 20_000)
    }).pipe(Effect.provide(sizes(DependentSet.group)))
  )

  it.effect("a rollout that ends twice while its set is open stops the run", () =>
    Effect.gen(function* () {
      const [a] = group([1, 2])
      const exit = yield* Effect.exit(through([a!, a!]))
      assert(Exit.isFailure(exit))
      assert.include(Cause.pretty(exit.cause), "rollout g0/0 ended twice")
    }).pipe(Effect.provide(sizes(DependentSet.group)))
  )

  it.effect("sets are scored in the order in which they open, however the input is cut into chunks", () =>
    Effect.gen(function* () {
      const ordered = Algorithm.define({
        type: "ordered",
        actionLoss: "rl",
        hooks: () =>
          Effect.gen(function* () {
            const count = yield* (yield* State.State).cell({ name: "count", schema: Schema.Number, initial: 0 })
            return {
              scoreGroup: (members: ReadonlyArray<Rollout>) =>
                Effect.map(
                  Ref.updateAndGet(count, (n) => n + 1),
                  (n) => members.map(() => Credit.uniform(n))
                )
            }
          })
      })
      const [a, b, c] = ["a", "b", "c"].map((id) => group([0, 0], { group: id }))
      const scored = [a![0]!, c![0]!, b![0]!, b![1]!, a![1]!, c![1]!].map(
        (rollout): DependentSet.Scored => ({ _tag: "Scored", rollout, credit: Credit.empty })
      )
      // every way to cut six rollouts into chunks
      for (let cuts = 0; cuts < 32; cuts++) {
        const chunks: Array<Array<DependentSet.Scored>> = [[]]
        for (const [i, one] of scored.entries()) {
          chunks.at(-1)!.push(one)
          if ((cuts >> i) % 2 === 1) chunks.push([])
        }
        const out = yield* Stream.fromChunks(...chunks.map(Chunk.unsafeFromArray)).pipe(
          Pipeline.dependentSets,
          Testing.collect,
          Effect.provide(ordered.layer()),
          Effect.provide(State.layer())
        )
        const expected = { "a/0": 2, "a/1": 2, "b/0": 1, "b/1": 1, "c/0": 3, "c/1": 3 }
        assert.deepStrictEqual(advantages(out), expected, `cut ${cuts.toString(2)}`)
      }
    })
  )
})
