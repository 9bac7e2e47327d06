/** Tokens are heard of as they are drawn: each once, in order, before the result, and none once nobody wants them. */
import { createRequire } from "node:module"
import { fileURLToPath } from "node:url"
import { Worker } from "node:worker_threads"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { GenerateRequest, ModelConfig, NativeAddon, NativeEngine } from "../../src/Trainer/Native.ts"

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
  maxPositionEmbeddings: 4096,
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
  maxTokens: 60,
  temperature: 1,
  topP: 1,
  topK: 0,
  minP: 0,
  stopTokenIds: new Int32Array(0),
  seed: 1
}
/** Longer than any test waits for. */
const endless = { ...request, maxTokens: 4000 }

const opened = async () => {
  const engine = addon.createEngine(config, { threads: 2, trainable: false })
  await engine.initialise(7, 0.3).done
  return engine
}

/** What a listener heard, and a promise for the moment when it has heard of `count` tokens. */
const listening = (count = Number.POSITIVE_INFINITY) => {
  const ids: Array<number> = []
  const logprobs: Array<number> = []
  let enough = () => {}
  const heard = new Promise<void>((resolve) => {
    enough = resolve
  })
  const onTokens = (tokenIds: Int32Array, values: Float32Array) => {
    ids.push(...tokenIds)
    logprobs.push(...values)
    if (ids.length >= count) enough()
  }
  return { ids, logprobs, heard, onTokens }
}

/** Lets whatever the engine has posted arrive. */
const turns = async () => {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
}

describe("a listener", () => {
  let engine: NativeEngine
  beforeAll(async () => {
    engine = await opened()
  })
  afterAll(() => engine.dispose())

  it("hears of exactly the result, before it, and changes nothing of it", async () => {
    const requests = Array.from({ length: 12 }, (_, seed) => ({
      ...request,
      seed,
      maxTokens: 1 + 5 * seed,
      temperature: (seed % 3) * 0.5,
      stopTokenIds: Int32Array.of(seed)
    }))
    const silent = await Promise.all(requests.map((one) => engine.generate(one).done))
    await Promise.all(
      requests.map(async (one, i) => {
        const { ids, logprobs, onTokens } = listening()
        const result = await engine.generate(one, onTokens).done
        expect(result).toEqual(silent[i])
        expect(ids).toEqual([...result.tokenIds])
        expect(logprobs).toEqual([...result.logprobs])
        await turns()
        expect(ids).toHaveLength(result.tokenIds.length)
      })
    )
  })

  it("hears before the generation is over", async () => {
    const { heard, ids, onTokens } = listening(1)
    const job = engine.generate(endless, onTokens)
    await heard
    expect(ids.length).toBeLessThan(4000)
    job.cancel()
    await expect(job.done).rejects.toMatchObject({ code: "ERR_CANCELLED" })
  })

  it("hears nothing once the generation is cancelled", async () => {
    const { heard, ids, onTokens } = listening(5)
    const job = engine.generate(endless, onTokens)
    await heard
    job.cancel()
    const count = ids.length
    await expect(job.done).rejects.toMatchObject({ code: "ERR_CANCELLED" })
    await turns()
    expect(ids).toHaveLength(count)
    expect([...(await engine.generate(request).done).tokenIds].slice(0, 5)).toEqual(ids.slice(0, 5))
  })

  it("may cancel from within", async () => {
    const calls: Array<number> = []
    const job = engine.generate(endless, (tokenIds) => {
      calls.push(tokenIds.length)
      job.cancel()
    })
    await expect(job.done).rejects.toMatchObject({ code: "ERR_CANCELLED" })
    expect(calls).toHaveLength(1)
  })

  it("that throws ends its own generation with what it threw, and no other", async () => {
    let calls = 0
    const broken = engine.generate(endless, () => {
      calls++
      throw new RangeError("the reader is gone")
    })
    const { ids, onTokens } = listening()
    const healthy = engine.generate(request, onTokens)
    await expect(broken.done).rejects.toThrow(new RangeError("the reader is gone"))
    expect(ids).toEqual([...(await healthy.done).tokenIds])
    expect(calls).toBe(1)
    const last = engine.generate({ ...request, maxTokens: 1 }, () => {
      throw "at the last token"
    })
    await expect(last.done).rejects.toBe("at the last token")
  })

  it("that starts generations is not disturbed by them", async () => {
    const inner: Array<Promise<unknown>> = []
    const { ids, onTokens } = listening()
    const result = await engine.generate(request, (tokenIds, logprobs) => {
      onTokens(tokenIds, logprobs)
      for (let seed = 0; seed < 8; seed++) inner.push(engine.generate({ ...request, seed, maxTokens: 2 }).done)
    }).done
    expect(ids).toEqual([...result.tokenIds])
    await Promise.all(inner)
  })

  it("must be a function", () => {
    expect(() => engine.generate(request, 1 as never)).toThrow(/^onTokens must be a function$/)
  })
})

it("a listener hears nothing once the engine is disposed of", async () => {
  const engine = await opened()
  const { heard, ids, onTokens } = listening(5)
  const job = engine.generate(endless, onTokens)
  await heard
  engine.dispose()
  const count = ids.length
  await expect(job.done).rejects.toMatchObject({ code: "ERR_DISPOSED" })
  await turns()
  expect(ids).toHaveLength(count)
})

it("a listener may dispose of the engine", async () => {
  const engine = await opened()
  const job = engine.generate(endless, () => engine.dispose())
  await expect(job.done).rejects.toMatchObject({ code: "ERR_DISPOSED" })
})

it("a worker may be ended while its listeners are called", async () => {
  const source = `
    const { parentPort, workerData: { path, config, request } } = require("node:worker_threads")
    const engine = require(path).createEngine(config, { threads: 1, trainable: false })
    engine.initialise(7, 0.3).done.then(() => {
      for (let seed = 0; seed < 8; seed++) {
        const again = () => engine.generate({ ...request, seed }, () => parentPort.postMessage("heard")).done.then(again)
        again()
      }
    })`
  for (let i = 0; i < 5; i++) {
    const worker = new Worker(source, { eval: true, workerData: { path, config, request } })
    await new Promise((resolve, reject) => {
      worker.once("message", resolve)
      worker.once("error", reject)
    })
    expect(await worker.terminate()).toBe(1)
  }
})
