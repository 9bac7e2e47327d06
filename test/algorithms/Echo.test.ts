import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Layer, Stream } from "effect"
import Echo from "../../src/algorithms/Echo.ts"
import Grpo from "../../src/algorithms/Grpo.ts"
import * as MicroBatch from "../../src/MicroBatch.ts"
import * as Pipeline from "../../src/Pipeline.ts"
import type { Rollout } from "../../src/Rollout.ts"
import type { Trace } from "../../src/Trace.ts"
import * as Testing from "../../src/testing/index.ts"

const samplesOf = (rollouts: Iterable<Rollout>, layer: ReturnType<typeof Echo.layer> = Echo.layer()) =>
  Stream.fromIterable(rollouts).pipe(
    Pipeline.score,
    Pipeline.dependentSets,
    Pipeline.samples,
    Testing.collect,
    Effect.provide(layer)
  )
const rounded = (stream: Float32Array | undefined) => stream && Array.from(stream, (value) => Number(value.toFixed(4)))

/** Weights in `ce` of the one sample of a trace. */
const ceOf = (trace: Trace, layer?: ReturnType<typeof Echo.layer>) =>
  Effect.map(samplesOf(Testing.group([1, 0], { trace }), layer), ([item]) => {
    assert(item?._tag === "Compiled")
    return rounded(item.samples[0]!.ceWeights)
  })

/** prompt [1, 2] · action [3, 4] · observation [5, 6] · action [7, 8] */
const turns = (role: "tool" | "user" | "system" = "tool", content: ReadonlyArray<number> = [1, 1]) =>
  Testing.conversation(
    Testing.node("user", [1, 2]),
    Testing.node("assistant", [3, 4]),
    Testing.node(role, [5, 6], { content }),
    Testing.node("assistant", [7, 8])
  )
const problems = (config: unknown) => {
  const left = Either.getLeft(Echo.configure(config))
  assert(left._tag === "Some", `${JSON.stringify(config)} is refused`)
  return left.value.problems.map(({ message, path }) => `${path}: ${message}`)
}

describe("Echo", () => {
  it.effect("is GRPO on what was sampled, and a tenth of cross-entropy on what the tools answered", () =>
    Effect.gen(function* () {
      const items = yield* samplesOf(Testing.group([1, 0], { trace: turns() }))
      const grpo = yield* Testing.score(Grpo.layer(), Testing.group([1, 0], { trace: turns() }))
      for (const [i, item] of items.entries()) {
        assert(item._tag === "Compiled")
        const [sample] = item.samples
        assert.deepStrictEqual(rounded(sample!.ceWeights), [0, 0, 0, 0, 0.1, 0.1, 0, 0])
        const advantage = Object.values(Testing.advantages(grpo))[i] as number
        assert.deepStrictEqual(rounded(sample!.advantages), [0, 0, advantage, advantage, 0, 0, advantage, advantage])
        assert.strictEqual(sample!.rlWeights, undefined)
      }
    })
  )

  it.effect("by role, on bodies alone, and after the first response alone", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* ceOf(turns("user")), undefined)
      assert.deepStrictEqual(yield* ceOf(turns("user"), Echo.layer({ roles: { user: 0.05 } })), [
        ...[0, 0, 0, 0, 0.05, 0.05, 0, 0]
      ])
      assert.strictEqual(yield* ceOf(turns("tool"), Echo.layer({ roles: { user: 0.05 } })), undefined)
      assert.deepStrictEqual(yield* ceOf(turns("tool", [0, 1])), [0, 0, 0, 0, 0, 0.1, 0, 0])
    })
  )

  it.effect("ADV-20: equal rewards leave the observations to learn from", () =>
    Effect.gen(function* () {
      const ids = (length: number, from: number) => Array.from({ length }, (_, i) => from + i)
      const trace = Testing.conversation(
        Testing.node("user", [1, 2]),
        Testing.node("assistant", ids(3, 10)),
        Testing.node("tool", ids(12, 20)),
        Testing.node("assistant", ids(3, 40))
      )
      const rollouts = Testing.group([1, 1, 1, 1], { trace })
      const samples = (yield* samplesOf(rollouts)).flatMap((item) => (item._tag === "Compiled" ? item.samples : []))
      assert.lengthOf(samples, 4)
      const { counts } = MicroBatch.pack(samples, { maxSequenceLength: 64 })
      assert.deepStrictEqual(counts, { rl: 0, ce: 48, refKl: 0 })
      for (const { ceWeights } of samples) {
        const weights = Array.from(ceWeights!).filter((weight) => weight !== 0)
        assert.deepStrictEqual(weights, Array(12).fill(Math.fround(0.1)))
      }
      const grpo = yield* Testing.collect(
        Pipeline.sampled({ name: "mock", rollouts: Stream.fromIterable(rollouts), algorithm: Grpo.layer() })
      )
      assert.deepStrictEqual(
        grpo.map((item) => item._tag === "Compiled" && item.samples.length),
        [0, 0, 0, 0]
      )
    })
  )

  it("takes a weight as a number or as alpha, tools at 0.1 unless told, and a table that replaces that", () => {
    const rolesOf = (config: unknown) =>
      Either.map(Echo.configure(config), ({ config }) => (config as { readonly roles: unknown }).roles)
    assert.deepStrictEqual(rolesOf({}), Either.right({ tool: 0.1 }))
    assert.deepStrictEqual(rolesOf({ roles: { tool: { alpha: 0.2 } } }), Either.right({ tool: 0.2 }))
    assert.deepStrictEqual(
      rolesOf({ roles: { user: 0.05, system: { alpha: 1 } } }),
      Either.right({ user: 0.05, system: 1 })
    )
  })

  it("O12: no role at all, a weight that is not above 0, or a role that there is not, is refused", () => {
    assert.deepStrictEqual(problems({ roles: {} }), ["roles: at least one role must have a weight"])
    for (const alpha of [0, -1, Number.POSITIVE_INFINITY, Number.NaN, 1e308, 1e-320]) {
      assert.match(problems({ roles: { tool: { alpha } } }).join(), /^roles\.tool: /, `${alpha}`)
      assert.match(problems({ roles: { tool: alpha } }).join(), /^roles\.tool: /, `${alpha}`)
    }
    for (const tool of ["x", {}, { alpha: "x" }, null]) {
      assert.deepStrictEqual(problems({ roles: { tool } }), [
        "roles.tool: it must be a weight such as 0.1, or { alpha = 0.1 }"
      ])
    }
    for (const roles of [true, 0.1, []]) {
      assert.deepStrictEqual(problems({ roles }), [
        "roles: it must be a table of weights by role, such as { tool = 0.1 }"
      ])
    }
    assert.deepStrictEqual(problems({ filter: "./filter.ts" }), [
      'filter: it must be a table such as { import_path = "./filter.ts" }'
    ])
    assert.deepStrictEqual(problems({ length_penalty: "linear" }), [
      'length_penalty: it must be a table such as { type = "linear" }'
    ])
    assert.match(problems({ roles: { tools: 0.1 } }).join(), /^roles\.tools: is unexpected/)
    assert.match(problems({ lenght_penalty: {} }).join(), /^lenght_penalty: is unexpected/)
  })

  it.effect("shapes rewards as GRPO does, and refuses what GRPO refuses", () =>
    Effect.gen(function* () {
      const config = { length_penalty: { type: "linear" } } as const
      const rollouts = Testing.group([1, 1]).map((one, i) => ({
        ...one,
        trace: Testing.conversation(Testing.node("user", [1]), Testing.node("assistant", Array(4 + 4 * i).fill(2)))
      }))
      const [echo, grpo] = yield* Effect.all([
        Testing.score(Echo.layer(config), rollouts),
        Testing.score(Grpo.layer(config), rollouts)
      ])
      assert.deepStrictEqual(Testing.advantages(echo), Testing.advantages(grpo))
      assert.notStrictEqual(Testing.advantages(echo)["g0/0"], 0)
      const source = { name: "chess", groupSize: 1, seats: ["a", "b"], frozen: true }
      const checked = Either.getOrThrow(Echo.configure({})).check(source)
      assert.deepStrictEqual(
        checked.map(({ path }) => path),
        ["sampling.source", "group_size", "algo.type"]
      )
    })
  )
})

describe("Echo with a filter", () => {
  const path = fileURLToPath(new URL("../data/modules/observationFilter.mjs", import.meta.url))
  const withAnswers = (answers: Readonly<Record<string, unknown>>) =>
    Echo.layer({ filter: { import_path: path, kwargs: { answers } } })
  /** what the filter makes of scaffold 5 and body 6, 7 */
  const weightsOf = (answer: unknown) => ceOf(Testing.toolUse, withAnswers({ tool: answer }))

  it.effect("keeps a message, drops it, or keeps some of its body", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* weightsOf(true), [0, 0, 0, 0, 0, 0.1, 0.1, 0, 0])
      assert.strictEqual(yield* weightsOf(false), undefined)
      assert.deepStrictEqual(yield* weightsOf("firstBodyToken"), [0, 0, 0, 0, 0, 0.1, 0, 0, 0])
      assert.deepStrictEqual(yield* weightsOf([1, 0, 1]), [0, 0, 0, 0, 0, 0, 0.1, 0, 0])
      assert.deepStrictEqual(yield* weightsOf(Uint8Array.of(1, 1, 0)), [0, 0, 0, 0, 0, 0.1, 0, 0, 0])
      assert.strictEqual(yield* weightsOf([0, 0, 0]), undefined)
    })
  )

  it.effect("sees the rollout; an answer that does not fit costs it alone, by name", () =>
    Effect.gen(function* () {
      const wrong: ReadonlyArray<readonly [unknown, string]> = [
        [[true], "the filter gave a mask of 1 for the 3 tokens of message 2 of rollout g0/0"],
        [undefined, "the filter gave undefined for message 2 of rollout g0/0: it must give true, false or a mask"],
        ["yes", "the filter gave yes for message 2 of rollout g0/0: it must give true, false or a mask"],
        [1, "the filter gave 1 for message 2 of rollout g0/0: it must give true, false or a mask"]
      ]
      for (const [answer, words] of wrong) {
        const layer = withAnswers({ "g0/0": answer, tool: answer === undefined ? undefined : true })
        const items = yield* samplesOf(Testing.group([1, 0, 0.5], { trace: Testing.toolUse }), layer)
        const [first] = items.filter((item) => item._tag === "Absent")
        assert(first !== undefined && first.reason._tag === "Failed")
        assert.strictEqual(first.reason.message, `echo.scoreRollout of g0/0: ${words}`)
        if (answer !== undefined)
          assert.lengthOf(
            items.filter((item) => item._tag === "Compiled"),
            2
          )
      }
    })
  )

  it.effect("the filter of the examples leaves out what is too long", () =>
    Effect.gen(function* () {
      const filter = (longest: number) =>
        Echo.layer({ filter: { import_path: "./examples/short-observations.ts", kwargs: { longest } } })
      assert.deepStrictEqual(yield* ceOf(Testing.toolUse, filter(3)), [0, 0, 0, 0, 0, 0.1, 0.1, 0, 0])
      assert.strictEqual(yield* ceOf(Testing.toolUse, filter(2)), undefined)
    })
  )

  it.effect("a module that is not there, or is no filter, is told before anything runs", () =>
    Effect.gen(function* () {
      const failure = (import_path: string) =>
        Effect.map(
          Effect.flip(Effect.scoped(Layer.build(Echo.layer({ filter: { import_path } })))),
          ({ message }) => message
        )
      assert.include(yield* failure("./no-such-filter.ts"), 'module "./no-such-filter.ts"')
      const plain = fileURLToPath(new URL("../data/modules/plain.mjs", import.meta.url))
      assert.strictEqual(
        yield* failure(plain),
        `the default export of filter ${plain} is no function (message, rollout, kwargs) => true, false or a mask`
      )
      assert.deepStrictEqual(problems({ filter: {} }), ["filter.import_path: is missing"])
    })
  )
})
