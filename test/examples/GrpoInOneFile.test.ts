import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { type Step, settings, train } from "../../examples/grpo-in-one-file.ts"
import * as Config from "../../src/Config.ts"
import * as Run from "../../src/Run.ts"

const path = (relative: string) => fileURLToPath(new URL(`../../${relative}`, import.meta.url))

const small = { ...settings, steps: 3, groups: 4, groupSize: 4, maxTokens: 12 }

const digest = (directory: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.map(fs.readFile(`${directory}/model.safetensors`), (bytes) =>
      createHash("sha256").update(bytes).digest("hex")
    )
  )

/** What `primerl train` makes of the same few steps. */
const run = (outputDir: string) =>
  Effect.gen(function* () {
    const config = yield* Config.loadTrain(
      [path("examples/reverse-text/rl.toml")],
      [
        `output_dir=${outputDir}`,
        `max_steps=${small.steps}`,
        `orchestrator.batch_size=${small.groups * small.groupSize}`,
        `orchestrator.group_size=${small.groupSize}`,
        `orchestrator.train.sampling.max_completion_tokens=${small.maxTokens}`
      ]
    )
    const { directory, steps } = yield* Run.train(config, { resume: false })
    const reports = Chunk.toReadonlyArray(yield* Stream.runCollect(steps))
    return {
      steps: reports.map(({ gradNorm, loss, reward, step }) => ({ step, reward, loss: loss.total, gradNorm })),
      weights: yield* digest(`${directory.checkpoints}/step_${small.steps}`)
    }
  })

describe("examples/grpo-in-one-file.ts", () => {
  it("fits in one file", () => {
    expect(readFileSync(path("examples/grpo-in-one-file.ts"), "utf8").split("\n").length).toBeLessThan(250)
  })

  it.scoped("has the rewards, losses, gradients and weights of the run with the same seed, bit for bit", () =>
    Effect.gen(function* () {
      const directory = yield* (yield* FileSystem.FileSystem).makeTempDirectoryScoped()
      const told: Array<Step> = []
      const trainer = yield* train(small, (step) => Effect.sync(() => told.push(step)))
      yield* trainer.save(`${directory}/by-hand`)
      const expected = yield* run(directory)
      expect(yield* digest(`${directory}/by-hand`)).toBe(expected.weights)
      const exactly = (steps: ReadonlyArray<Step>) => steps.map(({ loss: _, ...others }) => others)
      expect(exactly(told)).toEqual(exactly(expected.steps))
      // exp of the two languages differs in its last bit, which a gradient in float32 does not see and a loss in float64 does
      expected.steps.forEach(({ loss }, i) => {
        expect(Math.abs(told[i]!.loss - loss)).toBeLessThan(1e-14)
      })
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
