/** The addon as a guest of Node: it never blocks, never keeps a finished process alive, and dies with its environment. */
import { execFile } from "node:child_process"
import { createRequire } from "node:module"
import { fileURLToPath } from "node:url"
import { Worker } from "node:worker_threads"
import { describe, expect, it } from "vitest"
import type { GenerateRequest, ModelConfig, NativeAddon, NativeBatch, NativeEngine } from "../../src/Trainer/Native.ts"
import { isas } from "../../src/Trainer/Native.ts"

const path = fileURLToPath(new URL("../../native/build/primerl.node", import.meta.url))
const addon = createRequire(import.meta.url)(path) as NativeAddon

const config: ModelConfig = {
  hiddenSize: 32,
  intermediateSize: 48,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 8,
  vocabSize: 61,
  maxPositionEmbeddings: 96,
  rmsNormEps: 1e-6,
  ropeTheta: 10_000,
  ropeScaling: undefined,
  tieWordEmbeddings: true,
  qkNorm: true,
  qkvBias: false,
  outputBias: false,
  mlpBias: false
}
const request: GenerateRequest = {
  promptIds: Int32Array.of(1, 2, 3),
  maxTokens: 20,
  temperature: 1,
  topP: 1,
  topK: 0,
  minP: 0,
  stopTokenIds: new Int32Array(0),
  seed: 1
}
const options = { threads: 1, trainable: true }

const largeConfig = {
  ...config,
  hiddenSize: 256,
  intermediateSize: 1024,
  layers: 4,
  vocabSize: 4000,
  maxPositionEmbeddings: 8192
}

const withEngine = async <A>(use: (engine: NativeEngine) => Promise<A>, large = false): Promise<A> => {
  const engine = addon.createEngine(large ? largeConfig : config, options)
  try {
    await engine.initialise(7, 0.1).done
    return await use(engine)
  } finally {
    engine.dispose()
  }
}

/** Seconds of work for a large engine. */
const longScore = (engine: NativeEngine) => {
  const length = 8000
  return engine.score(
    Int32Array.from({ length }, (_, i) => i % 4000),
    Int32Array.of(length),
    new Float32Array(length).fill(1)
  )
}

/** A program in a process of its own: what it printed, and how it ended. */
const program = (body: string) =>
  new Promise<{ readonly code: number | string | null; readonly stdout: string; readonly stderr: string }>(
    (resolve) => {
      const source = `
      const addon = require(${JSON.stringify(path)})
      const engine = addon.createEngine(${JSON.stringify({ ...config, hiddenSize: 256, intermediateSize: 1024, vocabSize: 4000, maxPositionEmbeddings: 8192 })}, { threads: 2, trainable: true })
      const length = 8000
      const long = () => engine.score(Int32Array.from({ length }, (_, i) => i % 4000), Int32Array.of(length), new Float32Array(length).fill(1))
      ${body}`
      execFile(process.execPath, ["-e", source], { timeout: 30_000 }, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : (error.code ?? error.signal ?? null), stdout, stderr })
      )
    }
  )

describe("as a guest of Node", () => {
  it("the event loop turns while a job runs, and cancelling ends the job soon", async () => {
    await withEngine(async (engine) => {
      const job = longScore(engine)
      const outcome = job.done.then(
        () => "done",
        (error: NodeJS.ErrnoException) => error.code
      )
      let turns = 0
      for (; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve))
      const asked = performance.now()
      job.cancel()
      expect(await outcome).toBe("ERR_CANCELLED")
      expect(performance.now() - asked).toBeLessThan(2000)
    }, true)
  })

  it("a job that waits ends at once when it is cancelled", async () => {
    await withEngine(async (engine) => {
      const running = longScore(engine)
      const waiting = engine.generate(request)
      waiting.cancel()
      await expect(waiting.done).rejects.toMatchObject({ code: "ERR_CANCELLED" })
      running.cancel()
      await expect(running.done).rejects.toMatchObject({ code: "ERR_CANCELLED" })
    }, true)
  })

  it("disposing while work runs ends all of it, and later calls say so", async () => {
    const engine = addon.createEngine(largeConfig, options)
    const jobs = [
      engine.initialise(1, 0.1),
      longScore(engine),
      ...Array.from({ length: 5 }, () => engine.generate({ ...request, maxTokens: 8000 }))
    ]
    engine.dispose()
    engine.dispose()
    const ends = await Promise.allSettled(jobs.map((job) => job.done))
    for (const end of ends) {
      if (end.status === "rejected") expect((end.reason as NodeJS.ErrnoException).code).toBe("ERR_DISPOSED")
    }
    expect(ends.some((end) => end.status === "rejected")).toBe(true)
    expect(() => engine.snapshot()).toThrow(/disposed/)
    for (const job of jobs) job.cancel()
  })

  it("a process with an idle engine exits by itself", async () => {
    expect(await program(`engine.initialise(1, 0.1).done.then(() => console.log("made"))`)).toMatchObject({
      code: 0,
      stdout: "made\n"
    })
  })

  it("a process may leave in the middle of a job", async () => {
    expect(await program(`long(); setTimeout(() => { console.log("leaving"); process.exit(3) }, 50)`)).toMatchObject({
      code: 3,
      stdout: "leaving\n",
      stderr: ""
    })
  })

  it("an engine that nobody holds is given back", async () => {
    const { code, stdout } = await program(`
      const { setFlagsFromString } = require("node:v8")
      setFlagsFromString("--expose-gc")
      const gc = require("node:vm").runInNewContext("gc")
      const make = () => addon.createEngine({ ...${JSON.stringify(config)}, hiddenSize: 512, intermediateSize: 2048, vocabSize: 20000 }, { threads: 1, trainable: false })
      const turn = () => new Promise((resolve) => setTimeout(resolve, 20))
      ;(async () => {
        let peak = 0
        for (let i = 0; i < 30; i++) { const e = make(); await e.snapshot().done; gc(); await turn(); peak = Math.max(peak, process.memoryUsage().rss) }
        console.log(peak < 900e6 ? "bounded" : peak)
      })()`)
    expect([code, stdout]).toEqual([0, "bounded\n"])
  })

  it("a worker has its own engines, and may be ended in the middle of a job", async () => {
    const source = `
      const { parentPort, workerData } = require("node:worker_threads")
      const addon = require(workerData.path)
      const engine = addon.createEngine(workerData.config, { threads: 1, trainable: false })
      engine.initialise(7, 0.1).done
        .then(() => engine.generate(workerData.request).done)
        .then(({ tokenIds }) => {
          parentPort.postMessage([...tokenIds])
          const again = () => engine.generate({ ...workerData.request, maxTokens: 90 }).done.then(again)
          again()
        })`
    const worker = new Worker(source, { eval: true, workerData: { path, config, request } })
    const theirs = await new Promise((resolve, reject) => {
      worker.once("message", resolve)
      worker.once("error", reject)
    })
    expect(await worker.terminate()).toBe(1)
    const ours = await withEngine((engine) => engine.generate(request).done)
    expect(theirs).toEqual([...ours.tokenIds])
  })
})

describe("arguments", () => {
  const batch: NativeBatch = {
    tokenIds: Int32Array.of(1, 2),
    sequenceLengths: Int32Array.of(2),
    temperatures: Float32Array.of(1, 1),
    mask: Uint8Array.of(0, 1),
    logprobs: new Float32Array(2),
    advantages: new Float32Array(2),
    referenceLogprobs: undefined,
    rlWeights: undefined,
    ceWeights: undefined,
    refKlWeights: undefined
  }
  const counts = { rl: 1, ce: 0, refKl: 0 }
  const loss = { kernel: "dppo", maskLow: 0.2, maskHigh: 0.2, advantageTau: 1, klTau: 0 } as const
  // What TypeScript would not let pass, as plain JavaScript might send it.
  const wrong = <A>(value: unknown) => value as A

  it("of a wrong kind or length are named", async () => {
    await withEngine(async (engine) => {
      expect(() => engine.forwardBackward({ ...batch, tokenIds: wrong([1, 2]) }, counts, loss)).toThrow(
        /^tokenIds must be an Int32Array$/
      )
      expect(() => engine.forwardBackward({ ...batch, mask: wrong(new Float32Array(2)) }, counts, loss)).toThrow(
        /mask must be a Uint8Array/
      )
      expect(() => engine.forwardBackward({ ...batch, rlWeights: new Float32Array(3) }, counts, loss)).toThrow(
        /^rlWeights has 3 entries, expected 2$/
      )
      expect(() => engine.forwardBackward({ ...batch, sequenceLengths: Int32Array.of(2, 0) }, counts, loss)).toThrow(
        /sequenceLengths must be positive, not 0/
      )
      expect(() => engine.forwardBackward(batch, { ...counts, rl: Number.NaN }, loss)).toThrow(
        /counts\.rl must be finite/
      )
      expect(() => engine.forwardBackward(batch, counts, wrong({ ...loss, kernel: "ppo" }))).toThrow(
        /loss\.kernel "ppo" is unknown/
      )
      expect(() => engine.forwardBackward(batch, counts, wrong({ ...loss, klTau: "1" }))).toThrow(
        /loss\.klTau must be a number/
      )
      expect(() => engine.generate({ ...request, temperature: -1 })).toThrow(/temperature must not be negative/)
      expect(() => engine.generate({ ...request, topP: 1.5 })).toThrow(/topP must be in \[0, 1\]/)
      expect(() => engine.generate({ ...request, seed: 2 ** 32 })).toThrow(
        /seed must be an integer from 0 to 4294967295, not 4294967296/
      )
      expect(() => engine.readTensor("model.norm.weight", new Float32Array(31))).toThrow(
        /into has 31 entries, expected 32/
      )
      expect(() => engine.writeTensor("model.norm.weight", wrong("F64"), new Uint8Array(256))).toThrow(
        /dtype "F64" is unknown/
      )
      expect(() => engine.adopt({ bytes: 4 })).toThrow(/snapshot must come from an engine/)
      expect(() => engine.optimizerStep(wrong({ learningRate: 1 }))).toThrow(/step\.beta1 must be a number/)
    })
    expect(() => addon.createEngine({ ...config, layers: 0 }, options)).toThrow(
      /config\.layers must be an integer from 1/
    )
    expect(() => addon.createEngine({ ...config, headDim: 7 }, options)).toThrow(/head/i)
    expect(() => addon.createEngine(config, { threads: 1, trainable: true, isa: wrong("neon") })).toThrow(/neon/)
    expect(() => addon.packedLoss(new Float32Array(1), batch, counts, loss)).toThrow(
      /trainerLogprobs has 1 entries, expected 2/
    )
  })

  it("may be changed, or taken away, once a job has begun", async () => {
    await withEngine(async (engine) => {
      const tokenIds = Int32Array.of(5, 6, 7, 8)
      const before = await engine.score(tokenIds, Int32Array.of(4), new Float32Array(4).fill(1)).done
      const job = engine.score(tokenIds, Int32Array.of(4), new Float32Array(4).fill(1))
      tokenIds.fill(60)
      expect((await job.done).logprobs).toEqual(before.logprobs)
      const into = new Float32Array(32)
      const reading = engine.readTensor("model.norm.weight", into)
      structuredClone(into.buffer, { transfer: [into.buffer] })
      await expect(reading.done).rejects.toThrow(/detached/)
    })
  })
})

describe("loss kernels", () => {
  const of = (more: Partial<NativeBatch>): NativeBatch => ({
    tokenIds: new Int32Array(4),
    sequenceLengths: Int32Array.of(4),
    temperatures: new Float32Array(4).fill(1),
    mask: Uint8Array.of(0, 1, 1, 0),
    logprobs: Float32Array.of(0, -1.1, -1.2, 0),
    advantages: Float32Array.of(0, 1, 1, 0),
    referenceLogprobs: undefined,
    rlWeights: undefined,
    ceWeights: undefined,
    refKlWeights: undefined,
    ...more
  })
  const dppo = { kernel: "dppo", maskLow: 0.2, maskHigh: 0.2, advantageTau: 1, klTau: 0 } as const
  const counts = { rl: 1, ce: 1, refKl: 1 }
  const trainer = Float32Array.of(0, -1, -1, 0)

  it("NUM-01: a masked token whose ratio overflows is skipped, never multiplied by 0", () => {
    const healthy = addon.packedLoss(trainer, of({ mask: Uint8Array.of(0, 1, 0, 0) }), counts, dppo)
    for (const sampled of [-100, -800]) {
      const { gradient, rl } = addon.packedLoss(
        trainer,
        of({ logprobs: Float32Array.of(0, -1.1, sampled, 0) }),
        counts,
        dppo
      )
      expect(rl).toBe(healthy.rl)
      expect([...gradient]).toEqual([...healthy.gradient])
    }
  })

  it("NUM-03: what stands outside the mask, NaN included, changes nothing", () => {
    const clean = addon.packedLoss(trainer, of({}), counts, dppo)
    const dirty = addon.packedLoss(
      Float32Array.of(Number.NaN, -1, -1, Number.NaN),
      of({ logprobs: Float32Array.of(Number.NaN, -1.1, -1.2, 7), advantages: Float32Array.of(3, 1, 1, Number.NaN) }),
      counts,
      dppo
    )
    expect(dirty).toEqual(clean)
  })

  it("NORM-05: no member gives loss 0, not 0/0", () => {
    const none = addon.packedLoss(
      trainer,
      of({ mask: new Uint8Array(4), ceWeights: new Float32Array(4) }),
      { rl: 0, ce: 0, refKl: 0 },
      dppo
    )
    expect(none).toEqual({ rl: 0, ce: 0, refKl: 0, gradient: new Float32Array(4) })
  })
})

describe("the processor", () => {
  it("is told, and every instruction set that it has gives nearly the same", async () => {
    const { cores, isa } = addon.cpu()
    expect(cores).toBeGreaterThan(0)
    const results = []
    for (const one of isas.slice(0, isas.indexOf(isa) + 1)) {
      const engine = addon.createEngine(config, { ...options, isa: one })
      await engine.initialise(7, 0.3).done
      results.push(await engine.score(Int32Array.of(1, 2, 3, 4), Int32Array.of(4), new Float32Array(4).fill(1)).done)
      engine.dispose()
    }
    for (const { logprobs } of results) {
      for (const [i, logprob] of logprobs.entries()) expect(logprob).toBeCloseTo(results[0]!.logprobs[i]!, 4)
    }
  })
})
