import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Directory from "../../src/run/Directory.ts"

const config = "max_steps = 10\nseed = 1\n\n[trainer.optim]\nlr = 1e-3\n\n[ckpt]\ninterval = 5\n"
const reason = <A, E>(exit: Exit.Exit<A, E>) => (Exit.isFailure(exit) ? String(exit.cause) : "succeeded")
const create = (options: Parameters<typeof Directory.create>[0]) => Effect.scoped(Directory.create(options))
/** As a run does it: what was opened is taken up. */
const resume = (options: Parameters<typeof Directory.resume>[0]) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { rows, run } = yield* Directory.resume(options)
      yield* Directory.rewind(run, rows, options.config)
      return run
    })
  )
const rows = (steps: ReadonlyArray<number>) => steps.map((step) => `{"step":${step},"reward":0.5}\n`).join("")

const test = (
  name: string,
  body: (outputDir: string, fs: FileSystem.FileSystem) => Effect.Effect<void, unknown, never | NodeContext.NodeContext>
) =>
  it.scoped(name, () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      yield* body(yield* fs.makeTempDirectoryScoped(), fs)
    }).pipe(Effect.provide(NodeContext.layer))
  )

describe("run directory", () => {
  test("a new run never writes into that of another", (outputDir, fs) =>
    Effect.gen(function* () {
      const names: Array<string> = []
      for (let i = 0; i < 3; i++) names.push((yield* create({ outputDir, name: "reverse", config })).path)
      expect(names).toEqual(["reverse", "reverse-2", "reverse-3"].map((name) => `${outputDir}/${name}`))
      yield* fs.makeDirectory(`${outputDir}/reverse-text`)
      expect((yield* create({ outputDir, name: "reverse", config })).path).toBe(`${outputDir}/reverse-4`)
    }))

  test("runs that start at once each get a directory of their own", (outputDir) =>
    Effect.gen(function* () {
      const start = create({ outputDir: `${outputDir}/runs`, name: "run", config })
      const started = yield* Effect.all(Array(4).fill(start) as ReadonlyArray<typeof start>, {
        concurrency: "unbounded"
      })
      expect(new Set(started.map(({ path }) => path)).size).toBe(4)
    }))

  test("resume takes the newest directory at its newest checkpoint and cuts its metrics back", (outputDir, fs) =>
    Effect.gen(function* () {
      yield* create({ outputDir, name: "run", config })
      const newest = yield* create({ outputDir, name: "run", config })
      yield* fs.makeDirectory(`${newest.checkpoints}/step_5`, { recursive: true })
      yield* fs.writeFileString(`${newest.checkpoints}/step_5/checkpoint.json`, "{}")
      yield* fs.makeDirectory(`${newest.checkpoints}/step_7.tmp`)
      yield* fs.writeFileString(newest.metrics, `${rows([1, 2, 3, 4, 5, 6, 7])}{"step":8,"rew`)
      const run = yield* resume({ outputDir, name: "run", config })
      expect([run.path, run.resumedFrom]).toEqual([newest.path, 5])
      expect(yield* fs.readFileString(run.metrics)).toBe(rows([1, 2, 3, 4, 5]))
    }))

  test("a row of metrics that cannot be read is named, and nothing is written over it", (outputDir, fs) =>
    Effect.gen(function* () {
      const run = yield* create({ outputDir, name: "run", config })
      const broken = `${rows([1])}{"step":2,"rew\n${rows([3])}`
      yield* fs.writeFileString(run.metrics, broken)
      const exit = yield* Effect.exit(resume({ outputDir, name: "run", config }))
      expect(reason(exit)).toMatch(/metrics.jsonl: line 2 is no row/)
      expect(yield* fs.readFileString(run.metrics)).toBe(broken)
    }))

  test("rows whose steps do not rise or whose reward is none are named", (outputDir, fs) =>
    Effect.gen(function* () {
      const run = yield* create({ outputDir, name: "run", config })
      for (const [line, what] of [
        ["5", "not an object"],
        ['{"reward":1}', "step must be a whole number above 1"],
        ['{"step":1,"reward":1}', "step must be a whole number above 1"],
        ['{"step":2,"reward":"x"}', "reward must be a number or null"]
      ] as const) {
        yield* fs.writeFileString(run.metrics, `${rows([1])}${line}\n`)
        expect(reason(yield* Effect.exit(resume({ outputDir, name: "run", config })))).toContain(
          "line 2 is no row of metrics (it"
        )
        expect(reason(yield* Effect.exit(resume({ outputDir, name: "run", config })))).toContain(what)
      }
      yield* fs.writeFileString(run.metrics, '{"step":1,"reward":null}\n')
      expect(Exit.isSuccess(yield* Effect.exit(resume({ outputDir, name: "run", config })))).toBe(true)
    }))

  test("resume passes over a directory whose run never began", (outputDir, fs) =>
    Effect.gen(function* () {
      const begun = yield* create({ outputDir, name: "run", config })
      yield* fs.writeFileString(begun.metrics, rows([1]))
      const failed = yield* create({ outputDir, name: "run", config })
      yield* fs.makeDirectory(failed.rollouts)
      expect((yield* resume({ outputDir, name: "run", config })).path).toBe(begun.path)
    }))

  test("resume without a checkpoint begins at the start, in the same directory", (outputDir, fs) =>
    Effect.gen(function* () {
      const run = yield* create({ outputDir, name: "run", config })
      yield* fs.writeFileString(run.metrics, rows([1, 2]))
      const again = yield* resume({ outputDir, name: "run", config })
      expect([again.path, again.resumedFrom, yield* fs.readFileString(run.metrics)]).toEqual([run.path, undefined, ""])
    }))

  test("a changed configuration is no resume; more steps and other checkpoints are", (outputDir) =>
    Effect.gen(function* () {
      yield* create({ outputDir, name: "run", config })
      const with_ = (from: string, to: string) => resume({ outputDir, name: "run", config: config.replace(from, to) })
      expect(Exit.isSuccess(yield* Effect.exit(with_("max_steps = 10", "max_steps = 20")))).toBe(true)
      expect(Exit.isSuccess(yield* Effect.exit(with_("interval = 5", "interval = 2")))).toBe(true)
      const changed = reason(yield* Effect.exit(with_("lr = 1e-3", "lr = 2e-3")))
      expect(changed).toContain("- [trainer.optim] lr = 1e-3")
      expect(changed).toContain("+ [trainer.optim] lr = 2e-3")
    }))

  test("teachers may move, but not change places", (outputDir) =>
    Effect.gen(function* () {
      const teacher = (name: string, port: number) =>
        `[[orchestrator.train.source]]\nname = "${name}"\n\n[orchestrator.train.source.algo.teacher]\nname = "${name}"\nbase_url = ["http://a:${port}/v1"]\n`
      const [first, second] = [teacher("math", 1), teacher("code", 2)]
      yield* create({ outputDir, name: "run", config: `${first}\n${second}` })
      const with_ = (text: string) => Effect.exit(resume({ outputDir, name: "run", config: text }))
      expect(Exit.isSuccess(yield* with_(`${first.replace("a:1", "b:7")}\n${second}`))).toBe(true)
      expect(reason(yield* with_(`${second}\n${first}`))).toContain(
        '- [orchestrator.train.source.algo.teacher] (2) name = "code"'
      )
    }))

  test("nothing to resume says so", (outputDir) =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(resume({ outputDir, name: "run", config }))
      expect(reason(exit)).toMatch(/there is no run to resume/)
    }))
})
