import { describe, expect, it } from "vitest"
import * as Credit from "../../src/Credit.ts"
import * as MicroBatch from "../../src/MicroBatch.ts"
import type { Item } from "../../src/orchestrator/Dispatcher.ts"
import * as StepSummary from "../../src/orchestrator/StepSummary.ts"
import { compile } from "../../src/pipeline/samples.ts"
import { absent, type Rollout } from "../../src/Rollout.ts"
import { conversation, node, rollout } from "../../src/testing/index.ts"

const compiled = (one: Rollout, advantage: number): Item =>
  compile({ _tag: "Scored", rollout: one, credit: Credit.uniform(advantage) })

const of = (items: ReadonlyArray<Item>, step = 9, sources: ReadonlyArray<StepSummary.Source> = [{ name: "mock" }]) =>
  StepSummary.report({
    step,
    steps: 20,
    items,
    sources,
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
    expect(of([])).toMatchObject({ reward: Number.NaN, rewardChange: Number.NaN, rollouts: 0 })
  })

  it("ASYNC-06: every error of a group is counted, by who is to blame", () => {
    const failed = (id: string) =>
      absent(rollout({ id }), { _tag: "Failed" as const, blame: "tools" as const, message: `${id} died` })
    const items = [failed("a"), failed("b"), failed("c"), compiled(rollout({ id: "d" }), 1)]
    expect(of(items).absent).toEqual({ "Failed/tools": 3 })
    expect(StepSummary.failing(items, 0.5)).toMatch(/3 of 4 rollouts of "mock" failed.*tools: c died/)
    expect(StepSummary.failing(items, 0.75)).toBeUndefined()
  })

  it("a reward that is no number counts as a failure of its source, and is told as that", () => {
    const none = (id: string) => absent(rollout({ id }), { _tag: "NoReward", reward: Number.NaN })
    const cancelled = absent(rollout({ id: "c" }), { _tag: "Cancelled", why: "stale" })
    expect(StepSummary.failing([none("a"), none("b"), cancelled], 0.5)).toMatch(
      /2 of 3 rollouts of "mock" failed.*\(2 NoReward, 1 Cancelled\); the last one: the reward is NaN/
    )
    expect(StepSummary.failing([none("a"), cancelled], 0.5)).toBeUndefined()
  })

  it("says of each source what it says of all, and NaN where no rollout of it counts", () => {
    const items = [
      compiled(rollout({ id: "a", source: "math", reward: 1, metrics: { words: 4 } }), 1),
      compiled(rollout({ id: "b", source: "math", reward: 0, metrics: { words: 2 } }), 0),
      compiled(rollout({ id: "c", source: "search", reward: 1 }), -1),
      absent(rollout({ id: "d", source: "code" }), { _tag: "Cancelled", why: "stale" })
    ]
    const { reward, rollouts, sources } = of(items, 9, [{ name: "math" }, { name: "search" }, { name: "code" }])
    expect({ reward, rollouts }).toEqual({ reward: 2 / 3, rollouts: 3 })
    const none = { absent: {}, metrics: {}, samples: 1, zeroSignal: 0 }
    expect(sources).toEqual([
      { ...none, name: "math", reward: 0.5, rollouts: 2, zeroSignal: 1, metrics: { words: 3 } },
      { ...none, name: "search", reward: 1, rollouts: 1 },
      { ...none, name: "code", reward: Number.NaN, rollouts: 0, samples: 0, absent: { Cancelled: 1 } }
    ])
  })

  it("what a frozen model sampled is never stale, and may be imitated but not compared with the policy", () => {
    const imitated = (id: string) =>
      compile({
        _tag: "Scored",
        rollout: rollout({ id, source: "expert", policyVersion: 0 }),
        credit: Credit.actions("ce")
      })
    const sources = [{ name: "math" }, { name: "expert", model: { name: "teacher" } }]
    const items = [compiled(rollout({ id: "a", source: "math", policyVersion: 8 }), 1), imitated("b"), imitated("c")]
    expect(of(items, 9, sources).staleness).toEqual({ mean: 0, max: 0 })
    expect(StepSummary.misused(items, sources)).toBeUndefined()
    const compared = compiled(rollout({ id: "d", source: "expert" }), 1)
    expect(StepSummary.misused([...items, compared], sources)).toMatch(
      /source "expert" samples from the frozen model teacher.*rollout d by rl or refKl/
    )
    expect(StepSummary.misused([...items, compared], [{ name: "math" }, { name: "expert" }])).toBeUndefined()
    const cut = [{ name: "math" }, { name: "expert", restrictions: ["top_p 0.9", "min_p 0.1"] }]
    expect(StepSummary.misused(items, cut)).toBeUndefined()
    expect(StepSummary.misused([...items, compared], cut)).toMatch(
      /source "expert" samples with top_p 0.9 and min_p 0.1.*rollout d by rl or refKl, which need samples of the whole/
    )
  })
})
