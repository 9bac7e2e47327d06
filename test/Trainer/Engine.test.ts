import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Engine from "../../src/Trainer/Engine.ts"
import type { Tensor } from "../../src/Trainer/Native.ts"
import * as Safetensors from "../../src/Trainer/Safetensors.ts"
import { adamw, batch, counts, ids, loss, ones } from "./batches.ts"
import { configOnly, recorded, recordedModels, tinyConfig, tinyEngine } from "./models.ts"

const prompt = { topP: 1, topK: 0, minP: 0, stopTokenIds: ids(), temperature: 1 }

/** All weights, one after the other. */
const weights = (engine: Engine.Engine) =>
  Effect.map(
    Effect.forEach(engine.tensors, ({ name }) => engine.readTensor(name)),
    (tensors) => tensors.map((values) => [...values])
  )

const reading = { threads: 1, trainable: false }

layer(NodeFileSystem.layer)("what cannot be opened says why", (it) => {
  it.scoped("a missing directory", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(Engine.open("/no/such/model", reading))
      expect(error.message).toMatch(/model \/no\/such\/model: there is no such directory/)
    })
  )

  it.scoped("a directory without config.json, and one whose config.json is not JSON", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      expect((yield* Effect.flip(Engine.open(directory, reading))).message).toMatch(/config\.json: cannot be read/)
      yield* fs.writeFileString(`${directory}/config.json`, "{")
      expect((yield* Effect.flip(Engine.open(directory, reading))).message).toMatch(/config\.json: is not JSON/)
    })
  )

  it.scoped("no weights, and truncated weights", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* configOnly()
      expect((yield* Effect.flip(Engine.open(directory, reading))).message).toMatch(/holds neither model\.safetensors/)
      const whole = yield* fs.readFile(`${recorded("qwen3-tied")}/model.safetensors`)
      yield* fs.writeFile(`${directory}/model.safetensors`, whole.subarray(0, whole.length - 1000))
      expect((yield* Effect.flip(Engine.open(directory, reading))).message).toMatch(
        /model\.safetensors: tensor "model\..*" ends \d+ bytes after the end of the file \(truncated\)/
      )
    })
  )

  const withTensors = (change: (tensors: ReadonlyArray<Tensor>) => ReadonlyArray<Tensor>) =>
    Effect.gen(function* () {
      const directory = yield* configOnly()
      const { tensors } = yield* tinyEngine()
      const written = change(tensors).map(({ name, shape }) => ({
        name,
        shape,
        values: Effect.succeed(new Float32Array(shape.reduce((a, b) => a * b, 1)))
      }))
      yield* Safetensors.write(
        directory,
        [{ file: "model.safetensors", names: written.map(({ name }) => name) }],
        written
      )
      return yield* Engine.open(directory, reading)
    })

  it.scoped("missing tensors, tensors of another architecture, and wrong shapes are named", () =>
    Effect.gen(function* () {
      const missing = yield* Effect.flip(withTensors((all) => all.filter(({ name }) => !name.includes("k_norm"))))
      expect(missing.message).toMatch(
        /missing tensors .*: model\.layers\.0\.self_attn\.k_norm\.weight, model\.layers\.1/
      )
      const extra = yield* Effect.flip(
        withTensors((all) => [...all, { name: "model.layers.0.mlp.experts", shape: [1] }])
      )
      expect(extra.message).toMatch(/does not have: model\.layers\.0\.mlp\.experts/)
      const wrong = yield* Effect.flip(
        withTensors((all) => all.map((one) => (one.name === "model.norm.weight" ? { ...one, shape: [31] } : one)))
      )
      expect(wrong.message).toMatch(/model\.norm\.weight has shape \[31\], config\.json asks for \[32\]/)
    })
  )

  it.scoped("SAVE-01: a tied head and computed buffers in the file are no parameters", () =>
    Effect.gen(function* () {
      const engine = yield* withTensors((all) => [
        ...all,
        { name: "lm_head.weight", shape: [61, 32] },
        { name: "model.layers.0.self_attn.rotary_emb.inv_freq", shape: [4] }
      ])
      expect(engine.tensors.map(({ name }) => name)).not.toContain("lm_head.weight")
    })
  )

  it.scoped("a tokenizer with more ids than the vocabulary", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      yield* engine.checkVocabulary(61)
      expect((yield* Effect.flip(engine.checkVocabulary(62))).message).toMatch(
        /tokenizer has ids up to 61, config\.json says vocab_size 61/
      )
    })
  )
})

layer(NodeFileSystem.layer)("weights", (it) => {
  it.scoped.each([...recordedModels])("%s is saved as it was read, and reads back to the same bits", (name) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const engine = yield* Engine.open(recorded(name), { threads: 1, trainable: false })
      const directory = `${yield* fs.makeTempDirectoryScoped()}/step_1/weights`
      yield* engine.save(directory)
      const header = (file: Uint8Array) => {
        const length = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true))
        return {
          tensors: JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length))) as Record<string, unknown>,
          data: file.subarray(8 + length)
        }
      }
      const before = header(yield* fs.readFile(`${recorded(name)}/model.safetensors`))
      const after = header(yield* fs.readFile(`${directory}/model.safetensors`))
      expect(after.tensors).toEqual(before.tensors)
      expect(Object.keys(after.tensors)).toEqual(Object.keys(before.tensors))
      expect(Buffer.compare(after.data, before.data)).toBe(0)
      expect(yield* fs.readFileString(`${directory}/config.json`)).toBe(
        yield* fs.readFileString(`${recorded(name)}/config.json`)
      )
      const again = yield* Engine.open(directory, { threads: 1, trainable: false })
      expect(yield* weights(again)).toEqual(yield* weights(engine))
    })
  )

  it.scoped("files that belong to the model go along, and saving in place keeps them", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* configOnly()
      yield* fs.writeFileString(`${directory}/tokenizer.json`, "{}")
      yield* fs.writeFileString(`${directory}/notes.txt`, "mine")
      const engine = yield* Engine.open(directory, { threads: 1, trainable: false, randomInit: { seed: 1, std: 0.1 } })
      const target = yield* fs.makeTempDirectoryScoped()
      yield* engine.save(target)
      expect((yield* fs.readDirectory(target)).sort()).toEqual(["config.json", "model.safetensors", "tokenizer.json"])
      yield* engine.save(directory)
      expect(yield* fs.readFileString(`${directory}/tokenizer.json`)).toBe("{}")
      expect(JSON.parse(yield* fs.readFileString(`${directory}/config.json`))).toEqual(tinyConfig)
    })
  )

  it.scoped("SAVE-01: a sharded model with a tied head saves shards that read back to the same log-probabilities", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const engine = yield* tinyEngine()
      const source = yield* configOnly()
      const sources = engine.tensors.map(({ name, shape }) => ({ name, shape, values: engine.readTensor(name) }))
      const head = { name: "lm_head.weight", shape: [61, 32], values: Effect.succeed(new Float32Array(61 * 32)) }
      const names = engine.tensors.map(({ name }) => name)
      const files = [
        { file: "model-00001-of-00002.safetensors", names: names.slice(0, 5) },
        { file: "model-00002-of-00002.safetensors", names: [...names.slice(5), "lm_head.weight"] }
      ]
      yield* Safetensors.write(source, files, [...sources, head])
      const sharded = yield* Engine.open(source, { threads: 1, trainable: false })
      const target = yield* fs.makeTempDirectoryScoped()
      yield* sharded.save(target)
      const index = JSON.parse(yield* fs.readFileString(`${target}/model.safetensors.index.json`)) as {
        readonly metadata: { readonly total_size: number }
        readonly weight_map: Record<string, string>
      }
      expect(Object.keys(index.weight_map).sort()).toEqual([...names].sort())
      const bytes = engine.tensors.reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 4), 0)
      expect(index.metadata.total_size).toBe(bytes)
      const again = yield* Engine.open(target, { threads: 1, trainable: false })
      const score = (one: Engine.Engine) => one.score(ids(1, 2, 3, 4), ids(4), ones(4))
      expect((yield* score(again)).logprobs).toEqual((yield* score(engine)).logprobs)
    })
  )

  it.scoped("F16 and BF16 are read exactly", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { tensors } = yield* tinyEngine()
      for (const dtype of ["F16", "BF16"] as const) {
        const directory = yield* configOnly()
        // Halves that cover zero, ones, the smallest subnormal, the largest finite number and their negatives.
        const patterns =
          dtype === "F16"
            ? ([
                [0x0000, 0],
                [0x3c00, 1],
                [0x0001, 2 ** -24],
                [0x7bff, 65504],
                [0xc000, -2],
                [0x83ff, -1023 * 2 ** -24]
              ] as const)
            : ([
                [0x0000, 0],
                [0x3f80, 1],
                [0x0001, 2 ** -133],
                [0x7f7f, 255 * 2 ** 120],
                [0xc000, -2],
                [0xbf81, -1.0078125]
              ] as const)
        let at = 0
        const header: Record<string, unknown> = {}
        for (const { name, shape } of tensors) {
          const bytes = shape.reduce((a, b) => a * b, 2)
          header[name] = { dtype, shape, data_offsets: [at, at + bytes] }
          at += bytes
        }
        const json = new TextEncoder().encode(JSON.stringify(header))
        const file = new Uint8Array(8 + json.length + at)
        const view = new DataView(file.buffer)
        view.setBigUint64(0, BigInt(json.length), true)
        file.set(json, 8)
        for (let i = 0; i < at / 2; i++) view.setUint16(8 + json.length + 2 * i, patterns[i % 6]![0], true)
        yield* fs.writeFile(`${directory}/model.safetensors`, file)
        const engine = yield* Engine.open(directory, { threads: 1, trainable: false })
        const first = yield* engine.readTensor(tensors[0]!.name)
        expect([...first.subarray(0, 6)]).toEqual(patterns.map(([, value]) => value))
      }
    })
  )

  it.scoped("random weights are the same for the same seed, on any number of threads", () =>
    Effect.gen(function* () {
      const [one, two, other] = [
        yield* tinyEngine({ threads: 1 }),
        yield* tinyEngine({ threads: 2 }),
        yield* tinyEngine({ randomInit: { seed: 8, std: 0.4 } })
      ]
      expect(yield* weights(one)).toEqual(yield* weights(two))
      expect(yield* weights(one)).not.toEqual(yield* weights(other))
      const embedding = yield* one.readTensor("model.embed_tokens.weight")
      const std = Math.sqrt(embedding.reduce((sum, x) => sum + x * x, 0) / embedding.length)
      expect(std).toBeCloseTo(0.4, 1)
      expect([...(yield* one.readTensor("model.norm.weight"))]).toEqual(Array(32).fill(1))
      // Pinned, so that a run can be repeated on another machine.
      expect([...embedding.subarray(0, 3)]).toEqual([-0.0457324348, -0.0566922165, -0.170819819].map(Math.fround))
    })
  )

  it.scoped("a snapshot moves weights to another engine and does not change with training", () =>
    Effect.gen(function* () {
      const [trainer, policy] = [
        yield* tinyEngine(),
        yield* tinyEngine({ trainable: false, randomInit: { seed: 1, std: 0.1 } })
      ]
      const before = yield* weights(trainer)
      const snapshot = yield* trainer.snapshot
      expect(snapshot.bytes).toBe(before.flat().length * 4)
      yield* trainer.forwardBackward(batch(), counts, loss)
      expect((yield* trainer.optimizerStep(adamw)).applied).toBe(true)
      yield* policy.adopt(snapshot)
      expect(yield* weights(policy)).toEqual(before)
      expect(yield* weights(trainer)).not.toEqual(before)
      const foreign = yield* Engine.open(recorded("qwen3-tied"), { threads: 1, trainable: false })
      expect((yield* Effect.flip(foreign.adopt(snapshot))).code).toBe("ERR_STATE")
    })
  )
})

layer(NodeFileSystem.layer)("what a job refuses", (it) => {
  it.scoped("names the argument, the place and the value", () =>
    Effect.gen(function* () {
      const engine = yield* tinyEngine()
      const message = <A>(effect: Effect.Effect<A, { readonly message: string }>) =>
        Effect.map(Effect.flip(effect), (error) => error.message)
      expect(yield* message(engine.score(ids(1, 61), ids(2), ones(2)))).toMatch(/61/)
      expect(yield* message(engine.score(ids(1, -1), ids(2), ones(2)))).toMatch(/-1/)
      expect(yield* message(engine.score(ids(1, 2), ids(3), ones(2)))).toMatch(
        /sequenceLengths sum to 3, tokenIds has 2/
      )
      expect(yield* message(engine.score(ids(1, 2), ids(2), ones(3)))).toMatch(/temperatures has 3 entries, expected 2/)
      expect(yield* message(engine.forwardBackward(batch({ advantages: ones(5) }), counts, loss))).toMatch(
        /advantages has 5 entries, expected 6/
      )
      expect(yield* message(engine.forwardBackward(batch({ refKlWeights: ones(6) }), counts, loss))).toMatch(
        /no reference log-probabilities/
      )
      expect(yield* message(engine.backward(ones(6)))).toMatch(/backward/)
      expect(yield* message(engine.readTensor("model.nothing"))).toMatch(/model\.nothing/)
      expect(yield* message(engine.writeTensor("model.norm.weight", ones(3)))).toMatch(
        /bytes has 12 entries, tensor "model\.norm\.weight" takes 128/
      )
      expect(yield* message(engine.generate({ ...prompt, promptIds: ids(1), maxTokens: 0, seed: 0 }))).toMatch(
        /maxTokens must be an integer from 1/
      )
      expect(yield* message(engine.generate({ ...prompt, promptIds: ids(1), maxTokens: 1, seed: -1 }))).toMatch(/seed/)
      expect(yield* message(engine.generate({ ...prompt, promptIds: ids(1, 99), maxTokens: 1, seed: 0 }))).toMatch(
        /promptIds\[1\] is 99, outside the vocabulary of 61/
      )
      const untrained = yield* tinyEngine({ trainable: false })
      expect(yield* message(untrained.zeroGradients)).toMatch(/trainable: true/)
    })
  )

  it.effect("after its scope has closed, everything", () =>
    Effect.gen(function* () {
      const engine = yield* Effect.scoped(tinyEngine())
      expect((yield* Effect.flip(engine.snapshot)).code).toBe("ERR_DISPOSED")
    })
  )
})
