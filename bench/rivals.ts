/**
 * Programs that take turns: each answers one line of its input with one round, so that a machine that is busy for a while
 * slows all of them. A program's first line says what it is.
 */
import { execFileSync, spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { median } from "./numbers.ts"

/** One round: wall time, time of all processors, and the largest memory of the program so far, in bytes. */
export interface Round {
  readonly ms: number
  readonly cpuMs: number
  readonly peak: number
  readonly [other: string]: unknown
}

export interface Rival {
  readonly name: string
  readonly first: Record<string, unknown>
  readonly round: () => Promise<Round>
  readonly end: () => Promise<void>
}

export interface Program {
  readonly name: string
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly env?: Record<string, string> | undefined
}

export const start = async ({ args, command, env, name }: Program): Promise<Rival> => {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, ...env } })
  const exited = new Promise<number | null>((resolve) => child.on("close", resolve))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async () => {
    const line = await lines.next()
    if (line.done === true) throw new Error(`${name} ended with ${await exited}`)
    return JSON.parse(line.value)
  }
  return {
    name,
    first: await next(),
    round: () => {
      child.stdin.write("\n")
      return next()
    },
    end: async () => {
      child.stdin.end()
      await exited
    }
  }
}

/** All rounds of each, in turns. */
export const inTurns = async (rivals: ReadonlyArray<Rival>, rounds: number): Promise<ReadonlyArray<Array<Round>>> => {
  const found: ReadonlyArray<Array<Round>> = rivals.map(() => [])
  for (let round = 0; round < rounds; round++) {
    for (const [i, rival] of rivals.entries()) found[i]!.push(await rival.round())
  }
  return found
}

/** The one named "torch ONLY", or else the one whose fastest of three rounds is the fastest; each runs alone. */
export const fastest = async (programs: ReadonlyArray<Program>, only?: string | undefined): Promise<Program> => {
  const named = programs.find(({ name }) => name === `torch ${only}`)
  if (named !== undefined || programs.length === 1) return named ?? programs[0]!
  let best: { readonly program: Program; readonly ms: number } | undefined
  for (const program of programs) {
    const rival = await start(program)
    const [rounds] = await inTurns([rival], 3)
    await rival.end()
    const ms = Math.min(...rounds!.map((round) => round.ms))
    process.stderr.write(`${program.name}: ${ms.toFixed(0)} ms\n`)
    if (best === undefined || ms < best.ms) best = { program, ms }
  }
  return best!.program
}

/** Median and spread of one number. */
export const spread = (values: ReadonlyArray<number>, digits = 0): string =>
  `${median(values).toFixed(digits)} (${Math.min(...values).toFixed(digits)}–${Math.max(...values).toFixed(digits)})`

/** The middle of the ratios of each round, theirs by ours, in wall time and in time of processors. */
export const ratios = (ours: ReadonlyArray<Round>, theirs: ReadonlyArray<Round>) => ({
  wall: median(ours.map((round, i) => theirs[i]!.ms / round.ms)),
  cpu: median(ours.map((round, i) => theirs[i]!.cpuMs / round.cpuMs))
})

const python = process.env.PYTHON ?? "/usr/bin/python3"

/** Version of PyTorch, or undefined where there is none. */
export const torchVersion = (): string | undefined => {
  try {
    return execFileSync(python, ["-c", "import torch; print(torch.__version__)"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"]
    }).trim()
  } catch {
    return undefined
  }
}

export const howToInstall = "apt install python3-torch libopenblas0-pthread"

const flags = process.platform === "linux" ? readFileSync("/proc/cpuinfo", "utf8") : ""

/** Whether PyTorch has products in bfloat16 for this processor: without AVX-512 its fallback takes a minute for one of ours. */
export const torchHasBfloat16 = flags.includes("avx512bw")

/** Kernels of OpenBLAS that this processor runs: what an old release does not know, it takes for an old processor. */
const coreType = () =>
  flags.includes("avx512_bf16") ? "Cooperlake" : flags.includes("avx512f") ? "SkylakeX" : "Haswell"

/** PyTorch as fast as it gets: its BLAS told the processor, and memory kept instead of given back between rounds. */
export const torch = (script: string, name: string, shape: object, threads: number): Program => ({
  name: `torch ${name}`,
  command: python,
  args: [fileURLToPath(new URL(script, root("bench/"))), JSON.stringify(shape)],
  env: {
    OMP_NUM_THREADS: String(threads),
    OPENBLAS_NUM_THREADS: String(threads),
    OPENBLAS_CORETYPE: process.env.OPENBLAS_CORETYPE ?? coreType(),
    MALLOC_MMAP_MAX_: "0",
    MALLOC_TRIM_THRESHOLD_: "99999999999",
    MALLOC_TOP_PAD_: "268435456"
  }
})

/** A place in the repository, from the directory in which npm runs scripts. */
export const root = (path: string): URL => new URL(path, `file://${process.cwd()}/`)

/** Builds the native programs of benchmarks and gives the path of one. */
export const native = (name: string): string => {
  execFileSync(process.execPath, [fileURLToPath(root("native/build.mjs")), "bench"], { stdio: "inherit" })
  return fileURLToPath(root(`native/build/bench/${name}`))
}

/** What the machine can do at most, measured now. */
export const ceiling = (
  threads: number,
  precision: string
): { readonly kernel: string; readonly flops: number; readonly bytes: number } =>
  JSON.parse(execFileSync(native("ceiling"), [String(threads), precision], { encoding: "utf8" }))
