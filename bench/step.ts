/**
 * A training step of a small Llama, forward, loss, backward and AdamW on packed sequences, beside PyTorch in its fastest
 * form: float32, autocast or bfloat16 parameters. Programs take turns; a ratio is PyTorch's time by ours, the median over
 * the rounds. `cpu` ratios are of processor time, which a busy machine distorts less; memory is of whole processes.
 *
 *     npm run bench:step [rounds] [form of PyTorch, else the fastest of all, e.g. "autocast"]
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Effect from "effect/Effect"
import * as Engine from "../src/Trainer/Engine.ts"
import type { Phases, Precision } from "../src/Trainer/Native.ts"
import { configOf, operationsOf, stepOf } from "./llamaStep.ts"
import { median, table } from "./numbers.ts"
import {
  ceiling,
  fastest,
  howToInstall,
  inTurns,
  type Program,
  type Round,
  ratios,
  spread,
  start,
  torch,
  torchVersion
} from "./rivals.ts"

const shape = {
  ...{ hidden: 256, layers: 6, heads: 4, intermediate: 768, vocabulary: 8192 },
  ...{ sequences: 8, length: 512, threads: 2 }
}
const tokens = shape.sequences * shape.length

/** Answers lines of standard input with steps. */
const serve = (directory: string, dtype: Precision) =>
  Effect.scoped(
    Effect.gen(function* () {
      const engine = yield* Engine.open(directory, {
        ...{ threads: shape.threads, trainable: true, dtype, randomInit: { seed: 1, std: 0.02 } }
      })
      const step = stepOf(engine, shape)
      yield* step
      yield* engine.takePhases
      console.log(JSON.stringify({ base: 0 }))
      const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
      while ((yield* Effect.promise(() => lines.next())).done !== true) {
        const cpu = process.cpuUsage()
        const started = process.hrtime.bigint()
        yield* step
        const ms = Number(process.hrtime.bigint() - started) / 1e6
        const { system, user } = process.cpuUsage(cpu)
        const phases = yield* engine.takePhases
        const peak = process.resourceUsage().maxRSS * 1024
        console.log(JSON.stringify({ ms, cpuMs: (system + user) / 1e3, peak, phases }))
      }
    })
  ).pipe(Effect.provide(NodeFileSystem.layer))

/** Bytes that a phase must move to and from memory at least: parameters and moments read, gradients cleared. */
const optimizerBytes = () => {
  const { hidden, intermediate, layers, vocabulary } = shape
  const parameters = 2 * vocabulary * hidden + layers * (4 * hidden * hidden + 3 * hidden * intermediate)
  return 4 * parameters * 9
}

const phaseTable = (rounds: ReadonlyArray<Round>, top: { readonly flops: number; readonly bytes: number }) => {
  const seconds = (name: keyof Phases, pass: "forward" | "backward") =>
    median(rounds.map(({ phases }) => (phases as Phases)[name][pass]))
  const rows: Array<ReadonlyArray<string>> = []
  for (const [name, flops] of Object.entries(operationsOf(shape)) as Array<[keyof Phases, number]>) {
    // The head's forward pass belongs to its backward pass here: both are one sweep.
    const passes =
      name === "head"
        ? ([["backward", 3]] as const)
        : ([
            ["forward", 1],
            ["backward", name === "attention" ? 2.5 : 2]
          ] as const)
    for (const [pass, times] of passes) {
      const spent = seconds(name, pass)
      const rate = (times * flops) / spent
      rows.push([
        `${name} ${name === "head" ? "both" : pass}`,
        (spent * 1e3).toFixed(0),
        (rate / 1e9).toFixed(0),
        `${((100 * rate) / top.flops).toFixed(0)} %`
      ])
    }
  }
  const spent = seconds("optimizer", "forward")
  rows.push([
    "optimizer",
    (spent * 1e3).toFixed(0),
    "",
    `${((100 * optimizerBytes()) / spent / top.bytes).toFixed(0)} % of memory`
  ])
  return table(["phase", "ms", "GF/s", "of ceiling"], rows)
}

const main = async (rounds: number) => {
  const directory = mkdtempSync(join(tmpdir(), "primerl-step-"))
  writeFileSync(join(directory, "config.json"), JSON.stringify(configOf(shape)))
  const own = (dtype: string): Program => ({
    name: `primerl ${dtype}`,
    command: process.execPath,
    args: [process.argv[1]!, "--serve", directory, dtype]
  })
  const peer = (precision: string) => torch("step_torch.py", precision, { ...shape, precision }, shape.threads)
  const version = torchVersion()
  const rows: Array<ReadonlyArray<string>> = []
  const figures: Array<string> = []
  const phases: Array<string> = []
  for (const [dtype, kinds] of [
    ["float32", ["float32"]],
    ["bfloat16", ["autocast", "bfloat16"]]
  ] as const) {
    const best = version === undefined ? undefined : await fastest(kinds.map(peer), process.argv[3])
    const top = ceiling(shape.threads, dtype)
    const rivals = []
    for (const program of [own(dtype), ...(best === undefined ? [] : [best])]) rivals.push(await start(program))
    const found = await inTurns(rivals, rounds)
    for (const rival of rivals) await rival.end()
    const peak = (i: number) => Math.max(...found[i]!.map((round) => round.peak))
    for (const [i, rival] of rivals.entries()) {
      const times = found[i]!.map(({ ms }) => ms)
      rows.push([
        rival.name,
        spread(times),
        median(found[i]!.map(({ cpuMs }) => cpuMs)).toFixed(0),
        ((tokens * 1e3) / median(times)).toFixed(0),
        (peak(i) / 2 ** 20).toFixed(0)
      ])
    }
    if (best === undefined) rows.push([`torch ${dtype}`, howToInstall, "", "", ""])
    else {
      const { cpu, wall } = ratios(found[0]!, found[1]!)
      figures.push(
        `ratio step_${dtype} ${wall.toFixed(2)}`,
        `ratio step_${dtype}_cpu ${cpu.toFixed(2)}`,
        `ratio step_${dtype}_memory ${(peak(1) / peak(0)).toFixed(2)}`
      )
    }
    phases.push(`${dtype}, ceiling ${(top.flops / 1e9).toFixed(0)} GF/s, memory ${(top.bytes / 1e9).toFixed(1)} GB/s`)
    phases.push(phaseTable(found[0]!, top))
  }
  rmSync(directory, { recursive: true })
  console.log(`${JSON.stringify(shape)}, torch ${version ?? "is missing"}`)
  console.log(table(["program", "ms", "cpu ms", "tokens/s", "MB"], rows))
  console.log(phases.join("\n"))
  console.log(figures.join("\n"))
}

const [first, directory, dtype] = process.argv.slice(2)
if (first === "--serve") await Effect.runPromise(serve(directory!, dtype as Precision) as Effect.Effect<void, unknown>)
else await main(Number(first ?? 7))
