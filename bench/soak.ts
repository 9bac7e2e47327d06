/**
 * What a long run holds on to. Two loads, both without weights so that nothing but the loop is measured: the dispatcher
 * for many small iterations in one scope (LEAK-01), and the orchestrator for steps of long rollouts (LEAK-08). Memory is
 * read after a full collection. Exits with 1 when memory grows, or when a trace outlives its step.
 *
 *     npx vite-node bench/soak.ts [iterations] [steps]
 */
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import Grpo from "../src/algorithms/Grpo.ts"
import * as Checkpoint from "../src/Checkpoint.ts"
import * as Environment from "../src/Environment.ts"
import { Inference } from "../src/Inference.ts"
import * as Journal from "../src/Journal.ts"
import * as Orchestrator from "../src/Orchestrator.ts"
import * as Dispatcher from "../src/orchestrator/Dispatcher.ts"
import * as Permits from "../src/Permits.ts"
import { parserOfWhole, Renderer, type RendererService } from "../src/Renderer.ts"
import * as Sampler from "../src/Sampler.ts"
import * as State from "../src/State.ts"
import * as Trace from "../src/Trace.ts"
import * as Mock from "../src/Trainer/Mock.ts"
import * as PackedLoss from "../src/Trainer/PackedLoss.ts"
import { rollout } from "../src/testing/index.ts"
import { slope, table } from "./numbers.ts"

setFlagsFromString("--expose-gc")
const collect = runInNewContext("gc") as () => void

const megabytes = (bytes: number) => bytes / 2 ** 20

interface Reading {
  readonly at: number
  readonly heap: number
  readonly buffers: number
  readonly rss: number
}

/** Collects twice, with a turn of the event loop between, so that finalizers have run. */
const reading = (at: number): Effect.Effect<Reading> =>
  Effect.gen(function* () {
    collect()
    yield* Effect.sleep(0)
    collect()
    const { arrayBuffers, heapUsed, rss } = process.memoryUsage()
    return { at, heap: megabytes(heapUsed), buffers: megabytes(arrayBuffers), rss: megabytes(rss) }
  })

const show = (unit: string, readings: ReadonlyArray<Reading>) =>
  table(
    [unit, "heap MB", "buffers MB", "rss MB"],
    readings.map(({ at, buffers, heap, rss }) => [String(at), heap.toFixed(2), buffers.toFixed(2), rss.toFixed(1)])
  )

const groupSize = 4

/** Rollouts that cost nothing: what is left is dispatch, scoring, sets and samples. */
const iterations = (count: number) =>
  Effect.gen(function* () {
    const { trace } = rollout()
    const source = {
      name: "soak",
      algorithm: Grpo.layer(),
      firstSequence: 0,
      groupSize,
      ratio: 1,
      example: (index: number) => `example ${index % 100}`,
      run: (planned: Parameters<Dispatcher.Source<never, never, never>["run"]>[0]) =>
        Effect.succeed({ ...rollout({ ...planned, trace, reward: planned.sequence % 2 }) })
    }
    const dispatcher = yield* Dispatcher.make([source], Effect.succeed(0))
    const readings: Array<Reading> = []
    let cursor = Sampler.start
    for (let i = 1; i <= count; i++) {
      const next = Sampler.plan([source], { seed: 0, rollouts: groupSize, policyVersion: 0, cursor })
      cursor = next.cursor
      yield* dispatcher.run(i, next.planned)
      if (i % Math.ceil(count / 10) === 0) readings.push(yield* reading(i))
    }
    yield* Console.log(`${show("iteration", readings)}\n`)
    const [first, last] = [readings[0]!, readings.at(-1)!]
    const grown = last.heap - first.heap
    yield* Console.log(`heap from iteration ${first.at} to ${last.at}: ${grown.toFixed(2)} MB (at most 5)\n`)
    return grown <= 5
  }).pipe(Effect.scoped, Effect.provide(Layer.merge(Journal.layerNone, Permits.layer(64))))

const tokens = 2048
const rollouts = 64

/** A policy that answers at once, with as many tokens as a long answer has. */
const layerPolicy = Layer.succeed(Inference, {
  name: "soak",
  maxSequenceLength: tokens,
  generate: (promptIds, { seed }) =>
    Effect.sync(() => {
      const length = tokens - promptIds.length
      return {
        tokenIds: Int32Array.from({ length }, (_, i) => (seed + i) % 200),
        logprobs: new Float32Array(length).fill(-1),
        finishReason: "length" as const,
        policyVersion: 0
      }
    }),
  score: (tokenIds) => Effect.succeed(new Float32Array(tokenIds.length)),
  adopt: () => Effect.void
})

const parseSoak: RendererService["parse"] = (completionIds) => ({
  message: { role: "assistant", content: `${completionIds.length} tokens from ${completionIds[0]}` },
  toolCalls: [],
  reasoningComplete: undefined,
  terminatedBy: undefined
})

/** Text does not matter here: a prompt is a few ids, an answer is its number of ids. */
const layerRenderer = Layer.succeed(Renderer, {
  name: "soak",
  stopTokenIds: [255],
  render: (messages) => {
    const length = 32
    return {
      tokenIds: new Int32Array(length),
      messageIndices: Int32Array.from({ length }, (_, i) => Math.min(i, messages.length - 1)),
      sampledMask: new Uint8Array(length),
      isContent: new Uint8Array(length)
    }
  },
  parse: parseSoak,
  parser: parserOfWhole(parseSoak),
  bridge: () => undefined
})

const steps = (count: number) =>
  Effect.gen(function* () {
    const traces: Array<WeakRef<Trace.Trace>> = []
    const environment = Environment.make({
      name: "soak",
      tasks: Array.from({ length: 1000 }, (_, i) => `task ${i}`),
      reward: (_, { reply, trace }) => {
        traces.push(new WeakRef(trace))
        return reply.length % 2
      },
      metrics: { turns: (_, { trace }) => Trace.turns(trace) }
    })
    const readings: Array<Reading> = []
    yield* Orchestrator.steps({
      sources: [{ environment, algorithm: Grpo.layer(), groupSize }],
      steps: count,
      batchSize: rollouts,
      maxSequenceLength: tokens
    }).pipe(
      Stream.runForEach((report) =>
        Effect.gen(function* () {
          if (report.step % Math.ceil(count / 15) === 0) readings.push(yield* reading(report.step))
        })
      )
    )
    yield* Console.log(`${show("step", readings)}\n`)
    const warm = readings.filter(({ at }) => at >= count / 6)
    const growth = slope(warm.map(({ at, rss }) => [at, rss]))
    const held = slope(warm.map(({ at, buffers, heap }) => [at, heap + buffers]))
    const alive = traces.slice(0, -2 * rollouts).filter((trace) => trace.deref() !== undefined).length
    yield* Console.log(
      `from step ${warm[0]?.at}: ${held.toFixed(4)} MB held per step, rss ${growth.toFixed(4)} (at most 0.1)`
    )
    yield* Console.log(`traces that outlived their step: ${alive} of ${traces.length}`)
    return growth < 0.1 && held < 0.01 && alive === 0
  }).pipe(
    Effect.provide(
      Layer.mergeAll(Mock.layerMock(), Checkpoint.layerNone, Journal.layerNone, Permits.layer(64), State.layer()).pipe(
        Layer.provide(PackedLoss.layerMock({ logprobs: (sample) => sample.logprobs })),
        Layer.merge(layerPolicy),
        Layer.merge(layerRenderer)
      )
    )
  )

const [count = 20_000, length = 300] = process.argv.slice(2).map(Number)

const isFlat = await Effect.runPromise(Effect.zipWith(iterations(count), steps(length), (a, b) => a && b))
process.exitCode = isFlat ? 0 : 1
