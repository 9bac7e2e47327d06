import { describe, expect, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import Grpo from "../../src/algorithms/Grpo.ts"
import Opd from "../../src/algorithms/Opd.ts"
import Sft from "../../src/algorithms/Sft.ts"
import * as Checkpoint from "../../src/Checkpoint.ts"
import * as Endpoints from "../../src/Endpoints.ts"
import * as Environment from "../../src/Environment.ts"
import { InferenceError } from "../../src/Inference.ts"
import * as Journal from "../../src/Journal.ts"
import type { MicroBatch } from "../../src/MicroBatch.ts"
import * as Orchestrator from "../../src/Orchestrator.ts"
import * as Permits from "../../src/Permits.ts"
import type { Ended, Rollout } from "../../src/Rollout.ts"
import * as State from "../../src/State.ts"
import * as Mock from "../../src/Trainer/Mock.ts"
import * as PackedLoss from "../../src/Trainer/PackedLoss.ts"
import { bytes, END } from "../../src/testing/index.ts"
import { layerPolicy, layerRenderer } from "../doubles/byteChat.ts"

const environment = Environment.make({
  name: "letters",
  tasks: Array.from({ length: 10 }, (_, i) => `task ${i}`),
  reward: (_, { reply }) => (reply === "a" ? 1 : 0)
})

/** Always says "c", and by its own account hardly ever would. */
const frozen = (name: string, calls = Number.POSITIVE_INFINITY): Endpoints.FrozenModel => {
  let left = calls
  return {
    name,
    maxSequenceLength: 4096,
    generate: () =>
      Effect.succeed({
        tokenIds: Int32Array.of(...bytes("c"), END),
        logprobs: Float32Array.of(-9, -9),
        finishReason: "stop",
        policyVersion: 0
      }),
    score: (ids) =>
      Effect.suspend(() =>
        left-- > 0
          ? Effect.succeed(new Float32Array(ids.length).fill(-0.7))
          : Effect.fail(new InferenceError({ endpoint: name, reason: "nothing answers there any more" }))
      )
  }
}

const setup = (teacher: Endpoints.FrozenModel, policy: { readonly maxSequenceLength?: number } = {}) => {
  const ended: Array<Ended> = []
  const gradients: Array<{ readonly batch: MicroBatch; readonly gradient: Float32Array }> = []
  const layer = Layer.mergeAll(
    Mock.layerMock(),
    Checkpoint.layerNone,
    Layer.succeed(Journal.Journal, {
      find: Option.none,
      append: (_, one) => Effect.sync(() => void ended.push(one)),
      seal: () => Effect.void,
      sealed: () => Effect.succeedNone
    }),
    Permits.layer(64),
    State.layer(),
    Endpoints.layerOf(() => teacher)
  ).pipe(
    Layer.provide(
      PackedLoss.layerMock({
        // The policy's own, whoever sampled.
        logprobs: ({ mask }) => Float32Array.from(mask, () => -0.5),
        onGradient: (batch, gradient) => gradients.push({ batch, gradient })
      })
    ),
    Layer.merge(layerRenderer),
    Layer.merge(layerPolicy(({ sampling }) => "ab"[sampling.seed % 2]!, policy))
  )
  return { ended, gradients, layer }
}

const endpoint = { name: "wise", base_url: ["http://localhost:1/v1"] } as const
const options = { batchSize: 48, steps: 3, seed: 7, maxSequenceLength: 256 }
const math = { name: "math", environment, algorithm: Grpo.layer(), groupSize: 4 }
const taught = { name: "taught", environment, algorithm: Opd.layer({ teacher: endpoint }), groupSize: 4 }
const imitated = { name: "imitated", environment, algorithm: Sft.layer(), groupSize: 4, model: frozen("expert") }

const failure = <A, E>(exit: Exit.Exit<A, E>) => (Exit.isFailure(exit) ? String(exit.cause) : "succeeded")

describe("a mixed run", () => {
  it.effect("rl, refKl and ce of three sources share micro-batches; each source has its numbers", () => {
    const { ended, gradients, layer } = setup(frozen("wise"))
    return Effect.gen(function* () {
      const sources = [math, taught, imitated]
      const reports = Chunk.toReadonlyArray(yield* Stream.runCollect(Orchestrator.steps({ ...options, sources })))
      expect(gradients.some(({ batch }) => new Set(batch.samples.map(({ source }) => source)).size === 3)).toBe(true)
      const last = reports[2]!
      expect(last.loss.ce).toBeGreaterThan(0)
      expect(gradients.some(({ batch }) => batch.advantages.some((advantage) => advantage !== 0))).toBe(true)
      expect(last.loss.refKl).not.toBe(0)
      expect(last.sources.map(({ name }) => name)).toEqual(["math", "taught", "imitated"])
      const [one, two, three] = last.sources
      expect(one!.rollouts + two!.rollouts + three!.rollouts).toBe(last.rollouts)
      expect(one!.reward).toBeGreaterThan(0)
      expect(three!.reward).toBe(0)
      // The frozen model's samples are of no version of the policy, and no measure of it.
      expect(last.staleness).toEqual({ mean: 1, max: 1 })
      expect(reports.map(({ mismatchKl }) => mismatchKl)).toEqual([0, 0, 0])
      const labels = new Set(ended.map((one) => JSON.stringify([(one as Rollout).source, (one as Rollout).labels])))
      expect(labels).toEqual(new Set(['["math",{}]', '["taught",{}]', '["imitated",{"model":"expert"}]']))
    }).pipe(Effect.provide(layer))
  })

  it.effect("what GRPO moves, it moves the same without the others", () => {
    const slopes = (sources: ReadonlyArray<typeof math | typeof taught | typeof imitated>) => {
      const { gradients, layer } = setup(frozen("wise"))
      return Stream.runDrain(Orchestrator.steps({ ...options, steps: 1, sources })).pipe(
        Effect.provide(layer),
        Effect.map(() => {
          const of = new Map<string, number>()
          for (const { batch, gradient } of gradients) {
            let start = 0
            for (const { advantages, mask, rollout, source } of batch.samples) {
              for (const [i, slope] of gradient.subarray(start, start + mask.length).entries()) {
                if (source === "math" && mask[i] === 1) of.set(`${rollout}/${i}`, slope / (advantages?.[i] ?? 1))
              }
              start += mask.length
            }
          }
          return of
        })
      )
    }
    return Effect.gen(function* () {
      const mixed = yield* slopes([math, taught, imitated])
      const alone = yield* slopes([math])
      const shared = [...mixed.keys()].filter((key) => alone.has(key))
      expect(shared.length).toBeGreaterThan(4)
      // Per unit of advantage, times the members of rl: of the others there are none.
      for (const key of shared) expect(mixed.get(key)! * mixed.size).toBeCloseTo(alone.get(key)! * alone.size, 6)
    })
  })

  it.effect("a frozen model is asked for no more than the policy could read", () => {
    const lengths: Array<number> = []
    const wise = frozen("expert")
    const asked: Endpoints.FrozenModel = {
      ...wise,
      generate: (promptIds, sampling) => {
        lengths.push(promptIds.length + sampling.maxTokens)
        return wise.generate(promptIds, sampling)
      }
    }
    const { layer } = setup(wise, { maxSequenceLength: 24 })
    return Effect.gen(function* () {
      const sources = [{ ...imitated, model: asked }]
      yield* Stream.runDrain(Orchestrator.steps({ ...options, steps: 1, sources }))
      expect(new Set(lengths)).toEqual(new Set([24]))
    }).pipe(Effect.provide(layer))
  })

  it.effect("a resumed run may ask a frozen model again, whose weights are never gone", () => {
    const { ended, layer } = setup(frozen("wise"))
    return Effect.gen(function* () {
      const resumed = { ...options, firstStep: 3, sources: [imitated] }
      const reports = yield* Stream.runCollect(Orchestrator.steps(resumed))
      expect(Chunk.toReadonlyArray(reports).map(({ rollouts, step }) => [step, rollouts])).toEqual([[3, 48]])
      expect(ended.length).toBe(48)
    }).pipe(Effect.provide(layer))
  })

  it.effect("a teacher that dies stops the run past the rate, with the source's name and the teacher's", () => {
    const { layer } = setup(frozen("wise", 20))
    return Effect.gen(function* () {
      const exit = yield* Effect.exit(Stream.runDrain(Orchestrator.steps({ ...options, sources: [math, taught] })))
      expect(failure(exit)).toMatch(
        /step \d: \d+ of \d+ rollouts of "taught" failed, more than max_error_rate 0\.5 allows \(\d+ Failed\/algorithm\); the last one: algorithm: opd\.scoreRollout of taught\/\d+\/\d: inference wise: nothing answers there any more/
      )
    }).pipe(Effect.provide(layer))
  })

  it.effect("a frozen model's samples are not for algorithms that compare with the policy", () => {
    const { gradients, layer } = setup(frozen("wise"))
    return Effect.gen(function* () {
      const source = { ...imitated, algorithm: Opd.layer({ teacher: endpoint }) }
      const exit = yield* Effect.exit(Stream.runDrain(Orchestrator.steps({ ...options, sources: [source] })))
      expect(failure(exit)).toMatch(/step 1: source "imitated" samples from the frozen model expert/)
      expect(gradients).toEqual([])
    }).pipe(Effect.provide(layer))
  })
})
