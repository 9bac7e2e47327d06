import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Layer, Stream } from "effect"
import Opd from "../../src/algorithms/Opd.ts"
import * as Endpoints from "../../src/Endpoints.ts"
import { InferenceError } from "../../src/Inference.ts"
import * as Mock from "../../src/inference/Mock.ts"
import * as Pipeline from "../../src/Pipeline.ts"
import * as Registry from "../../src/Registry.ts"
import type { Rollout } from "../../src/Rollout.ts"
import type * as Trace from "../../src/Trace.ts"
import * as Testing from "../../src/testing/index.ts"

const teacher = { name: "expert", base_url: ["http://localhost:8001/v1"] } as const
const layer = Opd.layer({ teacher })

/** A teacher of which only what it is asked to score matters. */
const scoring = (score: Endpoints.FrozenModel["score"], maxSequenceLength = 4096): Layer.Layer<Endpoints.Endpoints> =>
  Endpoints.layerOf(({ name }) =>
    Effect.map(Mock.make({ name }), (mock) => ({ ...mock, name, maxSequenceLength, score }))
  )
const samplesOf = (rollouts: Iterable<Rollout>, endpoints: Layer.Layer<Endpoints.Endpoints>) =>
  Stream.fromIterable(rollouts).pipe(
    Pipeline.score,
    Pipeline.dependentSets,
    Pipeline.samples,
    Testing.collect,
    Effect.provide(Layer.provide(layer, endpoints))
  )
const messageOf = (
  item: Pipeline.Compiled | Pipeline.Scored | { readonly _tag: "Absent"; readonly reason: unknown }
) => {
  assert(item._tag === "Absent")
  const reason = item.reason as { readonly _tag: string; readonly blame?: string; readonly message?: string }
  assert.deepStrictEqual([reason._tag, reason.blame], ["Failed", "algorithm"])
  return reason.message!
}

/** prompt of 3 · action of 2, and from there twice an observation of 2 and an action of 3 */
const forked: Trace.Trace = {
  nodes: [
    Testing.node("user", [1, 2, 3]),
    Testing.node("assistant", [4, 5], { parent: 0 }),
    Testing.node("tool", [6, 7], { parent: 1 }),
    Testing.node("assistant", [8, 9, 10], { parent: 2 }),
    Testing.node("tool", [11, 12], { parent: 1 }),
    Testing.node("assistant", [13, 14, 15], { parent: 4 })
  ]
}

describe("Opd", () => {
  it.effect("trains the sampled tokens, and no others, with refKl against the teacher's log-probabilities", () =>
    Effect.gen(function* () {
      const rollout = Testing.rollout({ trace: Testing.toolUse, reward: 1 })
      const [item] = yield* samplesOf([rollout], Testing.layerEndpoints)
      assert(item?._tag === "Compiled" && item.signal)
      const [sample, ...more] = item.samples
      assert.deepStrictEqual(more, [])
      assert.deepStrictEqual(Array.from(sample!.refKlWeights!), [0, 0, 1, 1, 0, 0, 0, 1, 1])
      assert.deepStrictEqual(Array.from(sample!.rlWeights!), Array(9).fill(0))
      assert.strictEqual(sample!.advantages, undefined)
      const model = yield* Mock.make({ name: "expert", vocabularySize: Testing.END + 1, salt: "expert" })
      assert.deepStrictEqual(sample!.referenceLogprobs, yield* model.score(sample!.tokenIds))
    })
  )

  it.effect("the teacher is asked at the temperature that the rollout was sampled at", () =>
    Effect.gen(function* () {
      const asked: Array<number | undefined> = []
      const model = scoring((ids, temperature) => {
        asked.push(temperature)
        return Effect.succeed(new Float32Array(ids.length).fill(-1))
      })
      yield* samplesOf([Testing.rollout({ temperature: 0.7 }), Testing.rollout({ id: "r1", temperature: 1 })], model)
      assert.deepStrictEqual(asked, [0.7, 1])
    })
  )

  it.effect("a policy that is its own teacher is drawn nowhere, at any temperature", () =>
    Effect.gen(function* () {
      const policy = yield* Mock.make({ name: "policy", vocabularySize: Testing.END + 1 })
      const temperature = 0.5
      const { logprobs, tokenIds } = yield* policy.generate(Int32Array.of(1, 2, 3), {
        temperature,
        maxTokens: 6,
        stopTokenIds: [],
        seed: 3
      })
      const said = { ...Testing.node("assistant", Array.from(tokenIds)), logprobs }
      const rollout = Testing.rollout({
        trace: Testing.conversation(Testing.node("user", [1, 2, 3]), said),
        temperature
      })
      const [item] = yield* samplesOf([rollout], scoring(policy.score))
      assert(item?._tag === "Compiled")
      const sample = item.samples[0]!
      for (let i = 3; i < 9; i++) assert.closeTo(sample.referenceLogprobs![i]!, sample.logprobs[i]!, 1e-6)
    })
  )

  it.effect("every branch is read whole, from its root, and a shared token is trained once", () =>
    Effect.gen(function* () {
      const asked: Array<ReadonlyArray<number>> = []
      const model = scoring((ids) => {
        asked.push(Array.from(ids))
        return Effect.succeed(Float32Array.from(ids, (id, i) => (i === 0 ? 0 : -id - asked.length / 100)))
      })
      const [item] = yield* samplesOf([Testing.rollout({ trace: forked })], model)
      assert.deepStrictEqual(asked, [
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]
      ])
      assert(item?._tag === "Compiled")
      const members = item.samples.map(({ referenceLogprobs, refKlWeights }) =>
        Array.from(referenceLogprobs!)
          .filter((_, i) => refKlWeights![i] !== 0)
          .map((value) => Number(value.toFixed(4)))
      )
      assert.deepStrictEqual(members, [
        [-4.01, -5.01, -8.01, -9.01, -10.01],
        [-13.02, -14.02, -15.02]
      ])
    })
  )

  it.effect("branches are scored together, but no more than a few at a time", () =>
    Effect.gen(function* () {
      let now = 0
      let most = 0
      const model = scoring((ids) =>
        Effect.gen(function* () {
          most = Math.max(most, ++now)
          yield* Effect.repeatN(Effect.yieldNow(), 5)
          now--
          return new Float32Array(ids.length)
        })
      )
      const leaves = Array.from({ length: 40 }, (_, i) => Testing.node("assistant", [100 + i], { parent: 0 }))
      yield* samplesOf([Testing.rollout({ trace: { nodes: [Testing.node("user", [1]), ...leaves] } })], model)
      assert.isAbove(most, 1)
      assert.isAtMost(most, 8)
    })
  )

  it.effect("a teacher that fails costs the rollout it was asked about, by name, and no other", () =>
    Effect.gen(function* () {
      const model = scoring((ids) =>
        ids.length > 4
          ? Effect.fail(new InferenceError({ endpoint: "expert", reason: "503 from every replica" }))
          : Effect.succeed(new Float32Array(ids.length).fill(-1))
      )
      const items = yield* samplesOf(
        [Testing.rollout({ id: "long", trace: Testing.toolUse }), Testing.rollout({ id: "short" })],
        model
      )
      const long = items.find((item) => item._tag === "Absent")!
      assert.strictEqual(messageOf(long), "opd.scoreRollout of long: inference expert: 503 from every replica")
      assert.strictEqual(items.filter((item) => item._tag === "Compiled").length, 1)
    })
  )

  it.effect("a rollout that is longer than the teacher reads is an error that says how long both are", () =>
    Effect.gen(function* () {
      let asked = 0
      const model = scoring((ids) => {
        asked++
        return Effect.succeed(new Float32Array(ids.length))
      }, 8)
      const [item] = yield* samplesOf([Testing.rollout({ trace: Testing.toolUse })], model)
      assert.include(messageOf(item!), "opd.scoreRollout of r0: branch 0 has 9 tokens, and expert reads at most 8")
      assert.strictEqual(asked, 0)
      const fits = yield* samplesOf(
        [Testing.rollout({ trace: Testing.toolUse })],
        scoring((ids) => Effect.succeed(new Float32Array(ids.length).fill(-1)), 9)
      )
      assert.strictEqual(fits[0]?._tag, "Compiled")
    })
  )

  it.effect("too few, too many or broken log-probabilities are errors, never zeros", () =>
    Effect.gen(function* () {
      const answers: ReadonlyArray<readonly [(length: number) => Float32Array, RegExp]> = [
        [(length) => new Float32Array(length - 1), /3 log-probabilities for 4 tokens of branch 0, rollout r0/],
        [(length) => new Float32Array(length + 1), /5 log-probabilities for 4 tokens of branch 0, rollout r0/],
        [(length) => new Float32Array(length).fill(Number.NaN), /opd\.scoreRollout: a value is NaN/],
        [(length) => new Float32Array(length).fill(Number.NEGATIVE_INFINITY), /a value is -Infinity/]
      ]
      for (const [answer, words] of answers) {
        const [item] = yield* samplesOf(
          [Testing.rollout()],
          scoring((ids) => Effect.succeed(answer(ids.length)))
        )
        assert.match(messageOf(item!), words)
      }
    })
  )

  it("O15, O16: needs a teacher, by name and address, that is not the policy", () => {
    const problems = (config: unknown) => {
      const left = Either.getLeft(Opd.configure(config))
      assert(left._tag === "Some")
      return left.value.problems.map(({ message, path }) => `${path}: ${message}`)
    }
    assert.deepStrictEqual(problems({}), ["teacher: is missing"])
    assert.deepStrictEqual(problems({ teacher: "policy" }), [
      "teacher: it must say where a model is served: { name, base_url }"
    ])
    assert.deepStrictEqual(problems({ teacher: { name: "expert" } }), ["teacher.base_url: is missing"])
    for (const base_url of [
      "localhost:8000",
      8000,
      "http://x/v1?key=secret",
      "http://x/v1#a",
      "http://[",
      "http://a b"
    ]) {
      assert.deepStrictEqual(problems({ teacher: { name: "expert", base_url } }), [
        "teacher.base_url: it must be a URL such as http://localhost:8000/v1, or a list of them"
      ])
    }
    const inList = problems({ teacher: { name: "expert", base_url: ["localhost:8000"] } })
    assert.include(inList, "teacher.base_url.0: a URL such as http://localhost:8000/v1")
    assert.match(problems({ teacher: { ...teacher, tempo: 1 } }).join(), /^teacher\.tempo: is unexpected/)
  })

  it("O13: rollouts of a frozen model are refused; groups of one and several seats are not", () => {
    const source = { name: "code", groupSize: 1, seats: ["a", "b"], frozen: false }
    const config = Either.getOrThrow(Opd.configure({ teacher }))
    assert.deepStrictEqual(config.check(source), [])
    const [problem] = config.check({ ...source, frozen: true })
    assert.strictEqual(problem?.path, "sampling.source")
    assert.include(problem?.message, 'source "code" samples from a frozen model')
  })

  it.effect("a teacher that cannot be reached is told by the algorithm's name", () =>
    Effect.gen(function* () {
      const { layer } = yield* Registry.make([Opd], () => Effect.void).resolve({ type: "opd", teacher })
      const provided = Layer.provide(layer, Layer.merge(Testing.layerProvided, Endpoints.layerNone))
      const error = yield* Effect.flip(Effect.scoped(Layer.build(provided)))
      assert.strictEqual(
        error.message,
        "algorithm opd could not start: inference expert: this program connects to no endpoints"
      )
    })
  )

  it.effect("two sources have a teacher each", () =>
    Effect.gen(function* () {
      const of = (name: string) =>
        Pipeline.source({
          name,
          algorithm: Opd.layer({ teacher: { ...teacher, name: `${name}-expert` } }),
          rollouts: Stream.make(Testing.rollout({ id: name, source: name }))
        })
      const items = yield* Testing.collect(Pipeline.merge(of("code"), of("math")))
      for (const item of items) {
        assert(item._tag === "Compiled")
        const salt = `${item.rollout.source}-expert`
        const model = yield* Mock.make({ vocabularySize: Testing.END + 1, salt })
        assert.deepStrictEqual(item.samples[0]!.referenceLogprobs, yield* model.score(item.samples[0]!.tokenIds))
      }
    }).pipe(Effect.provide(Testing.layerEndpoints))
  )
})
