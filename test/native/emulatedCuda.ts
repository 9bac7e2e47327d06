/**
 * What an engine on the emulated device does, as JSON on standard output. A process of its own: the library is found by
 * an environment variable, which the test's threads cannot set.
 */
import { fileURLToPath } from "node:url"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Effect from "effect/Effect"
import * as Models from "../../src/conformance/Models.ts"
import * as Addon from "../../src/Trainer/Addon.ts"
import * as Engine from "../../src/Trainer/Engine.ts"
import * as Lora from "../../src/Trainer/Lora.ts"
import { projections } from "../../src/Trainer/Projections.ts"

const cases = fileURLToPath(new URL("../data/cases", import.meta.url))
const directory = `${cases}/models/qwen3-tied`
const ids = Int32Array.of(1, 5, 9, 2, 7)
const step = { learningRate: 1e-2, beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0, maxGradNorm: undefined }

/** One step, then its weights by every way out: read, snapshot, and generations, which run on the processor. */
const trained = (device: "cpu" | "cuda") =>
  Effect.gen(function* () {
    const addon = yield* Addon.load
    const open = Engine.open(directory, { threads: 1, trainable: true, device })
    const [engine, other] = [yield* open, yield* open]
    const batch = {
      tokenIds: ids,
      sequenceLengths: Int32Array.of(ids.length),
      temperatures: new Float32Array(ids.length).fill(1),
      mask: Uint8Array.of(0, 1, 1, 1, 1),
      logprobs: new Float32Array(ids.length).fill(-3),
      advantages: new Float32Array(ids.length).fill(1),
      referenceLogprobs: undefined,
      rlWeights: undefined,
      ceWeights: undefined,
      refKlWeights: undefined
    }
    yield* engine.forward(batch)
    yield* engine.backward(Float32Array.of(0, -1, -0.5, -1, -1))
    const { applied } = yield* engine.optimizerStep(step)
    const score = (of: Engine.Engine) => of.score(ids, batch.sequenceLengths, batch.temperatures)
    const mine = yield* score(engine)
    yield* other.adopt(yield* engine.snapshot)
    const theirs = yield* score(other)
    return {
      applied,
      cuda: addon.cuda(),
      norm: yield* engine.readTensor("model.norm.weight"),
      logprobs: mine.logprobs,
      sameAfterAdoption: mine.logprobs.every((value, i) => value === theirs.logprobs[i])
    }
  }).pipe(Effect.scoped)

const program = Effect.gen(function* () {
  const checks = yield* Effect.forEach(["qwen3-tied", "qwen2-untied", "llama-rope-scaled"], (name) =>
    Models.check(cases, name, { device: "cuda" })
  )
  const refused = yield* Effect.flip(
    Effect.scoped(Engine.open(directory, { threads: 1, trainable: true, device: "cuda", dtype: "bfloat16x3" }))
  )
  const withoutAdapter = yield* Effect.flip(
    Effect.scoped(
      Effect.flatMap(Engine.open(directory, { threads: 1, trainable: false, device: "cuda" }), (engine) =>
        Lora.attach(engine, {
          rank: 2,
          alpha: 2,
          dropout: 0,
          targetModules: projections,
          rankStabilised: false,
          seed: 0,
          trainable: true
        })
      )
    )
  )
  return {
    withoutAdapter: withoutAdapter.message,
    checks: checks.flat(),
    cpu: yield* trained("cpu"),
    cuda: yield* trained("cuda"),
    refused: refused.message
  }
}).pipe(Effect.provide(NodeFileSystem.layer))

process.stdout.write(
  JSON.stringify(await Effect.runPromise(program), (_, value) =>
    ArrayBuffer.isView(value) ? Array.from(value as Float32Array) : value
  )
)
