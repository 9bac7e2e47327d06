import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Layer, Option, Stream } from "effect"
import Opsd from "../../src/algorithms/Opsd.ts"
import * as Checkpoint from "../../src/Checkpoint.ts"
import * as Environment from "../../src/Environment.ts"
import { Inference, InferenceError, type InferenceService } from "../../src/Inference.ts"
import * as Mock from "../../src/inference/Mock.ts"
import * as Journal from "../../src/Journal.ts"
import * as Orchestrator from "../../src/Orchestrator.ts"
import * as Permits from "../../src/Permits.ts"
import * as Pipeline from "../../src/Pipeline.ts"
import type { Rollout } from "../../src/Rollout.ts"
import * as State from "../../src/State.ts"
import * as Trainer from "../../src/Trainer/Mock.ts"
import * as PackedLoss from "../../src/Trainer/PackedLoss.ts"
import * as Testing from "../../src/testing/index.ts"

const vocabularySize = Testing.END + 1

/** The policy with another `score`. */
const policy = (parts: Partial<InferenceService>) =>
  Layer.effect(
    Inference,
    Effect.map(Mock.make({ vocabularySize }), (mock) => ({ ...mock, ...parts }))
  )
const samplesOf = (
  rollouts: Iterable<Rollout>,
  config: Parameters<typeof Opsd.layer>[0] = {},
  inference: Layer.Layer<Inference> = Mock.layerMock({ vocabularySize })
) =>
  Stream.fromIterable(rollouts).pipe(
    Pipeline.score,
    Pipeline.dependentSets,
    Pipeline.samples,
    Testing.collect,
    Effect.provide(Layer.provide(Opsd.layer(config), Layer.merge(inference, Testing.layerRenderer)))
  )
const messageOf = (item: { readonly _tag: string } | undefined) => {
  assert(item !== undefined && "reason" in item)
  const reason = item.reason as { readonly _tag: string; readonly blame?: string; readonly message?: string }
  assert.deepStrictEqual([reason._tag, reason.blame], ["Failed", "algorithm"])
  return reason.message!
}
const shown = { info: { demonstration: "olleh" } }

describe("Opsd", () => {
  it.effect(
    "the reference is the policy's own opinion of the same tokens after the demonstration, and no token of it",
    () =>
      Effect.gen(function* () {
        const template = "For example: {demonstration}"
        const [item] = yield* samplesOf([Testing.rollout({ ...shown, trace: Testing.toolUse })], { template })
        assert(item?._tag === "Compiled" && item.signal)
        const [sample] = item.samples
        assert.deepStrictEqual(Array.from(sample!.refKlWeights!), [0, 0, 1, 1, 0, 0, 0, 1, 1])
        assert.deepStrictEqual(Array.from(sample!.rlWeights!), Array(9).fill(0))
        const system = 256
        const hint = [system, ...Testing.bytes("For example: olleh"), Testing.END]
        const model = yield* Mock.make({ vocabularySize })
        const whole = yield* model.score(Int32Array.from([...hint, ...sample!.tokenIds]))
        assert.deepStrictEqual(sample!.referenceLogprobs, whole.slice(hint.length))
      })
  )

  it.effect("asks at the sampling temperature, with the hint before every branch", () =>
    Effect.gen(function* () {
      const asked: Array<readonly [string, number | undefined]> = []
      const score: InferenceService["score"] = (ids, temperature) => {
        asked.push([Testing.textOf(ids), temperature])
        return Effect.succeed(new Float32Array(ids.length).fill(-1))
      }
      const [x, y, z] = ["x", "y", "z"].map((text) => Testing.bytes(text)[0]!)
      const trace = {
        nodes: [
          Testing.node("user", [x!]),
          Testing.node("assistant", [y!], { parent: 0 }),
          Testing.node("assistant", [z!], { parent: 0 })
        ]
      }
      const rollout = Testing.rollout({ ...shown, trace, temperature: 0.7 })
      yield* samplesOf([rollout], { template: "<{demonstration}>" }, policy({ score }))
      assert.deepStrictEqual(asked, [
        ["<olleh>xy", 0.7],
        ["<olleh>xz", 0.7]
      ])
    })
  )

  it.effect(
    "a demonstration is taken as it stands, wherever the template has room for it, under the key of the config",
    () =>
      Effect.gen(function* () {
        const asked: Array<string> = []
        const score: InferenceService["score"] = (ids) => {
          asked.push(Testing.textOf(ids))
          return Effect.succeed(new Float32Array(ids.length).fill(-1))
        }
        const trace = Testing.conversation(Testing.node("user", [10]), Testing.node("assistant", [10]))
        const rollout = Testing.rollout({ trace, info: { solution: "$& costs $1 {demonstration}" } })
        const config = { demo_key: "solution", template: "{demonstration}|{demonstration}" }
        yield* samplesOf([rollout], config, policy({ score }))
        assert.deepStrictEqual(asked, ["$& costs $1 {demonstration}|$& costs $1 {demonstration}\n\n"])
      })
  )

  it.effect("a rollout whose task demonstrates nothing says which key it lacks and where to give it", () =>
    Effect.gen(function* () {
      const without = [
        Testing.rollout({ id: "none" }),
        Testing.rollout({ id: "blank", info: { demonstration: "" } }),
        Testing.rollout({ id: "other", info: { answer: "42" } })
      ]
      const items = yield* samplesOf([...without, Testing.rollout({ id: "with", ...shown })])
      assert.deepStrictEqual(
        items.slice(0, 3).map(messageOf),
        [
          ["none", "nothing"],
          ["blank", '"demonstration"'],
          ["other", '"answer"']
        ].map(
          ([id, given]) =>
            `opsd.scoreRollout of ${id}: its task has no text under info "demonstration" (it has ${given}): give one with \`info\` in Environment.make, or name another key with demo_key`
        )
      )
      assert.strictEqual(items[3]?._tag, "Compiled")
    })
  )

  it.effect("what the policy cannot read with the demonstration before it is an error that names the lengths", () =>
    Effect.gen(function* () {
      const config = { template: "{demonstration}" }
      const rollout = Testing.rollout({ ...shown, trace: Testing.toolUse })
      const [item] = yield* samplesOf([rollout], config, policy({ maxSequenceLength: 15 }))
      assert.include(
        messageOf(item),
        "opsd.scoreRollout of r0: a hint of 7 tokens and branch 0 of 9 make 16, and mock reads at most 15"
      )
      const [fits] = yield* samplesOf([rollout], config, policy({ maxSequenceLength: 16 }))
      assert.strictEqual(fits?._tag, "Compiled")
    })
  )

  it.effect("a policy that fails, or answers with another number or with NaN, costs the rollout and is no zero", () =>
    Effect.gen(function* () {
      const scores: ReadonlyArray<readonly [InferenceService["score"], RegExp]> = [
        [() => Effect.fail(new InferenceError({ endpoint: "policy", reason: "gone" })), /inference policy: gone/],
        [(ids) => Effect.succeed(new Float32Array(ids.length - 1)), /3 log-probabilities for 4 tokens/],
        [(ids) => Effect.succeed(new Float32Array(ids.length).fill(Number.NaN)), /a value is NaN/]
      ]
      for (const [score, words] of scores) {
        const [item] = yield* samplesOf([Testing.rollout(shown)], {}, policy({ score }))
        assert.match(messageOf(item), words)
      }
    })
  )

  it.effect(
    "in a run the demonstration is what the task says of itself, and the policy asked is the one that sampled",
    () => {
      const said: Array<string> = []
      let serving = 0
      const environment = Environment.make({
        name: "backwards",
        tasks: [
          { prompt: "abc", answer: "cba" },
          { prompt: "xyz", answer: "zyx" }
        ],
        info: ({ answer }) => ({ demonstration: answer }),
        reward: () => 0
      })
      return Effect.gen(function* () {
        const mock = yield* Mock.make({ vocabularySize })
        const inference = Layer.succeed(Inference, {
          ...mock,
          score: (ids, temperature) => {
            said.push(`v${serving} ${Testing.textOf(ids).slice(0, 6)}`)
            return mock.score(ids, temperature)
          },
          adopt: (weights) =>
            Effect.sync(() => {
              serving = weights.version
            })
        } satisfies InferenceService)
        const versions: Array<string> = []
        const journal = Layer.succeed(Journal.Journal, {
          find: () => Option.none(),
          append: (_step, ended) => {
            assert(ended._tag === "Rollout")
            versions.push(
              `v${ended.policyVersion} ${ended.info.demonstration}${ended.info.demonstration === "cba" ? "abc" : "xyz"}`
            )
            return Effect.void
          },
          seal: () => Effect.void,
          sealed: () => Effect.succeedNone
        })
        const reports = yield* Testing.collect(
          Orchestrator.steps({
            sources: [
              {
                environment,
                algorithm: Opsd.layer({ template: "{demonstration}" }),
                groupSize: 2,
                sampling: { maxTokens: 8 }
              }
            ],
            steps: 4,
            batchSize: 4,
            maxSequenceLength: 256
          })
        ).pipe(
          Effect.provide([
            Layer.provide(Trainer.layerMock(), PackedLoss.layerMock({ logprobs: ({ logprobs }) => logprobs })),
            Checkpoint.layerNone,
            Permits.layer(64),
            State.layer(),
            Testing.layerRenderer,
            inference,
            journal
          ])
        )
        assert.deepStrictEqual(
          reports.map(({ absent, loss, rollouts }) => [rollouts, absent, loss.rl, loss.refKl !== 0]),
          Array(4).fill([4, {}, 0, true])
        )
        assert.deepStrictEqual(said.toSorted(), versions.toSorted())
        assert.strictEqual(new Set(said).size, 6)
      })
    }
  )

  it("fills in its key and a template that has room for the demonstration, and refuses one that has none", () => {
    const { config } = Either.getOrThrow(Opsd.configure({}))
    const { demo_key, template } = config as { readonly demo_key: string; readonly template: string }
    assert.strictEqual(demo_key, "demonstration")
    assert.include(template, "{demonstration}")
    const left = Either.getLeft(Opsd.configure({ template: "Answer well." }))
    assert(left._tag === "Some")
    assert.strictEqual(
      left.value.message,
      "algorithm opsd, template: it must hold {demonstration}, where the demonstration goes"
    )
  })

  it("O13: rollouts of a frozen model are refused", () => {
    const config = Either.getOrThrow(Opsd.configure({}))
    const source = { name: "code", groupSize: 1, seats: ["policy"], frozen: false }
    assert.deepStrictEqual(config.check(source), [])
    assert.deepStrictEqual(
      config.check({ ...source, frozen: true }).map(({ path }) => path),
      ["sampling.source"]
    )
  })
})
