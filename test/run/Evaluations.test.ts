import { fileURLToPath } from "node:url"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Config from "../../src/Config.ts"
import * as Run from "../../src/Run.ts"

const rl = fileURLToPath(new URL("../../examples/reverse-text/rl.toml", import.meta.url))

describe("evaluations of a run", () => {
  it.scoped(
    "CKPT-08: are at multiples of their interval, once each, and a resumed run repeats none that is recorded",
    () =>
      Effect.gen(function* () {
        const outputDir = yield* (yield* FileSystem.FileSystem).makeTempDirectoryScoped()
        const open = (resume: boolean) =>
          Effect.flatMap(
            Config.loadTrain(
              [rl],
              [
                `output_dir=${outputDir}`,
                "max_steps=6",
                "orchestrator.batch_size=8",
                "orchestrator.group_size=4",
                "orchestrator.train.sampling.max_completion_tokens=4",
                "orchestrator.eval.interval=2",
                "orchestrator.eval.num_examples=2",
                "orchestrator.eval.sampling.max_completion_tokens=4",
                "ckpt.interval=2",
                "trainer.engine.threads=1"
              ]
            ),
            (config) => Run.train(config, { resume })
          )
        const evaluated: Array<number> = []
        const note = (
          steps: Stream.Stream<{ readonly step: number; readonly evaluations: ReadonlyArray<unknown> }, unknown>
        ) =>
          Stream.runForEach(steps, ({ evaluations, step }) =>
            Effect.sync(() => {
              if (evaluations.length > 0) evaluated.push(step)
            })
          )
        const first = yield* open(false)
        yield* note(Stream.take(first.steps, 4) as never)
        const again = yield* open(true)
        yield* note(again.steps as never)
        expect(evaluated).toEqual([2, 4, 6])
      }).pipe(Effect.provide(NodeContext.layer))
  )
})
