import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Checkpoint from "../src/Checkpoint.ts"
import * as Mock from "../src/Trainer/Mock.ts"
import * as PackedLoss from "../src/Trainer/PackedLoss.ts"

const layer = (options: Checkpoint.Options) =>
  Checkpoint.layerDirectory(options).pipe(
    Layer.provide(Mock.layerMock()),
    Layer.provide(PackedLoss.layerMock({ logprobs: ({ logprobs }) => logprobs }))
  )

const writeAfter = (options: Checkpoint.Options, steps: ReadonlyArray<number>, last: number) =>
  Effect.gen(function* () {
    const { afterStep } = yield* Checkpoint.Checkpoints
    for (const step of steps)
      yield* afterStep({ step, steps: last, ahead: step < last, state: { sampler: { groups: step } } })
  }).pipe(Effect.provide(layer(options)))

const numbers = (to: number) => Array.from({ length: to }, (_, i) => i + 1)

describe("Checkpoint", () => {
  it.scoped("is written at every interval and after the last step, and read back", () =>
    Effect.gen(function* () {
      const directory = yield* (yield* FileSystem.FileSystem).makeTempDirectoryScoped()
      yield* writeAfter({ directory, interval: 4 }, numbers(10), 10)
      expect(yield* Checkpoint.list(directory)).toEqual([4, 8, 10])
      expect(yield* Checkpoint.read(`${directory}/step_8`)).toEqual({
        step: 8,
        ahead: true,
        state: { sampler: { groups: 8 } }
      })
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("CKPT-02: the latest is the largest number, and only whole checkpoints count", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      for (const name of ["step_9", "step_10", "step_100", "step_100.tmp", "notes"]) {
        yield* fs.makeDirectory(`${directory}/${name}`)
        yield* fs.writeFileString(`${directory}/${name}/checkpoint.json`, "{}")
      }
      yield* fs.makeDirectory(`${directory}/step_200`)
      yield* fs.writeFileString(`${directory}/step_300`, "")
      expect(yield* Checkpoint.list(directory)).toEqual([9, 10, 100])
      expect(yield* Checkpoint.list(`${directory}/absent`)).toEqual([])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("says what is wrong with a checkpoint, and what to do", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = `${yield* fs.makeTempDirectoryScoped()}/step_4`
      yield* fs.makeDirectory(directory)
      const reading = (text: string) =>
        Effect.gen(function* () {
          yield* fs.writeFileString(`${directory}/checkpoint.json`, text)
          return String(yield* Effect.flip(Checkpoint.read(directory)))
        })
      expect(yield* reading("{")).toMatch(/step_4: checkpoint\.json is damaged .*take this directory away/)
      expect(yield* reading('{"format_version":1,"step":"4","ahead":true,"state":{}}')).toMatch(/damaged \(step: /)
      expect(yield* reading('{"format_version":1,"step":3,"ahead":true,"state":{}}')).toMatch(/is that of step 3/)
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it("keeps the newest and the multiples", () => {
    expect(Checkpoint.expired([10, 20, 30, 40, 45], { keepLast: 2, keepInterval: 20 })).toEqual([10, 30])
    expect(Checkpoint.expired([10, 9, 100], { keepLast: 1, keepInterval: undefined })).toEqual([9, 10])
    expect(Checkpoint.expired([1, 2, 3], { keepLast: undefined, keepInterval: 2 })).toEqual([])
  })

  it.scoped("removes what has expired as it goes", () =>
    Effect.gen(function* () {
      const directory = yield* (yield* FileSystem.FileSystem).makeTempDirectoryScoped()
      yield* writeAfter({ directory, interval: 1, keepLast: 2, keepInterval: 3 }, numbers(7), 7)
      expect(yield* Checkpoint.list(directory)).toEqual([3, 6, 7])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("CKPT-07: a format of another release is refused with both versions", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      yield* fs.writeFileString(
        `${directory}/checkpoint.json`,
        '{"format_version":999,"step":3,"ahead":true,"state":{}}'
      )
      const exit = yield* Effect.exit(Checkpoint.read(directory))
      expect(Exit.isFailure(exit) && String(exit.cause)).toMatch(/format version is 999, this primerl reads 1/)
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("a model is copied without what only training needs", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      yield* fs.makeDirectory(`${directory}/from/optimizer`, { recursive: true })
      for (const name of ["model.safetensors", "config.json", "checkpoint.json"]) {
        yield* fs.writeFileString(`${directory}/from/${name}`, name)
      }
      yield* Checkpoint.copyModel(`${directory}/from`, `${directory}/to`)
      expect((yield* fs.readDirectory(`${directory}/to`)).sort()).toEqual(["config.json", "model.safetensors"])
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
