import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Algorithm from "../../src/Algorithm.ts"
import Grpo from "../../src/algorithms/Grpo.ts"
import * as Checkpoint from "../../src/Checkpoint.ts"
import * as Credit from "../../src/Credit.ts"
import * as DependentSet from "../../src/DependentSet.ts"
import * as Environment from "../../src/Environment.ts"
import { Inference } from "../../src/Inference.ts"
import * as Journal from "../../src/Journal.ts"
import * as Orchestrator from "../../src/Orchestrator.ts"
import * as Permits from "../../src/Permits.ts"
import { plannedOf, type Rollout } from "../../src/Rollout.ts"
import * as State from "../../src/State.ts"
import * as Mock from "../../src/Trainer/Mock.ts"
import * as PackedLoss from "../../src/Trainer/PackedLoss.ts"
import { layerPolicy, layerRenderer } from "../doubles/byteChat.ts"

const letters = layerPolicy(({ sampling }) => "ab"[sampling.seed % 2]!)

const setup = (policy: Layer.Layer<Inference> = letters, journal = Journal.layerNone) =>
  Layer.mergeAll(Mock.layerMock(), Checkpoint.layerNone, journal, Permits.layer(64), State.layer()).pipe(
    Layer.provide(PackedLoss.layerMock({ logprobs: ({ logprobs }) => logprobs })),
    Layer.merge(layerRenderer),
    Layer.merge(policy)
  )
const environment = (tasks: ReadonlyArray<string>) =>
  Environment.make({ name: "letters", tasks, reward: (_, { reply }) => (reply === "a" ? 1 : 0) })
const source = { environment: environment(["task"]), algorithm: Grpo.layer(), groupSize: 4 }
const base = { batchSize: 8, steps: 4, seed: 7, maxSequenceLength: 256, sources: [source] }
const collect = <A, E, R>(stream: Stream.Stream<A, E, R>) =>
  Effect.map(Stream.runCollect(stream), Chunk.toReadonlyArray)
const failure = <A, E>(exit: Exit.Exit<A, E>) => (Exit.isFailure(exit) ? String(exit.cause) : "succeeded")

describe("bounds", () => {
  it.effect("ADV-21: rollouts with nothing to train are replaced, and counted as such", () =>
    Effect.gen(function* () {
      // The second task leaves no room for an answer.
      const tasks = environment(["task", "x".repeat(300)])
      const [report] = yield* collect(
        Orchestrator.steps({ ...base, steps: 1, sources: [{ ...source, environment: tasks }] })
      )
      expect(report!.rollouts).toBeGreaterThanOrEqual(8)
      expect(report!.absent.NothingTrainable! % 4).toBe(0)
      expect(report!.absent.NothingTrainable).toBeGreaterThan(0)
    }).pipe(Effect.provide(setup(layerPolicy(({ sampling }) => "ab"[sampling.seed % 2]!, { maxSequenceLength: 300 }))))
  )

  it.effect("CUR-03: when nothing counts, a step plans so many rounds and then says what it got", () =>
    Effect.gen(function* () {
      const tasks = environment(["x".repeat(300)])
      const exit = yield* Effect.exit(
        collect(Orchestrator.steps({ ...base, maxRefills: 2, sources: [{ ...source, environment: tasks }] }))
      )
      expect(failure(exit)).toMatch(/step 1: none of 24 rollouts counts after 3 rounds \(24 NothingTrainable\)/)
      expect(failure(exit)).toContain("raise seq_len")
    }).pipe(Effect.provide(setup(layerPolicy(() => "a", { maxSequenceLength: 300 }))))
  )

  it.effect(
    "PACK-05: steps whose samples are all cut before anything to train say that, not that rewards are equal",
    () =>
      Effect.gen(function* () {
        const exit = yield* Effect.exit(
          collect(Orchestrator.steps({ ...base, maxSequenceLength: 5, maxEmptyBatches: 2 }))
        )
        expect(failure(exit)).toMatch(/2 steps in a row had nothing to train/)
        expect(failure(exit)).not.toMatch(/no group's rewards differ/)
        expect(failure(exit)).toMatch(/length/)
      }).pipe(Effect.provide(setup()))
  )
})

describe("order", () => {
  /** Its advantage is the reward less a running mean: it depends on the order in which rollouts are scored. */
  const Running = Algorithm.define({
    type: "running",
    actionLoss: "rl",
    dependsOn: DependentSet.self,
    hooks: () =>
      Effect.gen(function* () {
        const cell = yield* (yield* State.State).cell({ name: "mean", schema: Schema.Number, initial: 0 })
        return {
          scoreGroup: ([one]: ReadonlyArray<Rollout>) =>
            Effect.map(
              Ref.getAndUpdate(cell, (mean) => mean / 2 + one!.reward),
              (before) => [Credit.uniform(one!.reward - before)]
            )
        }
      })
  })

  it.effect("what finishes first decides nothing: the state of an algorithm is the same", () =>
    Effect.gen(function* () {
      const run = (yields: (seed: number) => number) =>
        Effect.gen(function* () {
          const inner = yield* Effect.provide(Inference, letters)
          const policy = Layer.succeed(Inference, {
            ...inner,
            generate: (promptIds, sampling) =>
              Effect.repeatN(Effect.yieldNow(), yields(sampling.seed)).pipe(
                Effect.zipRight(inner.generate(promptIds, sampling))
              )
          })
          const gradients: Array<string> = []
          const losses = PackedLoss.layerMock({
            logprobs: ({ logprobs }) => logprobs,
            onGradient: (_, gradient) => gradients.push(gradient.join())
          })
          const layer = Layer.mergeAll(
            Mock.layerMock(),
            Checkpoint.layerNone,
            Journal.layerNone,
            Permits.layer(64),
            State.layer()
          ).pipe(Layer.provide(losses), Layer.merge(layerRenderer), Layer.merge(policy))
          yield* collect(
            Orchestrator.steps({
              ...base,
              sources: [
                { ...source, environment: environment(["a", "b", "c"]), algorithm: Running.layer(), groupSize: 1 }
              ]
            })
          ).pipe(Effect.provide(layer))
          return gradients
        })
      const even = yield* run(() => 1)
      expect(even.length).toBeGreaterThan(0)
      expect(yield* run((seed) => seed % 7)).toEqual(even)
      expect(yield* run((seed) => 6 - (seed % 7))).toEqual(even)
    })
  )

  it.effect("an algorithm sees a rollout only once it is in the journal", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const journal = Layer.succeed(Journal.Journal, {
        find: () => Option.none(),
        append: (_, ended) =>
          Effect.repeatN(Effect.yieldNow(), 3).pipe(
            Effect.zipRight(Effect.sync(() => log.push(`written ${plannedOf(ended).id}`)))
          ),
        seal: () => Effect.void,
        sealed: () => Effect.succeedNone
      })
      const watching = Algorithm.define({
        type: "watching",
        actionLoss: "rl",
        hooks: () => ({
          scoreRollout: (one: Rollout) => {
            log.push(`scored ${one.id}`)
            return Credit.uniform(one.reward)
          }
        })
      })
      yield* collect(
        Orchestrator.steps({ ...base, steps: 1, sources: [{ ...source, algorithm: watching.layer() }] })
      ).pipe(Effect.provide(setup(letters, journal)))
      const scored = log.filter((line) => line.startsWith("scored"))
      expect(scored.length).toBe(8)
      for (const line of scored) {
        expect(log.indexOf(line)).toBeGreaterThan(log.indexOf(line.replace("scored", "written")))
        expect(log).toContain(line.replace("scored", "written"))
      }
    })
  )
})

describe("a checkpoint", () => {
  const step = { step: 2, steps: 2, ahead: false, state: {} }
  const under = (directory: string, change: (fs: FileSystem.FileSystem) => Partial<FileSystem.FileSystem>) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const layer = Checkpoint.layerDirectory({ directory }).pipe(
        Layer.provide(Mock.layerMock({ onSave: () => {} })),
        Layer.provide(PackedLoss.layerMock({ logprobs: ({ logprobs }) => logprobs })),
        Layer.provide(Layer.succeed(FileSystem.FileSystem, { ...fs, ...change(fs) }))
      )
      return yield* Effect.exit(
        Effect.flatMap(Checkpoint.Checkpoints, ({ afterStep }) => afterStep(step)).pipe(Effect.provide(layer))
      )
    })

  it.scoped("has its name only by being renamed: what stops before leaves none that could be resumed from", () =>
    Effect.gen(function* () {
      const directory = yield* (yield* FileSystem.FileSystem).makeTempDirectoryScoped()
      const exit = yield* under(directory, () => ({ rename: () => Effect.dieMessage("killed") }))
      expect(Exit.isFailure(exit)).toBe(true)
      expect(yield* Checkpoint.list(directory)).toEqual([])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("is never written to under its own name", () =>
    Effect.gen(function* () {
      const directory = yield* (yield* FileSystem.FileSystem).makeTempDirectoryScoped()
      const written: Array<string> = []
      const exit = yield* under(directory, (fs) => ({
        writeFileString: (path, ...rest) => {
          written.push(path)
          return fs.writeFileString(path, ...rest)
        }
      }))
      expect(Exit.isSuccess(exit)).toBe(true)
      expect(written).toEqual([`${directory}/step_2.tmp/checkpoint.json`])
      expect(yield* Checkpoint.list(directory)).toEqual([2])
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
