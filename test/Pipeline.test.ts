import { assert, describe, it } from "@effect/vitest"
import { Cause, Deferred, Effect, Exit, Fiber, Layer, Mailbox, Queue, Ref, Schema, Stream } from "effect"
import * as FastCheck from "effect/FastCheck"
import * as Algorithm from "../src/Algorithm.ts"
import Grpo from "../src/algorithms/Grpo.ts"
import Rae from "../src/algorithms/Rae.ts"
import Sft from "../src/algorithms/Sft.ts"
import * as Credit from "../src/Credit.ts"
import * as DependentSet from "../src/DependentSet.ts"
import * as Pipeline from "../src/Pipeline.ts"
import { type Absent, absent, type Ended, type Rollout } from "../src/Rollout.ts"
import * as State from "../src/State.ts"
import * as Testing from "../src/testing/index.ts"

const { collect, conversation, group, many, node, rollout } = Testing

const settle = Effect.repeatN(Effect.yieldNow(), 200)
const idOf = (item: Ended | Pipeline.Scored | Pipeline.Compiled) => {
  if (item._tag === "Absent") return item.planned.id
  return item._tag === "Rollout" ? item.id : item.rollout.id
}
const sampled = (ended: Iterable<Ended>, algorithm = Grpo.layer()) =>
  collect(Pipeline.sampled({ name: "mock", rollouts: Stream.fromIterable(ended), algorithm }))
const compiled = (items: ReadonlyArray<Pipeline.Compiled | Absent>) =>
  items.filter((item): item is Pipeline.Compiled => item._tag === "Compiled")

/** GRPO on actions, `ce` on tool bodies: two components in one sample. */
const GrpoWithObservations = Algorithm.define({
  type: "observing",
  actionLoss: "rl",
  hooks: () => ({ ...Grpo.hooks({}), scoreRollout: (rollout) => Credit.onRoles(rollout, { tool: 0.1 }) })
})

describe("inDispatchOrder", () => {
  const ordered = (ended: Iterable<Ended>, first = 0) =>
    Effect.map(collect(Stream.fromIterable(ended).pipe(Stream.rechunk(3), Pipeline.inDispatchOrder(first))), (out) =>
      out.map(idOf)
    )
  const all = Array.from({ length: 12 }, (_, i): Ended => {
    const one = rollout({ id: `r${i}`, sequence: i })
    return i % 4 === 3 ? absent(one, { _tag: "Cancelled", why: "stale" }) : one
  })

  it.effect("gives back the order of dispatch from any order of arrival, absences included", () =>
    Effect.promise(() =>
      FastCheck.assert(
        FastCheck.asyncProperty(FastCheck.shuffledSubarray(all, { minLength: all.length }), async (arrived) =>
          assert.deepStrictEqual(await Effect.runPromise(ordered(arrived)), all.map(idOf))
        )
      )
    )
  )

  it.effect("begins where a resumed run begins", () =>
    Effect.gen(function* () {
      const rest = all.slice(5)
      assert.deepStrictEqual(yield* ordered([...rest].reverse(), 5), rest.map(idOf))
    })
  )

  it.effect("loses nothing when the input ends with a gap, and holds nothing that is due", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* ordered([all[3]!, all[0]!, all[2]!]), ["r0", "r2", "r3"])
      const input = yield* Mailbox.make<Ended>()
      const out: Array<string> = []
      const fiber = yield* Mailbox.toStream(input).pipe(
        Pipeline.inDispatchOrder(),
        Stream.runForEach((ended) => Effect.sync(() => out.push(idOf(ended)))),
        Effect.fork
      )
      yield* input.offer(all[1]!)
      yield* input.offer(all[0]!)
      yield* settle
      assert.deepStrictEqual(out, ["r0", "r1"])
      yield* Fiber.interrupt(fiber)
    })
  )

  it.effect("two rollouts of one sequence number stop the run", () =>
    Effect.gen(function* () {
      const twin = rollout({ id: "twin", sequence: 0 })
      // At once, and long after the first has gone on.
      for (const ended of [
        [all[0]!, twin],
        [...all, twin]
      ]) {
        const exit = yield* Effect.exit(ordered(ended))
        assert(Exit.isFailure(exit))
        assert.include(Cause.pretty(exit.cause), 'source "mock": rollout twin is the second of sequence number 0')
      }
    })
  )

  it.effect("with it, state of an algorithm does not depend on who was first", () =>
    Effect.gen(function* () {
      const counting = Algorithm.define({
        type: "counting",
        actionLoss: "rl",
        dependsOn: DependentSet.self,
        hooks: () =>
          Effect.gen(function* () {
            const sum = yield* (yield* State.State).cell({ name: "sum", schema: Schema.Number, initial: 0 })
            return {
              scoreGroup: ([one]: ReadonlyArray<Rollout>) =>
                Effect.map(
                  Ref.getAndUpdate(sum, (n) => n / 2 + one!.reward),
                  (before) => [Credit.uniform(one!.reward - before)]
                )
            }
          })
      })
      const ended = Array.from({ length: 40 }, (_, i) => rollout({ id: `r${i}`, sequence: i, reward: (i * 7) % 5 }))
      const run = (arrived: ReadonlyArray<Ended>) =>
        Stream.fromIterable(arrived).pipe(
          Pipeline.inDispatchOrder(),
          Pipeline.score,
          Pipeline.dependentSets,
          collect,
          Effect.map(Testing.advantages),
          Effect.provide(Layer.provide(counting.layer(), State.layer()))
        )
      const shuffled = [...ended].sort((a, b) => ((a.sequence * 17) % 40) - ((b.sequence * 17) % 40))
      assert.deepStrictEqual(yield* run(shuffled), yield* run(ended))
    })
  )
})

describe("samples", () => {
  it.effect("ADV-20: equal rewards ship no token of rl, and still those of another component", () =>
    Effect.gen(function* () {
      const trace = conversation(
        node("user", [1, 2]),
        node("assistant", [3, 4, 5]),
        node("tool", Array(13).fill(6), { content: [0, ...Array(12).fill(1)] }),
        node("assistant", [7, 8, 9])
      )
      const equal = group([1, 1, 1, 1], { trace })
      const items = compiled(yield* sampled(equal, GrpoWithObservations.layer()))
      assert.deepStrictEqual(
        items.map(({ samples, signal }) => [signal, samples.length]),
        Array(4).fill([true, 1])
      )
      const [batch] = yield* Stream.fromIterable(items).pipe(
        Pipeline.batches({ rollouts: 4 }),
        Pipeline.pack({ maxSequenceLength: 64 }),
        collect
      )
      assert.deepStrictEqual(batch!.counts, { rl: 0, ce: 48, refKl: 0 })
      const plain = compiled(yield* sampled(equal))
      assert.deepStrictEqual(
        plain.map(({ samples, signal, tokens, withoutSignal }) => [signal, samples.length, withoutSignal, tokens]),
        Array(4).fill([false, 0, 1, 21])
      )
    })
  )
})

describe("batches and pack", () => {
  it.effect("ADV-21: a rollout with nothing to train never counts toward a batch", () =>
    Effect.gen(function* () {
      const empty = conversation(node("user", [1, 2]), node("assistant", [3, 4], { sampled: false }))
      const ended = [
        ...group([0, 0], { group: "empty", trace: empty, stopReason: "prompt_too_long" }),
        ...group([1, 0, 1, 0], { group: "full" })
      ]
      const [batch, ...others] = yield* Stream.fromIterable(yield* sampled(ended)).pipe(
        Pipeline.batches({ rollouts: 4 }),
        collect
      )
      assert.deepStrictEqual(others, [])
      assert.strictEqual(batch!.rollouts.length, 4)
      assert.deepStrictEqual(
        batch!.absent.map(({ reason }) => reason),
        Array(2).fill({ _tag: "NothingTrainable", stopReason: "prompt_too_long" })
      )
    })
  )

  it.effect("batches are cut by rollouts, a rollout without signal included, or by tokens; the last may be short", () =>
    Effect.gen(function* () {
      const ended = [...group([1, 1, 1], { group: "flat" }), ...group([1, 0, 1, 0], { group: "mixed" })]
      const items = yield* sampled(ended)
      const sizes = (size: Pipeline.BatchSize) =>
        Effect.map(collect(Stream.fromIterable(items).pipe(Pipeline.batches(size))), (all) =>
          all.map(({ rollouts }) => rollouts.length)
        )
      assert.deepStrictEqual(yield* sizes({ rollouts: 3 }), [3, 3, 1])
      // four tokens each: the fewest rollouts that hold ten
      assert.deepStrictEqual(yield* sizes({ tokens: 10 }), [3, 3, 1])
      assert.deepStrictEqual(yield* sizes({ rollouts: 100 }), [7])
    })
  )

  it.effect("what ended without counting is in the batch of its time, or in a last one of its own", () =>
    Effect.gen(function* () {
      const gone = absent(rollout({ id: "gone" }), { _tag: "Cancelled", why: "shutdown" })
      const batches = yield* Stream.fromIterable([...(yield* sampled(group([1, 0]))), gone]).pipe(
        Pipeline.batches({ rollouts: 2 }),
        collect
      )
      assert.deepStrictEqual(
        batches.map(({ absent, rollouts }) => [rollouts.length, absent.length]),
        [
          [2, 0],
          [0, 1]
        ]
      )
    })
  )

  it.effect("workers get equally many micro-batches", () =>
    Effect.gen(function* () {
      const [batch] = yield* Stream.fromIterable(yield* sampled(group([1, 0, 1, 0, 1]))).pipe(
        Pipeline.batches({ rollouts: 5 }),
        Pipeline.pack({ maxSequenceLength: 4, workers: 2 }),
        collect
      )
      assert.deepStrictEqual(
        batch!.microBatches.map((part) => part.length),
        [3, 3]
      )
      assert.deepStrictEqual(batch!.counts, { rl: 10, ce: 0, refKl: 0 })
    })
  )
})

describe("admit", () => {
  const spread: Pipeline.Gate = {
    name: "spread",
    admits: (members) => new Set(members.map(({ rollout }) => rollout.reward)).size > 1
  }
  const admitted = (ended: Iterable<Ended>, gates: ReadonlyArray<Pipeline.Gate>) =>
    Effect.gen(function* () {
      const items = yield* sampled(ended)
      const out = yield* Stream.fromIterable(items).pipe(Stream.rechunk(1), Pipeline.admit(gates), collect)
      return Object.fromEntries(out.map((item) => [idOf(item), item._tag === "Absent" ? item.reason : item._tag]))
    })

  it.effect("a gate sees a whole group, and turns it away whole, with its name", () =>
    Effect.gen(function* () {
      const [a, b, c] = group([1, 0, 1], { group: "mixed" })
      const ended = [a!, ...group([1, 1], { group: "flat" }), absent(b!, { _tag: "Cancelled", why: "stale" }), c!]
      const turnedAway = { _tag: "NotAdmitted", gate: "spread" } as const
      assert.deepStrictEqual(yield* admitted(ended, [spread]), {
        "flat/0": turnedAway,
        "flat/1": turnedAway,
        "mixed/0": turnedAway,
        "mixed/1": { _tag: "Cancelled", why: "stale" },
        "mixed/2": turnedAway
      })
      assert.deepStrictEqual(yield* admitted(group([1, 0]), [spread]), { "g0/0": "Compiled", "g0/1": "Compiled" })
    })
  )

  it.effect(
    "groups of one name in two sources are two groups, and one that nobody came out of is not asked about",
    () =>
      Effect.gen(function* () {
        const asked: Array<ReadonlyArray<string>> = []
        const all: Pipeline.Gate = {
          name: "all",
          admits: (members) => asked.push(members.map(({ rollout: { reward, source } }) => `${source} ${reward}`)) > 0
        }
        const of = (source: string, rewards: ReadonlyArray<number>) => group(rewards, { source, group: "g" })
        const [math, chess] = [of("math", [1, 0]), of("chess", [0.25, 0.75])]
        const gone = of("lost", [1, 0]).map((one) => absent(one, { _tag: "Cancelled", why: "stale" }))
        const items = [...(yield* sampled(math)), ...(yield* sampled(chess))]
        const arriving = [items[0]!, items[2]!, ...gone, items[3]!, items[1]!]
        const out = yield* Stream.fromIterable(arriving).pipe(Pipeline.admit([all]), collect)
        assert.deepStrictEqual(asked, [
          ["chess 0.25", "chess 0.75"],
          ["math 1", "math 0"]
        ])
        assert.lengthOf(out, 6)
      })
  )

  it.effect("gates are asked in order, effects too, and only until one declines", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const gate = (name: string, answer: boolean): Pipeline.Gate => ({
        name,
        admits: () =>
          Effect.sync(() => {
            asked.push(name)
            return answer
          })
      })
      const out = yield* admitted(group([1, 0]), [gate("a", true), gate("b", false), gate("c", true)])
      assert.deepStrictEqual(asked, ["a", "b"])
      assert.deepStrictEqual(out["g0/0"], { _tag: "NotAdmitted", gate: "b" })
    })
  )

  it.effect("a group that is short when the input ends is decided with what there is", () =>
    Effect.gen(function* () {
      const items = compiled(yield* sampled(group([1, 0, 1])))
      const out = yield* Stream.fromIterable(items.slice(0, 2)).pipe(Pipeline.admit([spread]), collect)
      assert.deepStrictEqual(
        out.map(({ _tag }) => _tag),
        ["Compiled", "Compiled"]
      )
    })
  )
})

describe("sources", () => {
  it.effect("on a stream that stays open, every planned rollout comes out once, as soon as it is final", () =>
    Effect.gen(function* () {
      const queue = yield* Queue.unbounded<Ended>()
      const out: Array<string> = []
      const fiber = yield* Pipeline.sampled({
        name: "mock",
        rollouts: Stream.fromQueue(queue).pipe(Pipeline.inDispatchOrder()),
        algorithm: Grpo.layer()
      }).pipe(
        Stream.runForEach((item) => Effect.sync(() => out.push(idOf(item)))),
        Effect.fork
      )
      const ended = [...many(64, { groupSize: 4, open: 4 })]
      for (const [i, one] of ended.entries()) {
        yield* queue.offer(i % 9 === 0 ? absent(one, { _tag: "NothingTrainable" }) : one)
        if (i % 5 === 0) yield* settle
        if (i % 16 !== 15) continue
        yield* settle
        assert.deepStrictEqual(
          [...out].sort(),
          ended
            .slice(0, i + 1)
            .map(idOf)
            .sort()
        )
      }
      yield* Fiber.interrupt(fiber)
    })
  )

  it.effect("two algorithms share micro-batches, and a component does not feel the other", () =>
    Effect.gen(function* () {
      const of = (source: string, algorithm: Layer.Layer<Algorithm.Algorithm>) =>
        Pipeline.source({
          name: source,
          algorithm,
          rollouts: Stream.fromIterable(group([1, 0], { group: source, source, trace: Testing.toolUse }))
        })
      const packed = (stream: Stream.Stream<Pipeline.Compiled | Absent>) =>
        Effect.map(
          collect(stream.pipe(Pipeline.batches({ rollouts: 100 }), Pipeline.pack({ maxSequenceLength: 64 }))),
          ([batch]) => batch!
        )
      const math = of("math", Grpo.layer())
      const alone = yield* packed(Pipeline.merge(math))
      const mixed = yield* packed(Pipeline.merge(math, of("expert", Sft.layer())))
      assert.deepStrictEqual(alone.counts, { rl: 8, ce: 0, refKl: 0 })
      assert.deepStrictEqual(mixed.counts, { rl: 8, ce: 8, refKl: 0 })
      assert.strictEqual(mixed.microBatches.flat().length, 1)
      const ofMath = ({ microBatches }: typeof alone) =>
        microBatches
          .flat()
          .flatMap(({ samples }) => samples)
          .filter(({ source }) => source === "math")
          .map(({ advantages, rollout }) => [rollout, Array.from(advantages!)])
          .sort()
      assert.deepStrictEqual(ofMath(mixed), ofMath(alone))
    })
  )

  it.effect("two sources of one stateful algorithm each have their own state, under their names", () =>
    Effect.gen(function* () {
      const of = (source: string, rewards: ReadonlyArray<number>) =>
        Pipeline.source({
          name: source,
          algorithm: Rae.layer({ decay: 0.5 }),
          rollouts: Stream.fromIterable(
            rewards.map((reward, sequence) => rollout({ id: `${source}/${sequence}`, source, sequence, reward }))
          )
        })
      yield* Stream.runDrain(Pipeline.merge(of("chess", [1, 1]), of("go", [-1])))
      assert.deepStrictEqual(yield* (yield* State.State).snapshot, {
        "chess/baselines": { policy: 0.75 },
        "go/baselines": { policy: -0.5 }
      })
    }).pipe(Effect.provide(State.layer()))
  )

  it.effect("a source that fails ends the merged stream, and interrupts the others", () =>
    Effect.gen(function* () {
      const interrupted = yield* Deferred.make<void>()
      const endless = Stream.fromEffect(
        Effect.onInterrupt(Effect.never, () => Deferred.succeed(interrupted, undefined))
      )
      const exit = yield* Pipeline.merge(
        Pipeline.source({ name: "a", rollouts: endless, algorithm: Grpo.layer() }),
        Pipeline.source({
          name: "b",
          rollouts: Stream.fromEffect(Effect.zipRight(settle, Effect.fail("environment is gone" as const))),
          algorithm: Grpo.layer()
        })
      ).pipe(Stream.runDrain, Effect.exit)
      assert.deepStrictEqual(exit, Exit.fail("environment is gone" as const))
      yield* Deferred.await(interrupted)
    })
  )
})
