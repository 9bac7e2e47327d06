/** A worker that is ended while native jobs settle takes nothing else down with it. */
import { execFile } from "node:child_process"
import { fileURLToPath } from "node:url"
import { expect, it } from "vitest"

const path = fileURLToPath(new URL("../../native/build/primerl.node", import.meta.url))
const config = {
  hiddenSize: 32,
  intermediateSize: 48,
  layers: 1,
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

it("a worker may be ended at any moment between jobs, again and again, and the process lives", async () => {
  const worker = `
    const { parentPort, workerData: { path, config } } = require("node:worker_threads")
    const engine = require(path).createEngine(config, { threads: 1, trainable: false })
    const one = () => engine.score(Int32Array.of(1, 2, 3), Int32Array.of(3), new Float32Array(3).fill(1)).done
    engine.initialise(7, 0.1).done.then(() => {
      const again = () => { one().then(again) }
      for (let i = 0; i < 8; i++) again()
      parentPort.postMessage("running")
    })`
  const program = `
    const { Worker } = require("node:worker_threads")
    const [path, config, source] = ${JSON.stringify([path, config, worker])}
    require(path)
    ;(async () => {
      for (let i = 0; i < 30; i++) {
        const worker = new Worker(source, { eval: true, workerData: { path, config } })
        await new Promise((resolve, reject) => { worker.once("message", resolve); worker.once("error", reject) })
        await new Promise((resolve) => setTimeout(resolve, i % 5))
        await worker.terminate()
      }
      console.log("alive")
    })()`
  const ended = await new Promise((resolve) =>
    execFile(process.execPath, ["-e", program], { timeout: 50_000 }, (error, stdout, stderr) =>
      resolve({ signal: error?.signal ?? null, stdout, stderr })
    )
  )
  expect(ended).toEqual({ signal: null, stdout: "alive\n", stderr: "" })
})
