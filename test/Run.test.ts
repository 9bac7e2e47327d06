import { createHash } from "node:crypto"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { fileURLToPath } from "node:url"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Config from "../src/Config.ts"
import * as Run from "../src/Run.ts"
import * as Merge from "../src/run/Merge.ts"

const rl = fileURLToPath(new URL("../examples/reverse-text/rl.toml", import.meta.url))
const policy = fileURLToPath(new URL("../examples/reverse-text/policy", import.meta.url))

const livePolicy = fileURLToPath(new URL("data/modules/livePolicy.ts", import.meta.url))

const load = (outputDir: string, ...sets: ReadonlyArray<string>) =>
  Config.loadTrain(
    [rl],
    [
      `output_dir=${outputDir}`,
      "max_steps=4",
      "orchestrator.batch_size=16",
      "orchestrator.group_size=4",
      "orchestrator.train.sampling.max_completion_tokens=12",
      "ckpt.interval=2",
      "trainer.engine.threads=2",
      ...sets
    ]
  )

const open = (outputDir: string, options: { readonly resume?: boolean; readonly sets?: ReadonlyArray<string> } = {}) =>
  Effect.flatMap(load(outputDir, ...(options.sets ?? [])), (config) =>
    Run.train(config, { resume: options.resume ?? false })
  )

/** A server that refuses whatever it is asked. */
const refusing = Effect.acquireRelease(
  Effect.async<Server>((resume) => {
    const server = createServer((_, response) => response.writeHead(401).end())
    server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
  }),
  (server) => Effect.sync(() => void server.close())
).pipe(Effect.map((server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`))

const failure = <A, E>(exit: Exit.Exit<A, E>) => (Exit.isFailure(exit) ? String(exit.cause) : "succeeded")

/** What a run left behind: rows without the clock's columns, and a digest of the final weights. */
const remains = (
  directory: Run.Started<unknown, unknown, unknown>["directory"],
  step = 4,
  file = "model.safetensors"
) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const rows = (yield* fs.readFileString(directory.metrics))
      .trimEnd()
      .split("\n")
      .map((line) => Object.entries(JSON.parse(line)).filter(([column]) => !/^(time|perf)\//.test(column)))
    const weights = yield* fs.readFile(`${directory.checkpoints}/step_${step}/${file}`)
    return { rows, weights: createHash("sha256").update(weights).digest("hex") }
  })

const inTemporary = <A, E>(
  body: (directory: string) => Effect.Effect<A, E, NodeContext.NodeContext | Scope.Scope>
): Effect.Effect<A, unknown, never> =>
  Effect.scoped(
    Effect.gen(function* () {
      return yield* body(yield* (yield* FileSystem.FileSystem).makeTempDirectoryScoped())
    })
  ).pipe(Effect.provide(NodeContext.layer))

describe("Run", () => {
  it.effect("two runs of one seed agree bit for bit, another seed does not", () =>
    inTemporary((directory) =>
      Effect.gen(function* () {
        const once = (...sets: ReadonlyArray<string>) =>
          Effect.gen(function* () {
            const started = yield* open(directory, { sets })
            yield* Stream.runDrain(started.steps)
            return yield* remains(started.directory)
          })
        const [a, b, c] = [yield* once(), yield* once("trainer.engine.threads=1"), yield* once("seed=99")]
        expect(a.rows).toHaveLength(4)
        expect(b).toEqual(a)
        expect(c.weights).not.toBe(a.weights)
      })
    )
  )

  it.effect("the renderer is the one that is named, refused with its keys before a run has its place", () =>
    inTemporary((directory) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const opened = (...keys: ReadonlyArray<string>) =>
          Effect.exit(open(`${directory}/runs`, { sets: keys.map((key) => `orchestrator.renderer.${key}`) }))
        expect(failure(yield* opened("name=gpt-oss"))).toContain("no special token <|start|>")
        const unknown = failure(yield* opened("name=chatml", "enable_thinking=false"))
        expect(unknown).toContain("enableThinking: is unexpected")
        expect(yield* fs.exists(`${directory}/runs`)).toBe(false)
        expect(Exit.isSuccess(yield* opened("name=chatml"))).toBe(true)
      })
    )
  )

  it.effect("CKPT-06: a run that was stopped goes on to the same metrics and weights", () =>
    inTemporary((directory) =>
      Effect.gen(function* () {
        const whole = yield* open(`${directory}/whole`)
        yield* Stream.runDrain(whole.steps)
        const expected = yield* remains(whole.directory)
        // Stopped with one step after its checkpoint done and the next under way.
        for (const done of [1, 3]) {
          const place = `${directory}/stopped-after-${done}`
          const stopped = yield* open(place)
          yield* Stream.runDrain(Stream.take(stopped.steps, done))
          const again = yield* open(place, { resume: true })
          expect(again.directory.resumedFrom).toBe(done === 3 ? 2 : undefined)
          expect(again.rewards).toHaveLength(done === 3 ? 2 : 0)
          const reports = Chunk.toReadonlyArray(yield* Stream.runCollect(again.steps))
          expect(reports[0]?.step).toBe(done === 3 ? 3 : 1)
          expect(yield* remains(again.directory)).toEqual(expected)
        }
      })
    )
  )

  it.effect("an adapter's run goes on bit for bit, is evaluated and merged, and leaves the model as it is", () =>
    inTemporary((directory) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const sets = ["trainer.model.lora.rank=4", "trainer.model.lora.dropout=0.1", "trainer.optim.lr=1e-3"]
        const adapterOf = (of: { readonly directory: Run.Started<unknown, unknown, unknown>["directory"] }) =>
          remains(of.directory, 4, "adapter_model.safetensors")
        const digest = Effect.map(fs.readFile(`${policy}/model.safetensors`), (bytes) =>
          createHash("sha256").update(bytes).digest("hex")
        )
        const before = yield* digest
        const whole = yield* open(`${directory}/whole`, { sets })
        yield* Stream.runDrain(whole.steps)
        const expected = yield* adapterOf(whole)
        const stopped = yield* open(`${directory}/stopped`, { sets })
        yield* Stream.runDrain(Stream.take(stopped.steps, 3))
        const again = yield* open(`${directory}/stopped`, { sets, resume: true })
        expect(again.directory.resumedFrom).toBe(2)
        yield* Stream.runDrain(again.steps)
        expect(yield* adapterOf(again)).toEqual(expected)
        expect(yield* digest).toBe(before)

        const last = `${whole.directory.checkpoints}/step_4`
        expect((yield* fs.readDirectory(last)).sort()).toEqual([
          "adapter_config.json",
          "adapter_model.safetensors",
          "checkpoint.json",
          "optimizer"
        ])
        const config = yield* load(directory, ...sets)
        const merged = `${directory}/merged`
        yield* Merge.run({ model: policy, adapter: last, into: merged })
        const rewards = yield* Effect.forEach([last, merged, policy], (model) =>
          Effect.map(Stream.runCollect(Run.evaluate(config, { model, examples: 24 })), (reports) =>
            Chunk.toReadonlyArray(reports).map(({ reward }) => reward.mean)
          )
        )
        expect(rewards[0]![0]).toBeCloseTo(rewards[1]![0]!, 2)
        expect(rewards[0]).not.toEqual(rewards[2])
        const there = yield* Effect.flip(Merge.run({ model: policy, adapter: last, into: merged }))
        expect(there.message).toMatch(/is there already/)
      })
    )
  )

  it.effect("CKPT-06: what was scored before a run was stopped is not asked again, and the weights are the same", () =>
    inTemporary((directory) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const sets = [`orchestrator.algo={ type = "${livePolicy}" }`]
        const whole = yield* open(`${directory}/whole`, { sets })
        yield* Stream.runDrain(whole.steps)
        const world = globalThis as { asked?: Array<string> }
        const stopped = yield* open(`${directory}/stopped`, { sets })
        yield* Stream.runDrain(Stream.take(stopped.steps, 3))
        expect(yield* fs.exists(`${stopped.directory.credits}/step_000003.jsonl`)).toBe(true)
        world.asked = []
        const again = yield* open(`${directory}/stopped`, { resume: true, sets })
        expect(again.directory.resumedFrom).toBe(2)
        yield* Stream.runDrain(again.steps)
        const idsOf = (text: string) =>
          text
            .trimEnd()
            .split("\n")
            .map((line): string => JSON.parse(line).id)
        const third = idsOf(yield* fs.readFileString(`${again.directory.rollouts}/step_000003.jsonl`))
        expect(third).toHaveLength(16)
        expect(world.asked.filter((id) => third.includes(id))).toEqual([])
        expect(yield* remains(again.directory)).toEqual(yield* remains(whole.directory))
        const credits = (at: string) => fs.readFileString(`${at}/step_000004.jsonl`)
        expect(yield* credits(again.directory.credits)).toBe(yield* credits(whole.directory.credits))
        // Without its credits a step is scored again, from the state before it and on the weights of the checkpoint.
        yield* fs.remove(`${again.directory.credits}/step_000003.jsonl`)
        yield* fs.remove(`${again.directory.checkpoints}/step_4`, { recursive: true })
        const scored = yield* open(`${directory}/stopped`, { resume: true, sets })
        yield* Stream.runDrain(Stream.take(scored.steps, 1))
        expect(world.asked.filter((id) => third.includes(id))).toHaveLength(16)
      })
    )
  )

  it.effect("a teacher that does not let one in is told with its source, and leaves no folder behind", () =>
    inTemporary((directory) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const url = yield* refusing
        const teacher = `{ name = "wise", base_url = "${url}" }`
        const runs = `${directory}/runs`
        for (const sets of [
          [`orchestrator.algo={ type = "opd", teacher = ${teacher} }`],
          ['orchestrator.algo={ type = "sft" }', `orchestrator.train.sampling.source=${teacher}`]
        ]) {
          const words = failure(yield* Effect.exit(open(runs, { sets })))
          expect(words).toMatch(/source "reverse-text": .*wise/)
          expect(yield* fs.exists(runs)).toBe(false)
        }
      })
    )
  )

  it.effect("a finished run has nothing left to do, and goes on when it is given more steps", () =>
    inTemporary((directory) =>
      Effect.gen(function* () {
        yield* Stream.runDrain((yield* open(directory, { sets: ["max_steps=2"] })).steps)
        const finished = yield* open(directory, { resume: true, sets: ["max_steps=2"] })
        expect(yield* Stream.runCount(finished.steps)).toBe(0)
        const longer = yield* open(directory, { resume: true, sets: ["max_steps=3"] })
        expect(yield* Stream.runCount(longer.steps)).toBe(1)
      })
    )
  )

  it.effect("its summary counts steps as they are numbered, and nothing that was not finite as 0", () =>
    inTemporary((directory) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const first = yield* open(directory, { sets: ["max_steps=2"] })
        yield* Stream.runDrain(first.steps)
        yield* fs.writeFileString(first.directory.metrics, '{"step":2,"reward":0.5,"mismatch_kl":null}\n')
        const { steps } = yield* open(directory, { resume: true, sets: ["max_steps=3"] })
        const [report] = Chunk.toReadonlyArray(yield* Stream.runCollect(steps))
        const summary = JSON.parse(yield* fs.readFileString(first.directory.summary))
        expect(summary).toMatchObject({ steps: 3, mismatch_kl_last_3: report?.mismatchKl })
        expect(summary.checkpoint).toMatch(/step_3$/)
      })
    )
  )

  it.effect("only one process at a time uses a run, and a resume that fails changes nothing", () =>
    inTemporary((directory) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const first = yield* open(directory, { sets: ["max_steps=3"] })
        const again = Effect.exit(open(directory, { resume: true, sets: ["max_steps=5"] }))
        expect(failure(yield* again)).toMatch(/in use by process/)
        yield* Stream.runDrain(first.steps)
        const { checkpoints, config, metrics } = first.directory
        const files = Effect.all([fs.readFileString(metrics), fs.readFileString(config)])
        const before = yield* files
        const file = `${checkpoints}/step_3/checkpoint.json`
        const whole = yield* fs.readFileString(file)
        yield* fs.writeFileString(file, JSON.stringify({ ...JSON.parse(whole), state: {} }))
        expect(failure(yield* again)).toMatch(/step_3: .*no state\.sampler/)
        yield* fs.writeFileString(file, whole)
        yield* fs.truncate(`${checkpoints}/step_3/model.safetensors`, 1000)
        expect(failure(yield* again)).toMatch(/model\.safetensors/)
        expect(yield* files).toEqual(before)
        expect(yield* fs.exists(`${first.directory.path}/run.lock`)).toBe(false)
      })
    )
  )

  it.effect("a run whose last step was skipped is no success", () =>
    inTemporary((directory) =>
      Effect.gen(function* () {
        const run = (lr: number, steps: number) =>
          Effect.gen(function* () {
            const sets = [`max_steps=${steps}`, `trainer.optim.lr=${lr}`]
            const { steps: reports } = yield* open(`${directory}/${lr}`, { sets })
            return failure(yield* Effect.exit(Stream.runDrain(reports)))
          })
        expect(yield* run(1e300, 1)).toMatch(/step 1, the last one, was skipped: its step size was not finite.*lower/)
        expect(yield* run(1e30, 2)).not.toBe("succeeded")
      })
    )
  )

  it.effect("a sequence longer than the limit is cut or refused, never a crash", () =>
    inTemporary((directory) =>
      Effect.gen(function* () {
        const { steps } = yield* open(directory, {
          sets: ["max_steps=1", "orchestrator.seq_len=24", "orchestrator.train.sampling.max_completion_tokens=8"]
        })
        const exit = yield* Effect.exit(Stream.runCollect(steps))
        if (Exit.isFailure(exit)) expect(failure(exit)).toMatch(/NothingTrainable|prompt/)
        else expect(Chunk.toReadonlyArray(exit.value)[0]?.absent).toHaveProperty("NothingTrainable")
      })
    )
  )

  it.effect("a policy that cannot be used says why before anything is trained", () =>
    inTemporary((directory) =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const broken = (name: string, change: (path: string) => Effect.Effect<unknown, unknown>) =>
          Effect.gen(function* () {
            const path = `${directory}/${name}`
            yield* fs.copy(policy, path)
            yield* change(path)
            const exit = yield* Effect.exit(
              Effect.flatMap(open(`${directory}/runs`, { sets: [`model.name=${path}`] }), ({ steps }) =>
                Stream.runDrain(steps)
              )
            )
            return failure(exit)
          })
        const cut = yield* broken("cut", (path) =>
          Effect.flatMap(fs.readFile(`${path}/model.safetensors`), (bytes) =>
            fs.writeFile(`${path}/model.safetensors`, bytes.subarray(0, bytes.length - 1000))
          )
        )
        expect(cut).toMatch(/cut\/model\.safetensors/)
        const small = yield* broken("small", (path) =>
          Effect.flatMap(fs.readFileString(`${path}/tokenizer.json`), (text) => {
            const tokenizer = JSON.parse(text)
            tokenizer.added_tokens.push({ ...tokenizer.added_tokens.at(-1), id: 262, content: "<|extra|>" })
            return fs.writeFileString(`${path}/tokenizer.json`, JSON.stringify(tokenizer))
          })
        )
        expect(small).toMatch(/ids up to 262.*vocab_size 262/)
        const nowhere = Effect.flatMap(load(directory), (config) =>
          Effect.exit(Stream.runDrain(Run.evaluate(config, { model: `${directory}/nowhere` })))
        )
        expect(failure(yield* nowhere)).toMatch(/model .*nowhere.*config\.json/)
        const gone = yield* broken("gone", (path) => fs.remove(path, { recursive: true }))
        expect(gone).toMatch(/gone/)
        expect(yield* fs.exists(`${directory}/runs`)).toBe(false)
      })
    )
  )
})
