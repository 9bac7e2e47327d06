import { describe, expect, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import Grpo from "../src/algorithms/Grpo.ts"
import * as Checkpoint from "../src/Checkpoint.ts"
import * as Environment from "../src/Environment.ts"
import { Inference, type InferenceService } from "../src/Inference.ts"
import * as Journal from "../src/Journal.ts"
import type { MicroBatch } from "../src/MicroBatch.ts"
import * as Orchestrator from "../src/Orchestrator.ts"
import * as Permits from "../src/Permits.ts"
import type { StepReport } from "../src/Report.ts"
import type { Ended } from "../src/Rollout.ts"
import * as State from "../src/State.ts"
import * as Mock from "../src/Trainer/Mock.ts"
import * as PackedLoss from "../src/Trainer/PackedLoss.ts"
import { layerPolicy, layerRenderer, textOf } from "./doubles/byteChat.ts"

/** Answers with one letter that follows from the seed alone. */
const letters = layerPolicy(({ sampling }) => "ab"[sampling.seed % 2]!)

const environment = Environment.make({
  name: "letters",
  tasks: Array.from({ length: 10 }, (_, i) => `task ${i}`),
  reward: (_, { reply }) => (reply === "a" ? 1 : 0)
})

interface Seen {
  readonly ended: Array<{ readonly step: number; readonly ended: Ended }>
  readonly checkpoints: Array<Checkpoint.Step>
  readonly gradients: Array<{ readonly batch: MicroBatch; readonly gradient: Float32Array }>
}

const setup = (
  options: {
    readonly policy?: Layer.Layer<Inference>
    readonly restored?: State.Snapshot
    readonly known?: ReadonlyArray<Ended>
  } = {}
) => {
  const seen: Seen = { ended: [], checkpoints: [], gradients: [] }
  const known = new Map((options.known ?? []).map((one) => [one._tag === "Absent" ? one.planned.id : one.id, one]))
  const layer = Layer.mergeAll(
    Mock.layerMock(),
    Layer.succeed(Checkpoint.Checkpoints, { afterStep: (step) => Effect.sync(() => seen.checkpoints.push(step)) }),
    Layer.succeed(Journal.Journal, {
      find: (id) => Effect.runSync(Effect.option(Effect.fromNullable(known.get(id)))),
      append: (step, ended) => Effect.sync(() => seen.ended.push({ step, ended })),
      seal: () => Effect.void,
      sealed: () => Effect.succeedNone
    }),
    Permits.layer(64),
    State.layer(options.restored)
  ).pipe(
    Layer.provide(
      PackedLoss.layerMock({
        logprobs: (sample) => sample.logprobs,
        onGradient: (batch, gradient) => seen.gradients.push({ batch, gradient })
      })
    ),
    Layer.merge(layerRenderer),
    Layer.merge(options.policy ?? letters)
  )
  return { seen, layer }
}

const base = { batchSize: 16, steps: 4, seed: 7, maxSequenceLength: 256 }
const source = { environment, algorithm: Grpo.layer(), groupSize: 4 }

const collect = <A, E, R>(stream: Stream.Stream<A, E, R>) =>
  Effect.map(Stream.runCollect(stream), Chunk.toReadonlyArray)
const failure = <A, E>(exit: Exit.Exit<A, E>) => (Exit.isFailure(exit) ? String(exit.cause) : "succeeded")

describe("Orchestrator", () => {
  it.effect("trains step n on rollouts of v(n-2), the first two steps on v(0)", () => {
    const { layer, seen } = setup()
    return Effect.gen(function* () {
      const reports = yield* collect(Orchestrator.steps({ ...base, sources: [source] }))
      expect(reports.map(({ step, staleness }) => [step, staleness.max])).toEqual([
        [1, 0],
        [2, 1],
        [3, 1],
        [4, 1]
      ])
      expect(reports.every(({ rollouts }) => rollouts === 16)).toBe(true)
      const versions = new Map(
        seen.ended.map(({ ended, step }) => [step, "policyVersion" in ended && ended.policyVersion])
      )
      expect([...versions]).toEqual([
        [1, 0],
        [2, 0],
        [3, 1],
        [4, 2]
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("with a lag of 0 every step trains on the weights that it starts from", () => {
    const { layer } = setup()
    return Effect.gen(function* () {
      const reports = yield* collect(Orchestrator.steps({ ...base, lag: 0, sources: [source] }))
      expect(reports.map(({ staleness }) => staleness.max)).toEqual([0, 0, 0, 0])
    }).pipe(Effect.provide(layer))
  })

  it.effect("rewarded tokens are pushed up and the others down", () => {
    const { layer, seen } = setup()
    return Effect.gen(function* () {
      yield* collect(Orchestrator.steps({ ...base, steps: 1, sources: [source] }))
      const rewards = new Map(
        seen.ended.flatMap(({ ended }) => (ended._tag === "Rollout" ? [[ended.id, ended.reward]] : []))
      )
      let signs = 0
      for (const { batch, gradient } of seen.gradients) {
        let start = 0
        for (const { mask, rollout } of batch.samples) {
          for (const [i, sampled] of mask.entries()) {
            const slope = gradient[start + i]!
            // Descent: the gradient is negative where a token is to become likelier.
            if (sampled === 0) expect(slope).toBeCloseTo(0, 12)
            else expect(Math.sign(slope)).toBe(rewards.get(rollout) === 1 ? -1 : 1)
            signs += sampled
          }
          start += mask.length
        }
      }
      expect(signs).toBeGreaterThan(8)
    }).pipe(Effect.provide(layer))
  })

  it.effect("generation of the next step runs while a step trains", () =>
    Effect.gen(function* () {
      const training = yield* Deferred.make<void>()
      const generated = yield* Ref.make(0)
      const inner = yield* Effect.provide(Inference, letters)
      const policy: InferenceService = {
        ...inner,
        generate: (promptIds, sampling) =>
          Ref.update(generated, (n) => n + 1).pipe(Effect.zipRight(inner.generate(promptIds, sampling)))
      }
      const { layer } = setup({ policy: Layer.succeed(Inference, policy) })
      const slow = Mock.layerMock({
        optimizerStep: () =>
          Effect.gen(function* () {
            // Waits until all of the next step's rollouts have been asked for: possible only when they overlap.
            while ((yield* Ref.get(generated)) < 32) yield* Effect.yieldNow()
            yield* Deferred.succeed(training, undefined)
            return { gradNorm: 1, applied: true }
          })
      }).pipe(Layer.provide(PackedLoss.layerMock({ logprobs: (sample) => sample.logprobs })))
      const [first] = yield* collect(Stream.take(Orchestrator.steps({ ...base, sources: [source] }), 1)).pipe(
        Effect.provide(slow),
        Effect.provide(layer)
      )
      expect(first?.step).toBe(1)
      expect(yield* Deferred.isDone(training)).toBe(true)
    })
  )

  it.effect("the same seed gives the same rollouts and reports, another seed others", () =>
    Effect.gen(function* () {
      const once = (seed: number) => {
        const { layer, seen } = setup()
        return collect(Orchestrator.steps({ ...base, seed, sources: [source] })).pipe(
          Effect.map((reports) => ({
            rewards: reports.map(({ reward }) => reward),
            replies: seen.ended
              .map(
                ({ ended }) =>
                  ended._tag === "Rollout" &&
                  [ended.id, ended.example, textOf(ended.trace.nodes.at(-1)!.tokenIds)].join()
              )
              .sort()
          })),
          Effect.provide(layer)
        )
      }
      const [a, b, c] = [yield* once(7), yield* once(7), yield* once(8)]
      expect(a).toEqual(b)
      expect(a.replies).not.toEqual(c.replies)
    })
  )

  it.effect("ADV-21: rollouts that do not count are replaced, and counted", () => {
    const failing = Environment.make({
      name: "letters",
      tasks: Array.from({ length: 10 }, (_, i) => `task ${i}`),
      reward: (task, { reply }) => (task === "task 1" ? Number.NaN : reply === "a" ? 1 : 0)
    })
    const { layer } = setup()
    return Effect.gen(function* () {
      const reports = yield* collect(
        Orchestrator.steps({ ...base, steps: 1, batchSize: 8, sources: [{ ...source, environment: failing }] })
      )
      expect(reports[0]).toMatchObject({ rollouts: 8, absent: { NoReward: 4 } })
    }).pipe(Effect.provide(layer))
  })

  it.effect("a source that keeps failing stops the run with its name and its last error", () => {
    const broken = Environment.make({
      name: "broken",
      tasks: ["x"],
      reward: () => {
        throw new Error("the scorer is down")
      }
    })
    const { layer } = setup()
    return Effect.gen(function* () {
      const exit = yield* Effect.exit(
        collect(Orchestrator.steps({ ...base, sources: [{ ...source, environment: broken }] }))
      )
      expect(failure(exit)).toMatch(/16 of 16 rollouts of "broken" failed.*the scorer is down/s)
    }).pipe(Effect.provide(layer))
  })

  it.effect("ADV-01: groups without any difference train nothing, and enough of such steps stop the run", () => {
    const flat = Environment.make({ name: "flat", tasks: ["x"], reward: () => 0.7 })
    const { layer, seen } = setup()
    return Effect.gen(function* () {
      const all = Orchestrator.steps({
        ...base,
        steps: 10,
        maxEmptyBatches: 3,
        sources: [{ environment: flat, algorithm: Grpo.layer(), groupSize: 1 }]
      })
      const reports: Array<number> = []
      const exit = yield* Effect.exit(
        Stream.runForEach(all, ({ zeroSignal }) => Effect.sync(() => reports.push(zeroSignal)))
      )
      expect(reports).toEqual([16, 16])
      expect(failure(exit)).toMatch(/3 steps in a row had nothing to train.*groups of 1/s)
      expect(seen.gradients).toEqual([])
    }).pipe(Effect.provide(layer))
  })

  it.effect("one step that trains starts the count of steps without any difference anew", () => {
    let calls = 0
    const odd = Environment.make({
      name: "odd",
      tasks: ["x"],
      // Four rollouts a step: those of the third differ.
      reward: () => (Math.ceil(++calls / 4) === 3 ? calls % 2 : 0.7)
    })
    const { layer } = setup()
    return Effect.gen(function* () {
      const sources = [{ ...source, environment: odd }]
      const all = Orchestrator.steps({ ...base, batchSize: 4, steps: 5, maxEmptyBatches: 3, sources })
      expect((yield* collect(all)).map(({ zeroSignal }) => zeroSignal)).toEqual([4, 4, 0, 4, 4])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a step whose next rollouts failed leaves no checkpoint that would promise them", () => {
    let calls = 0
    const failing = Environment.make({
      name: "failing",
      tasks: ["x"],
      reward: () => {
        if (++calls > 16) throw new Error("the scorer is down")
        return calls % 2
      }
    })
    const { layer, seen } = setup()
    return Effect.gen(function* () {
      const exit = yield* Effect.exit(
        collect(Orchestrator.steps({ ...base, sources: [{ ...source, environment: failing }] }))
      )
      expect(failure(exit)).toMatch(/step 2: .*the scorer is down/s)
      expect(seen.gradients.length).toBeGreaterThan(0)
      expect(seen.checkpoints).toEqual([])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a run resumed from a checkpoint and the journal goes on as the uninterrupted one", () =>
    Effect.gen(function* () {
      const whole = setup()
      const reports = yield* collect(Orchestrator.steps({ ...base, sources: [source] })).pipe(
        Effect.provide(whole.layer)
      )
      const at = whole.seen.checkpoints[1]!
      expect(at.step).toBe(2)
      const journaled = whole.seen.ended.filter(({ step }) => step === 3).map(({ ended }) => ended)
      const rest = setup({ restored: JSON.parse(JSON.stringify(at.state)), known: journaled })
      const resumed = yield* collect(Orchestrator.steps({ ...base, firstStep: 3, sources: [source] })).pipe(
        Effect.provide(rest.layer)
      )
      const steady = (all: typeof reports) =>
        all.map(({ metrics, reward, step, tokens }) => ({ metrics, reward, step, tokens }))
      expect(steady(resumed)).toEqual(steady(reports.slice(2)))
      expect(new Set(rest.seen.ended.map(({ step }) => step))).toEqual(new Set([4]))
      expect(rest.seen.checkpoints).toEqual(whole.seen.checkpoints.slice(2))
    })
  )

  it.effect("a resumed run refuses to make up rollouts whose weights are gone", () => {
    const { layer } = setup()
    return Effect.gen(function* () {
      const exit = yield* Effect.exit(collect(Orchestrator.steps({ ...base, firstStep: 3, sources: [source] })))
      expect(failure(exit)).toMatch(/weights v1 that it needs are gone/)
    }).pipe(Effect.provide(layer))
  })

  it.effect("two sources with algorithms of their own share a step", () => {
    const { layer, seen } = setup()
    return Effect.gen(function* () {
      const reports = yield* collect(
        Orchestrator.steps({
          ...base,
          batchSize: 64,
          steps: 1,
          sources: [source, { ...source, name: "more", ratio: 3 }]
        })
      )
      const names = seen.ended.map(({ ended }) => (ended._tag === "Rollout" ? ended.source : ""))
      const more = names.filter((name) => name === "more").length
      expect(reports[0]?.rollouts).toBe(64)
      expect(more).toBeGreaterThan(32)
      expect(more).toBeLessThan(64)
    }).pipe(Effect.provide(layer))
  })

  it.effect("TOK-02: log-probabilities of another distribution than the sampled one stop the run at once", () => {
    const { layer, seen } = setup()
    return Effect.gen(function* () {
      const raw = Mock.layerMock().pipe(
        // What a server reports that forgets the temperature: off by the same amount on every token.
        Layer.provide(PackedLoss.layerMock({ logprobs: ({ logprobs }) => logprobs.map((logprob) => logprob - 0.2) }))
      )
      const exit = yield* Effect.exit(
        collect(Orchestrator.steps({ ...base, sources: [source] })).pipe(Effect.provide(raw))
      )
      expect(failure(exit)).toMatch(/step 1: .*disagree by 0\.200 nats.*sampling temperature/s)
      expect(seen.checkpoints).toEqual([])
    }).pipe(Effect.provide(layer))
  })

  it.effect("TOK-02: weights that have moved since may disagree, at any step; the same weights must not", () =>
    Effect.gen(function* () {
      const moved = Mock.layerMock().pipe(
        Layer.provide(
          PackedLoss.layerMock({
            logprobs: ({ logprobs, policyVersion }) =>
              policyVersion === 0 ? logprobs : logprobs.map((logprob) => logprob - 0.2)
          })
        )
      )
      const run = (lag: 0 | 1) =>
        collect(Orchestrator.steps({ ...base, lag, sources: [source] })).pipe(
          Effect.provide(moved),
          Effect.provide(setup().layer),
          Effect.exit
        )
      expect(Exit.isSuccess(yield* run(1))).toBe(true)
      expect(failure(yield* run(0))).toMatch(/step 2: .*disagree by 0\.200 nats/s)
    })
  )

  it.effect("ASYNC-05: a task that always fails costs its own groups and holds up nobody", () => {
    const one = Environment.make({
      name: "letters",
      tasks: ["task 0", "task 1", "task 2"],
      reward: (task, { reply }) => {
        if (task === "task 1") throw new Error("task 1 has no solution")
        return reply === "a" ? 1 : 0
      }
    })
    const { layer } = setup()
    return Effect.gen(function* () {
      const reports = yield* collect(
        Orchestrator.steps({ ...base, steps: 3, sources: [{ ...source, environment: one }] })
      )
      expect(reports.map(({ rollouts }) => rollouts >= 16)).toEqual([true, true, true])
      expect(reports[0]?.absent).toEqual({ "Failed/task": 8 })
    }).pipe(Effect.provide(layer))
  })

  it.effect("ASYNC-01: what is dispatched before new weights are applied is stamped with the old ones", () =>
    Effect.gen(function* () {
      const applied = yield* Ref.make(0)
      const inner = yield* Effect.provide(Inference, letters)
      const stamped: Array<readonly [stamp: number, applied: number]> = []
      const policy: InferenceService = {
        ...inner,
        generate: (promptIds, sampling) =>
          Effect.flatMap(Ref.get(applied), (policyVersion) =>
            Effect.map(inner.generate(promptIds, sampling), (one) => ({ ...one, policyVersion }))
          ),
        adopt: ({ version }) => Effect.yieldNow().pipe(Effect.zipRight(Ref.set(applied, version)))
      }
      const { layer } = setup({ policy: Layer.succeed(Inference, policy) })
      const journal = Layer.succeed(Journal.Journal, {
        find: () => Option.none(),
        seal: () => Effect.void,
        sealed: () => Effect.succeedNone,
        append: (_, ended) =>
          Effect.map(Ref.get(applied), (now) => {
            if (ended._tag === "Rollout") stamped.push([ended.policyVersion, now])
          })
      })
      yield* collect(Orchestrator.steps({ ...base, sources: [source] })).pipe(
        Effect.provide(journal),
        Effect.provide(layer)
      )
      expect(new Set(stamped.map(([stamp]) => stamp))).toEqual(new Set([0, 1, 2]))
      expect(stamped.every(([stamp, now]) => stamp === now)).toBe(true)
    })
  )

  it.effect("CKPT-08: evaluations run once at each due step, on the weights that the step made", () => {
    const { layer } = setup()
    const due: Array<number> = []
    return Effect.gen(function* () {
      const evaluate = (step: number) =>
        Effect.sync(() => {
          if (step % 2 === 0) due.push(step)
          return []
        })
      yield* collect(Orchestrator.steps({ ...base, sources: [source], evaluate }))
      expect(due).toEqual([2, 4])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a step is recorded before its checkpoint: what a resumed run goes on behind has been told", () => {
    const { layer, seen } = setup()
    return Effect.gen(function* () {
      const order: Array<readonly [step: number, checkpoints: number]> = []
      const record = ({ step }: StepReport) => Effect.sync(() => void order.push([step, seen.checkpoints.length]))
      yield* collect(Orchestrator.steps({ ...base, sources: [source], record }))
      expect(order).toEqual([
        [1, 0],
        [2, 1],
        [3, 2],
        [4, 3]
      ])
    }).pipe(Effect.provide(layer))
  })
})
