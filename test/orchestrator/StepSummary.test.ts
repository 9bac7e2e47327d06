import * as Either from "effect/Either"
import { describe, expect, it } from "vitest"
import * as Credit from "../../src/Credit.ts"
import * as MicroBatch from "../../src/MicroBatch.ts"
import type { Item } from "../../src/orchestrator/Dispatcher.ts"
import * as StepSummary from "../../src/orchestrator/StepSummary.ts"
import type { Compiled } from "../../src/Pipeline.ts"
import { absent, type Rollout } from "../../src/Rollout.ts"
import * as TrainingSample from "../../src/TrainingSample.ts"
import { conversation, node, rollout } from "../../src/testing/index.ts"

const compiled = (one: Rollout, advantage: number): Compiled => {
  const credit = Credit.uniform(advantage)
  const samples = Either.getOrThrow(TrainingSample.make({ rollout: one, credit }))
  const signal = samples.some(TrainingSample.hasSignal)
  return {
    _tag: "Compiled",
    rollout: one,
    credit,
    samples: signal ? samples : [],
    signal,
    tokens: 4,
    withoutSignal: signal ? 0 : 1
  } as unknown as Compiled
}
const of = (items: ReadonlyArray<Item>, step = 9) =>
  StepSummary.report({
    step,
    steps: 20,
    items,
    packed: MicroBatch.pack(StepSummary.samples(items), { maxSequenceLength: 64 }),
    trained: undefined,
    seconds: 2,
    previous: 0.25,
    evaluations: []
  })

describe("a step's report", () => {
  it("staleness is (step − 1) − version at dispatch, over the samples that were trained", () => {
    const items = [
      compiled(rollout({ id: "a", policyVersion: 8 }), 1),
      compiled(rollout({ id: "b", policyVersion: 7 }), -1),
      compiled(rollout({ id: "c", policyVersion: 0 }), 0)
    ]
    expect(of(items).staleness).toEqual({ mean: 0.5, max: 1 })
    expect(of([compiled(rollout({ policyVersion: 0 }), 1)], 1).staleness).toEqual({ mean: 0, max: 0 })
    expect(of([]).staleness).toEqual({ mean: 0, max: 0 })
  })

  it("the trainable share is over the tokens of real samples, prompts included, padding not", () => {
    const trace = conversation(node("user", [1, 2, 3]), node("assistant", [4]))
    expect(of([compiled(rollout({ trace }), 1)]).trainableShare).toBe(0.25)
  })

  it("reward and metrics are means over the rollouts that count, a metric over those that have it", () => {
    const items = [
      compiled(rollout({ id: "a", reward: 1, metrics: { words: 4 } }), 1),
      compiled(rollout({ id: "b", reward: 0, metrics: { words: 2, depth: 7 } }), 0),
      absent(rollout({ id: "c", reward: 100, metrics: { words: 99 } }), { _tag: "Cancelled", why: "stale" })
    ]
    const report = of(items)
    expect(report).toMatchObject({ reward: 0.5, rewardChange: 0.25, rollouts: 2, zeroSignal: 1 })
    expect(report.metrics).toEqual({ words: 3, depth: 7 })
    expect(report.tokensPerSecond).toBe(report.tokens / 2)
  })

  it("ASYNC-06: every error of a group is counted, by who is to blame", () => {
    const failed = (id: string) =>
      absent(rollout({ id }), { _tag: "Failed" as const, blame: "tools" as const, message: `${id} died` })
    const items = [failed("a"), failed("b"), failed("c"), compiled(rollout({ id: "d" }), 1)]
    expect(of(items).absent).toEqual({ "Failed/tools": 3 })
    expect(StepSummary.failing(items, 0.5)).toMatch(/3 of 4 rollouts of "mock" failed.*tools: c died/)
    expect(StepSummary.failing(items, 0.75)).toBeUndefined()
  })
})
