/**
 * Rollouts per second through the whole pipeline: put in order, scored, gathered in dependent sets, laid out, batched,
 * packed, and counted by a trainer that does nothing else. It takes turns with a plain Python asyncio program that does the
 * same, so that a busy machine slows both; that both train the same tokens is checked. Each load has a process of its own,
 * as each pass of Python has: code that was compiled for the shapes of one load is slow for another. A ratio is this pipeline's rate over
 * that of Python, by the clock and by the time of all processors.
 *
 *     npm run bench:pipeline [rounds] [rollouts]
 */
import { execFileSync, spawnSync } from "node:child_process"
import { availableParallelism, loadavg } from "node:os"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import * as Clock from "effect/Clock"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import type { Algorithm } from "../src/Algorithm.ts"
import Echo from "../src/algorithms/Echo.ts"
import Grpo from "../src/algorithms/Grpo.ts"
import Opd from "../src/algorithms/Opd.ts"
import * as DependentSet from "../src/DependentSet.ts"
import * as Endpoints from "../src/Endpoints.ts"
import * as Mock from "../src/inference/Mock.ts"
import * as Pipeline from "../src/Pipeline.ts"
import type { Rollout } from "../src/Rollout.ts"
import { many, toolUse } from "../src/testing/index.ts"
import { median, table } from "./numbers.ts"

setFlagsFromString("--expose-gc")
const collect = runInNewContext("gc") as () => void

const [rounds = 5, most = 100_000] = process.argv.slice(2, 4).map(Number)
/** set in the process of one load */
const only = process.argv[4]
const peer = "bench/pipeline_peer.py"
const hasPython = spawnSync("python3", ["--version"]).status === 0

/** One pass: what went through it, in seconds of the clock and of all processors. */
interface Pass {
  readonly rollouts: number
  readonly tokens: number
  readonly seconds: number
  readonly processorSeconds: number
}

const pass = (algorithm: Layer.Layer<Algorithm>, rollouts: IterableIterator<Rollout>, watch: DependentSet.Watch) =>
  Effect.gen(function* () {
    const cpu = process.cpuUsage()
    const started = yield* Clock.currentTimeNanos
    let consumed = 0
    // rollouts end a few at a time; batch and capacity are those of the peer
    const ended = Stream.fromIteratorSucceed(rollouts, 64).pipe(Pipeline.inDispatchOrder())
    const tokens = yield* Pipeline.merge(Pipeline.source({ name: "mock", rollouts: ended, algorithm, watch })).pipe(
      Pipeline.batches({ rollouts: 128 }),
      Stream.tap((batch) =>
        Effect.sync(() => {
          consumed += batch.rollouts.length
        })
      ),
      Pipeline.pack({ maxSequenceLength: 16_384 }),
      Stream.runFold(0, (sum, { counts }) => sum + counts.rl + counts.ce + counts.refKl)
    )
    const seconds = Number((yield* Clock.currentTimeNanos) - started) / 1e9
    const { system, user } = process.cpuUsage(cpu)
    return { rollouts: consumed, tokens, seconds, processorSeconds: (system + user) / 1e6 } satisfies Pass
  })

const passOfPeer = (rollouts: number, tokens: number): Pass => {
  const printed = execFileSync("python3", [peer, String(rollouts), String(tokens)], { encoding: "utf8" })
  const [consumed, trained, seconds, processorSeconds] = printed.trim().split(" ").map(Number) as [
    number,
    number,
    number,
    number
  ]
  return { rollouts: consumed, tokens: trained, seconds, processorSeconds }
}

/** What is held after collecting twice, with a turn of the event loop between, so that finalizers have run. */
const megabytes = Effect.gen(function* () {
  collect()
  yield* Effect.sleep(0)
  collect()
  const { arrayBuffers, heapUsed } = process.memoryUsage()
  return (heapUsed + arrayBuffers) / 2 ** 20
})

const perSecond = (passes: ReadonlyArray<Pass>) => passes.map(({ rollouts, seconds }) => rollouts / seconds)
const perProcessorSecond = (passes: ReadonlyArray<Pass>) =>
  passes.map(({ processorSeconds, rollouts }) => rollouts / processorSeconds)

const row = (name: string, passes: ReadonlyArray<Pass>): ReadonlyArray<string> => {
  const rates = perSecond(passes)
  return [
    name,
    String(passes[0]!.rollouts),
    median(rates).toFixed(0),
    `${Math.min(...rates).toFixed(0)}–${Math.max(...rates).toFixed(0)}`,
    median(perProcessorSecond(passes)).toFixed(0)
  ]
}

interface Load {
  readonly name: string
  readonly algorithm: Layer.Layer<Algorithm>
  readonly rollouts: number
  readonly source: () => IterableIterator<Rollout>
  /** tokens of each rollout, where the peer runs too */
  readonly peerTokens: number | undefined
}

const grpo = (rollouts: number, tokens: number): Load => ({
  name: `grpo_${tokens}_tokens`,
  algorithm: Grpo.layer(),
  rollouts,
  source: () => many(rollouts, { tokens }),
  peerTokens: tokens
})

function* withTools(rollouts: number) {
  for (const rollout of many(rollouts)) yield { ...rollout, trace: toolUse }
}

/** A teacher that answers at once, so that what is measured is asking it. */
const layerTeacher = Endpoints.layerOf(({ name }) =>
  Effect.map(Mock.make({ name }), (model) => ({
    ...model,
    score: (tokenIds) => Effect.sync(() => new Float32Array(tokenIds.length).fill(-1))
  }))
)

const teacher = { name: "teacher", base_url: "http://mock" }
const loads: ReadonlyArray<Load> = [
  grpo(most, 8),
  grpo(Math.ceil(most / 10), 4000),
  {
    name: "echo_9_tokens",
    algorithm: Layer.orDie(Echo.layer()),
    rollouts: most,
    source: () => withTools(most),
    peerTokens: undefined
  },
  {
    name: "opd_8_tokens",
    algorithm: Layer.orDie(Layer.provide(Opd.layer({ teacher }), layerTeacher)),
    rollouts: Math.ceil(most / 10),
    source: () => many(Math.ceil(most / 10)),
    peerTokens: undefined
  }
]

const measure = ({ algorithm, name, peerTokens, rollouts, source }: Load) =>
  Effect.gen(function* () {
    const watch = DependentSet.watch()
    const ours: Array<Pass> = []
    const peers: Array<Pass> = []
    let before = 0
    for (let round = 0; round < rounds; round++) {
      // while the other side runs, the system takes back memory of this one: both measure a second pass, of warm memory
      yield* pass(algorithm, source(), watch)
      if (round === 0) before = yield* megabytes
      const one = yield* pass(algorithm, source(), watch)
      if (one.rollouts !== rollouts)
        yield* Effect.dieMessage(`${name}: ${one.rollouts} of ${rollouts} rollouts came out`)
      ours.push(one)
      if (peerTokens === undefined || !hasPython) continue
      const other = passOfPeer(rollouts, peerTokens)
      if (other.tokens !== one.tokens) yield* Effect.dieMessage(`${name}: ${one.tokens} tokens, Python ${other.tokens}`)
      peers.push(other)
    }
    const after = yield* megabytes
    const ratio = (of: typeof perSecond) => (median(of(ours)) / median(of(peers))).toFixed(2)
    const left = `${watch.sets().length} sets, ${watch.fibers} fibers, ${watch.pending()} rollouts left (at most ${watch.maxFibers} fibers)`
    return {
      ratios:
        peers.length === 0
          ? []
          : [`ratio ${name} ${ratio(perSecond)}`, `ratio ${name}_per_processor ${ratio(perProcessorSecond)}`],
      rows: [row(name, ours), ...(peers.length === 0 ? [] : [row(`  Python asyncio`, peers)])],
      memory: `${name}: heap ${before.toFixed(1)} MB after the first pass, ${after.toFixed(1)} MB after ${2 * rounds - 1} more; ${left}`
    }
  })

type Found = Effect.Effect.Success<ReturnType<typeof measure>>

const inProcessOfItsOwn = ({ name }: Load) =>
  Effect.sync((): Found => {
    const args = [process.argv[1]!, String(rounds), String(most), name]
    return JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }))
  })

const one = (name: string) =>
  Effect.gen(function* () {
    const load = loads.find((load) => load.name === name)
    if (load === undefined)
      return yield* Effect.dieMessage(`no load ${name}; there are ${loads.map((load) => load.name)}`)
    yield* Console.log(JSON.stringify(yield* measure(load)))
  })

const all = Effect.gen(function* () {
  const found = yield* Effect.forEach(loads, inProcessOfItsOwn)
  for (const line of found.flatMap(({ ratios }) => ratios)) yield* Console.log(line)
  if (!hasPython) yield* Console.log("python3 is missing: no ratio")
  const titles = ["load", "rollouts", "rollouts/s", "spread", "per cpu s"]
  yield* Console.log(
    `\n${table(
      titles,
      found.flatMap(({ rows }) => rows)
    )}\n`
  )
  for (const { memory } of found) yield* Console.log(memory)
  yield* Console.log(
    `load average ${loadavg()[0]!.toFixed(1)} on ${availableParallelism()} processors, ${rounds} rounds, node ${process.version}`
  )
})

await Effect.runPromise(only === undefined ? all : one(only))
