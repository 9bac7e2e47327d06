/** The policy that the benchmarks run, and how they measure: several rounds, since one number of a shared machine says little. */
import { fileURLToPath } from "node:url"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Seed from "../src/Seed.ts"
import * as Engine from "../src/Trainer/Engine.ts"
import { median } from "./numbers.ts"

export const directory = fileURLToPath(new URL("../examples/reverse-text/policy", import.meta.url))

/** Ids in the vocabulary, the same on every call. */
export const ids = (length: number, seed: number, vocabulary: number): Int32Array => {
  const random = Seed.generator(seed)
  return Int32Array.from({ length }, () => Math.floor(random() * vocabulary))
}

/** Opens the policy for as long as `use` takes. */
export const withEngine = <A, E>(
  options: Engine.Options,
  use: (engine: Engine.Engine) => Effect.Effect<A, E>
): Effect.Effect<A, unknown> =>
  Effect.scoped(Effect.flatMap(Engine.open(directory, options), use)).pipe(Effect.provide(NodeFileSystem.layer))

export interface Pace {
  /** tokens per second */
  readonly median: number
  /** slowest and fastest round */
  readonly least: number
  readonly most: number
  /** tokens per second of all processors together, threads that spin included: what does not hang on who else runs */
  readonly ofProcessors: number
}

/** The pace of `work`, which gives the number of its tokens, over `rounds` after one to warm up. */
export const pace = <E>(work: Effect.Effect<number, E>, rounds: number): Effect.Effect<Pace, E> =>
  Effect.gen(function* () {
    const paces: Array<number> = []
    const ofProcessors: Array<number> = []
    for (let round = 0; round <= rounds; round++) {
      const cpu = process.cpuUsage()
      const started = yield* Clock.currentTimeNanos
      const tokens = yield* work
      const seconds = Number((yield* Clock.currentTimeNanos) - started) / 1e9
      const { system, user } = process.cpuUsage(cpu)
      if (round === 0) continue
      paces.push(tokens / seconds)
      ofProcessors.push((tokens * 1e6) / (system + user))
    }
    return {
      median: median(paces),
      least: Math.min(...paces),
      most: Math.max(...paces),
      ofProcessors: median(ofProcessors)
    }
  })

export const row = (name: string, threads: number, found: Pace): ReadonlyArray<string> => [
  name,
  String(threads),
  found.median.toFixed(0),
  `${found.least.toFixed(0)}–${found.most.toFixed(0)}`,
  found.ofProcessors.toFixed(0)
]

export const titles = ["load", "threads", "tokens/s", "spread", "tokens per cpu s"]
