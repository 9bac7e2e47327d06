/**
 * A training step of a Llama, forward, loss, backward and AdamW on packed sequences, on a CUDA device, in float32 and in
 * bfloat16; and of a small one on the processor too, in turns. A rate counts the operations of the matrix products, of
 * which the backward pass has twice as many as the forward pass.
 *
 *     npm run bench:cuda [rounds] [small|medium|large]
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Addon from "../src/Trainer/Addon.ts"
import * as Engine from "../src/Trainer/Engine.ts"
import { configOf, operationsOf, type Shape, stepOf } from "./llamaStep.ts"
import { median, table } from "./numbers.ts"

interface Load extends Shape {
  /** whether the processor is to do it too */
  readonly onCpu: boolean
}

const shapes: Readonly<Record<string, Load>> = {
  small: {
    ...{ hidden: 128, heads: 2, layers: 2, intermediate: 256, vocabulary: 512, sequences: 2, length: 32, onCpu: true }
  },
  medium: {
    ...{ hidden: 256, heads: 4, layers: 6, intermediate: 768, vocabulary: 8192, sequences: 8, length: 512, onCpu: true }
  },
  large: {
    ...{
      hidden: 1024,
      heads: 16,
      layers: 12,
      intermediate: 3072,
      vocabulary: 32_000,
      sequences: 8,
      length: 1024,
      onCpu: false
    }
  }
}

/** A step that is timed, and the seconds of its rounds. */
interface Rival {
  readonly device: "cpu" | "cuda"
  readonly dtype: "float32" | "bfloat16"
  readonly step: ReturnType<typeof stepOf>
  readonly seconds: Array<number>
}

const measure = (name: string, shape: Load, rounds: number) =>
  Effect.gen(function* () {
    const directory = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "primerl-cuda-"))),
      (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
    )
    writeFileSync(join(directory, "config.json"), JSON.stringify(configOf(shape)))
    const devices = shape.onCpu ? (["cuda", "cpu"] as const) : (["cuda"] as const)
    const rivals: Array<Rival> = []
    for (const device of devices) {
      for (const dtype of ["float32", "bfloat16"] as const) {
        const engine = yield* Engine.open(directory, {
          ...{ threads: 2, trainable: true, device, dtype, randomInit: { seed: 1, std: 0.02 } }
        })
        rivals.push({ device, dtype, step: stepOf(engine, shape), seconds: [] })
      }
    }
    for (let round = 0; round <= rounds; round++) {
      for (const { seconds, step } of rivals) {
        const started = process.hrtime.bigint()
        yield* step
        // the first warms up
        if (round > 0) seconds.push(Number(process.hrtime.bigint() - started) / 1e9)
      }
    }
    const tokens = shape.sequences * shape.length
    const operations = 3 * Object.values(operationsOf(shape)).reduce((sum, part) => sum + part, 0)
    const rows = rivals.map(({ device, dtype, seconds }) => [
      `${name} ${device} ${dtype}`,
      (1e3 * median(seconds)).toFixed(2),
      `${(1e3 * Math.min(...seconds)).toFixed(2)}–${(1e3 * Math.max(...seconds)).toFixed(2)}`,
      (tokens / median(seconds)).toFixed(0),
      (operations / median(seconds) / 1e12).toFixed(3)
    ])
    const secondsOf = (device: string, dtype: string) =>
      median(rivals.find((rival) => rival.device === device && rival.dtype === dtype)!.seconds)
    const ratios = shape.onCpu
      ? (["float32", "bfloat16"] as const).map(
          (dtype) => `ratio cuda_${name}_${dtype} ${(secondsOf("cpu", dtype) / secondsOf("cuda", dtype)).toFixed(2)}`
        )
      : []
    return { rows, ratios }
  }).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer))

const [rounds = "5", only] = process.argv.slice(2)

const program = Effect.gen(function* () {
  const { devices, reason } = (yield* Addon.load).cuda()
  if (reason !== undefined) return yield* Console.log(`not measured: ${reason}`)
  yield* Console.log(`device ${devices[0]!.name}; the processor with 2 threads; ${rounds} rounds`)
  for (const [name, shape] of Object.entries(shapes)) {
    if (only !== undefined && only !== name) continue
    const { ratios, rows } = yield* measure(name, shape, Number(rounds))
    yield* Console.log(table(["step", "ms", "spread", "tokens/s", "TFLOP/s"], rows))
    for (const line of ratios) yield* Console.log(line)
  }
})

await Effect.runPromise(program)
