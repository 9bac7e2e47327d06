/**
 * What training holds on to: optimiser steps of a tiny model while passes, scores and generations beside them are given up
 * at random moments, and the engine itself is closed under its work and opened anew. Memory is read after a full
 * collection. Exits with 1 when memory or the number of threads grows, when something ends otherwise than it was asked
 * to, or when a step is not taken.
 *
 *     npm run bench:soak -- [steps] [seed]
 */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Clock from "effect/Clock"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Seed from "../../src/Seed.ts"
import * as Engine from "../../src/Trainer/Engine.ts"
import type { NativeBatch } from "../../src/Trainer/Native.ts"
import type { NativeError } from "../../src/Trainer/NativeError.ts"
import { tinyConfig } from "../../test/Trainer/models.ts"
import { slope } from "../numbers.ts"

/** Of the second half, in megabytes for a thousand steps. An engine that is not freed is 0.3, and ten go in a thousand steps. */
const limits = { rss: 1, native: 1, heap: 0.1 }

const loss = { kernel: "dppo", maskLow: 0.2, maskHigh: 0.2, advantageTau: 1, klTau: 1e-3 } as const
const adamw = { learningRate: 1e-4, beta1: 0.9, beta2: 0.999, eps: 1e-8, weightDecay: 0, maxGradNorm: 1 }

const [steps = 10_000, seed = 7] = process.argv.slice(2).map(Number)
const random = Seed.generator(seed)
const whole = (limit: number) => Math.floor(random() * limit)
const ids = (length: number) => Int32Array.from({ length }, () => whole(tinyConfig.vocab_size))

const batch = (): NativeBatch => {
  const sequenceLengths = Int32Array.from({ length: 1 + whole(4) }, () => 2 + whole(30))
  const length = sequenceLengths.reduce((sum, each) => sum + each, 0)
  return {
    tokenIds: ids(length),
    sequenceLengths,
    temperatures: new Float32Array(length).fill(1),
    mask: Uint8Array.from({ length }, () => whole(2)),
    logprobs: new Float32Array(length).fill(-4),
    advantages: Float32Array.from({ length }, () => 2 * random() - 1),
    referenceLogprobs: undefined,
    rlWeights: undefined,
    ceWeights: undefined,
    refKlWeights: undefined
  }
}

const request = () => ({
  promptIds: ids(1 + whole(40)),
  maxTokens: 1 + whole(40),
  ...{ temperature: 1, topP: 1, topK: 0, minP: 0, seed: whole(2 ** 32) },
  stopTokenIds: new Int32Array(0)
})

const pass = (engine: Engine.Engine) => engine.forwardBackward(batch(), { rl: 16, ce: 0, refKl: 0 }, loss)

const score = (engine: Engine.Engine) => {
  const { sequenceLengths, temperatures, tokenIds } = batch()
  return engine.score(tokenIds, sequenceLengths, temperatures)
}

type Work = (engine: Engine.Engine) => Effect.Effect<unknown, NativeError>

const generate: Work = (engine) => engine.generate(request())

/** What can be asked for beside a step and leaves its gradients alone, each time for a new input. */
const beside: ReadonlyArray<Work> = [
  score,
  generate,
  (engine) => Stream.runDrain(engine.stream(request())),
  (engine) => Effect.flatMap(engine.snapshot, (snapshot) => engine.adopt(snapshot, random() < 0.5 ? "swap" : "finish")),
  (engine) => Effect.all([generate(engine), score(engine)], { concurrency: "unbounded" })
]

const one = (engine: Engine.Engine, of: ReadonlyArray<Work>) => Effect.suspend(() => of[whole(of.length)]!(engine))

/** Mostly a few turns of the event loop, so that what is given up is waiting, running or done. */
const patience = Effect.suspend(() =>
  Effect.replicateEffect(
    Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void))),
    Math.floor(200 * random() ** 3),
    { discard: true }
  )
)

const counts = { steps: 0, interrupted: 0, inTime: 0, closings: 0, ended: 0 }

/** Interrupts the work, and waits for its end. */
const giveUp = (work: Effect.Effect<unknown, NativeError>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(work)
    yield* patience
    const exit = yield* Fiber.interrupt(fiber)
    if (Exit.isInterrupted(exit)) return counts.interrupted++
    counts.inTime++
    return yield* exit
  })

/** One whole optimiser step; before it, half the times, one that is interrupted somewhere. */
const step = (engine: Engine.Engine) =>
  Effect.gen(function* () {
    if (random() < 0.5) {
      const next = random() < 0.2 ? Effect.asVoid(engine.optimizerStep(adamw)) : Effect.asVoid(pass(engine))
      yield* giveUp(Effect.zipRight(pass(engine), next))
    }
    yield* engine.zeroGradients
    const work = one(engine, beside)
    const other = yield* Effect.fork(random() < 0.5 ? giveUp(work) : work)
    yield* pass(engine)
    const { applied } = yield* engine.optimizerStep(adamw)
    yield* Fiber.join(other)
    if (!applied) return yield* Effect.dieMessage(`step ${counts.steps + 1} was not taken`)
    counts.steps++
  })

/** Closes the scope of an engine at work: everything ends, with what it was to give or as disposed. */
const closeAtWork = (engine: Engine.Engine, scope: Scope.CloseableScope) =>
  Effect.gen(function* () {
    const works = Array.from({ length: 2 + whole(6) }, () => Effect.either(one(engine, [pass, ...beside])))
    const fibers = yield* Effect.forEach(works, (work) => Effect.fork(work))
    yield* patience
    yield* Scope.close(scope, Exit.void)
    for (const ended of yield* Effect.forEach(fibers, (fiber) => Fiber.join(fiber))) {
      if (Either.isLeft(ended) && ended.left.code !== "ERR_DISPOSED") return yield* ended.left
      counts.ended++
    }
    counts.closings++
  })

interface Reading {
  readonly step: number
  readonly rss: number
  /** resident, and not V8's */
  readonly native: number
  readonly heap: number
  readonly threads: number
}

setFlagsFromString("--expose-gc")
const collect = runInNewContext("gc") as () => void
const turn = Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void)))

/** Collects twice, with a turn of the event loop between, so that finalizers have run. */
const reading = Effect.gen(function* () {
  collect()
  yield* turn
  collect()
  const { heapTotal, heapUsed, rss } = process.memoryUsage()
  const threads = process.platform === "linux" ? readdirSync("/proc/self/task").length : 0
  const megabytes = (bytes: number) => bytes / 2 ** 20
  const found: Reading = {
    step: counts.steps,
    rss: megabytes(rss),
    native: megabytes(rss - heapTotal),
    heap: megabytes(heapUsed),
    threads
  }
  return found
})

const directory = Effect.acquireRelease(
  Effect.sync(() => {
    const made = mkdtempSync(`${tmpdir()}/primerl-soak-`)
    writeFileSync(`${made}/config.json`, JSON.stringify(tinyConfig))
    return made
  }),
  (made) => Effect.sync(() => rmSync(made, { recursive: true }))
)

/** Told at once, as a run takes minutes. */
const row = ({ heap, native, rss, step, threads }: Reading) =>
  `step ${step}: rss ${rss.toFixed(1)} MB, native ${native.toFixed(1)} MB, heap ${heap.toFixed(2)} MB, ${threads} threads; ` +
  `${counts.interrupted} works interrupted, ${counts.closings} engines closed`

const program = Effect.gen(function* () {
  const at = yield* directory
  const started = yield* Clock.currentTimeMillis
  const readings: Array<Reading> = []
  const every = Math.ceil(steps / 10)
  while (counts.steps < steps) {
    const scope = yield* Scope.make()
    const engine = yield* Engine.open(at, {
      ...{ threads: 2, trainable: true, kvBytes: 200_000 },
      randomInit: { seed: whole(1000), std: 0.2 }
    }).pipe(Scope.extend(scope))
    const life = 1 + whole(200)
    for (let i = 0; i < life && counts.steps < steps; i++) {
      yield* step(engine)
      if (counts.steps % every !== 0) continue
      const { running, waiting } = yield* engine.generationStats
      if (running + waiting > 0) return yield* Effect.dieMessage("a generation is left over")
      const found = yield* reading
      readings.push(found)
      yield* Console.log(row(found))
    }
    yield* closeAtWork(engine, scope)
  }
  const half = readings.filter(({ step }) => step >= steps / 2)
  const growth = (of: keyof typeof limits) => 1000 * slope(half.map((each) => [each.step, each[of]]))
  const grown = { rss: growth("rss"), native: growth("native"), heap: growth("heap") }
  const seconds = ((yield* Clock.currentTimeMillis) - started) / 1000
  yield* Console.log(
    `\n${counts.steps} steps in ${seconds.toFixed(0)} s; ${counts.interrupted} works interrupted, ${counts.inTime} ended before; ` +
      `${counts.closings} engines closed under ${counts.ended} works`
  )
  for (const of of ["rss", "native", "heap"] as const) {
    yield* Console.log(`${of}: ${grown[of].toFixed(3)} MB in 1000 steps of the second half (at most ${limits[of]})`)
  }
  const isFlat =
    grown.rss <= limits.rss &&
    grown.native <= limits.native &&
    grown.heap <= limits.heap &&
    Math.min(...half.map(({ threads }) => threads)) <= readings[0]!.threads
  yield* Console.log(isFlat ? "memory is flat" : "memory or threads grow")
  return isFlat
})

const isFlat = await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer)))
process.exitCode = isFlat ? 0 : 1
