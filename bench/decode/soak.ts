/**
 * What generation holds on to: requests that come and are given up at random, with little memory for keys and values, so
 * that sequences wait, share, give way and are computed again. Memory is read after a full collection.
 */
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Seed from "../../src/Seed.ts"
import * as Engine from "../../src/Trainer/Engine.ts"
import { slope, table } from "../numbers.ts"

const atOnce = 40
const kvBytes = 600_000

/** Drawn from few beginnings, so that many have one in common. */
const request = (random: () => number, vocabulary: number) => {
  const whole = (limit: number) => Math.floor(random() * limit)
  const beginning = whole(5)
  const length = 1 + whole(150)
  const own = whole(length)
  const promptIds = Int32Array.from({ length }, (_, i) =>
    i < own ? (beginning * 31 + i) % vocabulary : whole(vocabulary)
  )
  return {
    promptIds,
    maxTokens: 1 + whole(40),
    temperature: whole(3) / 2,
    ...{ topP: 1, topK: whole(4) === 0 ? 5 : 0, minP: 0, seed: whole(2 ** 32) },
    stopTokenIds: new Int32Array(0)
  }
}

/** True when memory stays flat and nothing is left behind. */
export const soak = (directory: string, requests: number) =>
  Effect.gen(function* () {
    setFlagsFromString("--expose-gc")
    const collect = runInNewContext("gc") as () => void
    const engine = yield* Engine.open(directory, {
      ...{ threads: 2, trainable: false, kvBytes },
      randomInit: { seed: 1, std: 0.3 }
    })
    const random = Seed.generator(7)
    const ended = { whole: 0, cancelled: 0 }
    const one = Effect.suspend(() => {
      const asked = engine.generate(request(random, engine.config.vocabSize))
      const patience = random() < 0.3 ? Math.floor(random() * 20) : undefined
      const giveUp = Effect.gen(function* () {
        const fiber = yield* Effect.fork(asked)
        for (let turn = 0; turn < patience!; turn++) yield* Effect.sleep(0)
        yield* Fiber.interrupt(fiber)
        ended.cancelled++
      })
      return patience === undefined ? Effect.map(asked, () => void ended.whole++) : giveUp
    })
    const readings: Array<readonly [number, number]> = []
    const rows: Array<ReadonlyArray<string>> = []
    const rounds = 10
    for (let round = 1; round <= rounds; round++) {
      const some = Array.from({ length: Math.ceil(requests / rounds) }, () => one)
      yield* Effect.all(some, { concurrency: atOnce, discard: true })
      // Snapshots come and go beside generations, as in training.
      yield* engine.adopt(yield* engine.snapshot, round % 2 === 0 ? "swap" : "finish")
      collect()
      yield* Effect.sleep(0)
      collect()
      const megabytes = process.memoryUsage().rss / 2 ** 20
      const stats = yield* engine.generationStats
      readings.push([stats.computedTokens, megabytes])
      rows.push([
        ...[ended.whole, ended.cancelled, stats.computedTokens, stats.sharedTokens, stats.preemptions].map(String),
        (stats.kvBytes / 2 ** 20).toFixed(2),
        megabytes.toFixed(1)
      ])
      if (stats.kvBytes > kvBytes || stats.running + stats.waiting > 0) return false
    }
    yield* Console.log(
      table(["whole", "given up", "computed tokens", "shared", "computed again", "kv MB", "rss MB"], rows)
    )
    // the first half fills what stays
    const growth = slope(readings.slice(rounds / 2)) * 1e6
    yield* Console.log(`rss grows by ${growth.toFixed(2)} MB in a million tokens (at most 10)`)
    return growth < 10
  })
