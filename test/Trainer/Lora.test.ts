import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Handle from "../../src/Engine.ts"
import * as Seed from "../../src/Seed.ts"
import * as Adapter from "../../src/server/Adapter.ts"
import * as Engine from "../../src/Trainer/Engine.ts"
import * as Lora from "../../src/Trainer/Lora.ts"
import * as OptimizerState from "../../src/Trainer/OptimizerState.ts"
import type * as Peft from "../../src/Trainer/Peft.ts"
import { projections } from "../../src/Trainer/Projections.ts"
import * as Safetensors from "../../src/Trainer/Safetensors.ts"
import { adamw, batch, counts, ids, loss, ones } from "./batches.ts"
import { configOnly, tinyConfig, tinyEngine } from "./models.ts"

const prompt = ids(1, 2, 3, 4, 5, 6)

const lora: Peft.Lora = {
  rank: 8,
  alpha: 16,
  dropout: 0.1,
  targetModules: projections,
  rankStabilised: false
}

const step = (engine: Engine.Engine) =>
  Effect.zipRight(engine.forwardBackward(batch(), counts, loss), engine.optimizerStep(adamw))

const trained = (base: Engine.Engine, options: Partial<Peft.Lora> = {}) =>
  Effect.tap(Lora.attach(base, { ...lora, ...options, seed: 3, trainable: true }), (adapter) =>
    Effect.zipRight(step(adapter), step(adapter))
  )

const values = (engine: Engine.Engine) => Effect.forEach(engine.tensors, ({ name }) => engine.readTensor(name))

const scores = (engine: Engine.Engine) =>
  Effect.map(engine.score(prompt, ids(6), ones(6)), ({ logprobs }) => Array.from(logprobs))

const expectClose = (found: ReadonlyArray<number>, expected: ReadonlyArray<number>) => {
  for (const [at, value] of found.entries()) expect(Math.abs(value - expected[at]!)).toBeLessThan(1e-5)
}

/** An adapter of rank 1 on the first query projection alone, with the spelling that is asked for. */
const handmade = (settings: object, names: readonly [a: string, b: string]) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped()
    const config = {
      peft_type: "LORA",
      r: 1,
      lora_alpha: 2,
      target_modules: ["layers.0.self_attn.q_proj"],
      ...settings
    }
    yield* fs.writeFileString(`${directory}/adapter_config.json`, JSON.stringify(config))
    const number = (at: number) => (at % 5) / 4
    yield* Safetensors.writeSingle(directory, "adapter_model.safetensors", [
      {
        name: names[0],
        shape: [1, 32],
        values: Effect.succeed(Float32Array.from({ length: 32 }, (_, at) => number(at)))
      },
      {
        name: names[1],
        shape: [32, 1],
        values: Effect.succeed(Float32Array.from({ length: 32 }, (_, at) => number(at + 2)))
      }
    ])
    return directory
  })

const query = "model.layers.0.self_attn.q_proj"
const names = (infix = "", prefix = "base_model.model.") =>
  [`${prefix}${query}${infix}.lora_A.weight`, `${prefix}${query}${infix}.lora_B.weight`] as const

layer(NodeFileSystem.layer)("an adapter", (it) => {
  it.scoped("is trained alone, and is the model until then", () =>
    Effect.gen(function* () {
      const base = yield* tinyEngine({ trainable: false })
      const before = yield* values(base)
      const fresh = yield* Lora.attach(base, { ...lora, seed: 3, trainable: true })
      expect(yield* scores(fresh)).toEqual(yield* scores(base))
      expect(fresh.tensors.length).toBe(2 * 7 * 2)
      const adapter = yield* trained(base)
      expect(yield* scores(adapter)).not.toEqual(yield* scores(base))
      expect(yield* values(base)).toEqual(before)
      expect([yield* adapter.optimizerSteps, yield* fresh.optimizerSteps]).toEqual([2, 0])
      const error = yield* Effect.flip(base.optimizerStep(adamw))
      expect(error.code).toBe("ERR_STATE")
    })
  )

  it.scoped("is PEFT's files, and goes on from them bit for bit", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const base = yield* tinyEngine({ trainable: false })
      const adapter = yield* trained(base)
      yield* adapter.save(directory)
      yield* OptimizerState.save(adapter, directory)

      const config = JSON.parse(yield* fs.readFileString(`${directory}/adapter_config.json`))
      expect(config).toMatchObject({
        peft_type: "LORA",
        r: 8,
        lora_alpha: 16,
        lora_dropout: 0.1,
        bias: "none",
        use_rslora: false,
        base_model_name_or_path: base.directory,
        target_modules: [...projections]
      })
      const found = yield* Safetensors.openFile(directory, "adapter_model.safetensors")
      expect(found.tensors.get("base_model.model.model.layers.1.mlp.down_proj.lora_A.weight")!.shape).toEqual([8, 48])
      expect(found.tensors.get("base_model.model.model.layers.1.mlp.down_proj.lora_B.weight")!.shape).toEqual([32, 8])

      const again = yield* Lora.open(base, directory, { trainable: true, seed: 3 })
      yield* OptimizerState.load(again, directory)
      expect(yield* values(again)).toEqual(yield* values(adapter))
      yield* step(adapter)
      yield* step(again)
      expect(yield* values(again)).toEqual(yield* values(adapter))

      const other = yield* Lora.attach(base, { ...lora, rank: 4, seed: 3, trainable: true })
      expect((yield* Effect.flip(other.load(directory))).message).toMatch(/another adapter: r 8, .*wanted are r 4/)
      yield* again.load(directory)
      expect(yield* values(again)).not.toEqual(yield* values(adapter))
    })
  )

  it.scoped("SAVE-06: merged into the weights it computes the same, by alpha / r and by alpha / √r", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      for (const rankStabilised of [false, true]) {
        const [files, folder] = [yield* fs.makeTempDirectoryScoped(), yield* fs.makeTempDirectoryScoped()]
        const base = yield* tinyEngine({ trainable: false })
        const adapter = yield* trained(base, { rankStabilised })
        yield* adapter.save(files)
        const [alone, adapted] = [yield* scores(base), yield* scores(adapter)]
        yield* Lora.merge(base, files)
        yield* base.save(folder)
        const merged = yield* Engine.open(folder, { threads: 1, trainable: false })
        expectClose(yield* scores(merged), adapted)
        expect(alone.some((value, at) => Math.abs(value - adapted[at]!) > 1e-3)).toBe(true)
        // what is merged twice is another model
        yield* Lora.merge(base, files)
        expect(yield* scores(base)).not.toEqual(yield* scores(merged))
      }
    })
  )

  it.scoped("SAVE-05: is found under every spelling of its names, and a name that fits nothing is an error", () =>
    Effect.gen(function* () {
      for (const spelling of [
        names(),
        names(".base_layer"),
        names("", ""),
        [names()[0].replace("A.w", "A.default.w"), names()[1]]
      ] as const) {
        const base = yield* tinyEngine({ trainable: false })
        const weight = yield* base.readTensor(`${query}.weight`)
        yield* Lora.merge(base, yield* handmade({}, [spelling[0]!, spelling[1]!]))
        const found = yield* base.readTensor(`${query}.weight`)
        const expected = weight.map((value, at) => value + (2 * (((at >> 5) + 2) % 5) * ((at & 31) % 5)) / 16)
        expect(found).toEqual(expected)
      }
      const base = yield* tinyEngine({ trainable: false })
      const before = yield* values(base)
      const stray = yield* handmade({}, ["base_model.model.model.layers.0.q_proj.lora_A.weight", names()[1]])
      for (const attempt of [Lora.merge(base, stray), Effect.asVoid(Lora.open(base, stray, { trainable: false }))]) {
        expect((yield* Effect.flip(attempt)).message).toMatch(/layers\.0\.q_proj.*which the model does not have/)
      }
      expect(yield* values(base)).toEqual(before)
    })
  )

  it.scoped("is had by a program as a handle of the model's own kind", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const [folder, small, large] = [
        yield* fs.makeTempDirectoryScoped(),
        yield* fs.makeTempDirectoryScoped(),
        yield* fs.makeTempDirectoryScoped()
      ]
      yield* Effect.flatMap(tinyEngine(), (engine) => engine.save(folder))
      const model = yield* Handle.open(folder, { threads: 1 })
      const score = (handle: Handle.Handle) =>
        Effect.map(handle.score(prompt, ids(6), ones(6)), ({ logprobs }) => Array.from(logprobs))
      const before = yield* score(model)
      const one = yield* model.addAdapter({ rank: 2, targetModules: ["q_proj", "v_proj"] })
      const other = yield* model.addAdapter({ rank: 5, seed: 1, alpha: 10 })
      expect([one.tensors.length, other.tensors.length]).toEqual([8, 28])
      for (const handle of [one, other, other]) {
        yield* handle.forwardBackward(batch(), counts, loss)
        yield* handle.optimizerStep(adamw)
      }
      yield* one.save(small)
      yield* other.save(large)
      const again = yield* model.openAdapter(large)
      expect(yield* score(again)).toEqual(yield* score(other))
      expect(yield* score(model)).toEqual(before)
      yield* model.mergeAdapter(small)
      expect(yield* score(model)).not.toEqual(before)
      // what was merged is now part of the base of the other
      expect(yield* score(again)).not.toEqual(before)
      const nothing = yield* Effect.flip(model.addAdapter({ targetModules: ["w1"] }))
      expect(nothing.message).toMatch(/target_modules names no module of the model/)
    })
  )

  it.scoped("of the head is merged where it is served, as no pass can run it", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* configOnly({ ...tinyConfig, tie_word_embeddings: false })
      const base = yield* Engine.open(directory, { threads: 1, trainable: false, randomInit: { seed: 7, std: 0.4 } })
      const head = "base_model.model.lm_head.lora"
      const files = yield* fs.makeTempDirectoryScoped()
      yield* fs.writeFileString(
        `${files}/adapter_config.json`,
        JSON.stringify({ peft_type: "LORA", r: 1, lora_alpha: 1, target_modules: ["lm_head"] })
      )
      yield* Safetensors.writeSingle(files, "adapter_model.safetensors", [
        { name: `${head}_A.weight`, shape: [1, 32], values: Effect.succeed(ones(32)) },
        {
          name: `${head}_B.weight`,
          shape: [61, 1],
          values: Effect.succeed(Float32Array.from({ length: 61 }, (_, at) => at / 61))
        }
      ])
      const refused = yield* Effect.flip(Lora.open(base, files, { trainable: true }))
      expect(refused.message).toMatch(/"lm_head" is no matrix of a layer/)
      const served = yield* Adapter.open(base, files, { threads: 1 })
      yield* Lora.merge(base, files)
      expect(yield* scores(served)).toEqual(yield* scores(base))
    })
  )

  it.scoped("is planned with what it takes, and the model under it has no gradients", () =>
    Effect.gen(function* () {
      const directory = yield* configOnly()
      const options = { threads: 1, trainable: true, tokens: 64 }
      const whole = yield* Engine.memoryPlan(directory, options)
      const plan = yield* Engine.memoryPlan(directory, {
        ...options,
        trainable: false,
        lora: Lora.planned(tinyConfig.num_hidden_layers, lora)
      })
      const base = yield* tinyEngine({ trainable: false })
      const adapter = yield* Lora.attach(base, { ...lora, seed: 3, trainable: true })
      const numbers = adapter.tensors.reduce((sum, { shape }) => sum + shape[0]! * shape[1]!, 0)
      expect(plan).toMatchObject({ gradients: 0, optimizer: 0, adapters: 16 * numbers, weights: whole.weights })
      expect(plan.total).toBeLessThan(whole.total)
    })
  )

  it.scoped("whatever bytes its files have is opened, or told to be wrong", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const base = yield* tinyEngine({ trainable: false })
      const directory = yield* handmade({}, names())
      const random = Seed.generator(5)
      const files = ["adapter_config.json", "adapter_model.safetensors"]
      const whole = yield* Effect.forEach(files, (file) => fs.readFile(`${directory}/${file}`))
      let opened = 0
      for (let i = 0; i < 150; i++) {
        const which = i % 2
        const bytes = Uint8Array.from(whole[which]!)
        for (let change = 0; change < random() * 3; change++) {
          bytes[Math.floor(random() * bytes.length)] = 32 + Math.floor(random() * 95)
        }
        yield* fs.writeFile(`${directory}/${files[which]}`, random() < 0.1 ? bytes.subarray(0, random() * 200) : bytes)
        const result = yield* Effect.either(Effect.scoped(Lora.open(base, directory, { trainable: false })))
        yield* fs.writeFile(`${directory}/${files[which]}`, whole[which]!)
        if (result._tag === "Right") opened++
        else expect(["ModelError", "NativeError"]).toContain(result.left._tag)
      }
      expect(opened).toBeGreaterThan(10)
      expect(opened).toBeLessThan(140)
    })
  )
})
