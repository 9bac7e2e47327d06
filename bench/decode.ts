/**
 * Sampled tokens per second with many sequences at once, beside node-llama-cpp where it is installed: the same random
 * weights of the Llama family in float32, the same threads, in turns. Tokens per second of a processor say the same where
 * other work runs beside.
 *
 *     npm run bench:decode -- [rounds] [threads]
 *     npm run bench:decode -- soak [requests]
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Clock from "effect/Clock"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Engine from "../src/Trainer/Engine.ts"
import * as Gguf from "./decode/gguf.ts"
import * as Llama from "./decode/llama.ts"
import { soak } from "./decode/soak.ts"
import { median, table } from "./numbers.ts"
import { ids } from "./policy.ts"

const sequences = 32
const promptLength = 32
const maxTokens = 32

const config = {
  architectures: ["LlamaForCausalLM"],
  model_type: "llama",
  hidden_size: 512,
  intermediate_size: 1536,
  num_hidden_layers: 8,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  vocab_size: 8192,
  max_position_embeddings: 512,
  rms_norm_eps: 1e-5,
  rope_theta: 10000,
  tie_word_embeddings: false
}

/** A directory with a config.json and nothing else, for as long as the scope is open. */
const directoryOf = (config: object) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const directory = mkdtempSync(`${tmpdir()}/primerl-decode-`)
      writeFileSync(`${directory}/config.json`, JSON.stringify(config))
      return directory
    }),
    (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
  )

const requests = (temperature: number, round: number): ReadonlyArray<Llama.Request> =>
  Array.from({ length: sequences }, (_, i) => ({
    promptIds: ids(promptLength, round * sequences + i, config.vocab_size),
    ...{ maxTokens, temperature, seed: round * sequences + i }
  }))

type Answer<E> = (
  all: ReadonlyArray<Llama.Request>
) => Effect.Effect<ReadonlyArray<{ readonly tokenIds: ArrayLike<number> }>, E>

const ours =
  (engine: Engine.Engine): Answer<unknown> =>
  (all) =>
    Effect.forEach(
      all,
      (request) => engine.generate({ ...request, topP: 1, topK: 0, minP: 0, stopTokenIds: new Int32Array(0) }),
      { concurrency: "unbounded" }
    )

interface Pace {
  /** tokens per second, and per second of all processors together */
  readonly wall: number
  readonly processor: number
}

const paceOf = <E>(answer: Answer<E>, all: ReadonlyArray<Llama.Request>) =>
  Effect.gen(function* () {
    const cpu = process.cpuUsage()
    const started = yield* Clock.currentTimeNanos
    const drawn = yield* answer(all)
    const seconds = Number((yield* Clock.currentTimeNanos) - started) / 1e9
    const { system, user } = process.cpuUsage(cpu)
    const tokens = drawn.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0)
    return { wall: tokens / seconds, processor: (tokens * 1e6) / (system + user) } satisfies Pace
  })

/** Share of the tokens that two answers have in common, up to the first that differs. */
const common = Effect.fnUntraced(function* <E, E2>(a: Answer<E>, b: Answer<E2>, all: ReadonlyArray<Llama.Request>) {
  const [left, right] = [yield* a(all), yield* b(all)]
  const same = left.map(({ tokenIds }, i) => {
    let at = 0
    while (at < tokenIds.length && tokenIds[at] === right[i]!.tokenIds[at]) at++
    return at
  })
  return same.reduce((sum, length) => sum + length, 0) / (sequences * maxTokens)
})

const cells = (paces: ReadonlyArray<Pace>) => {
  if (paces.length === 0) return ["-", "-", "-"]
  const walls = paces.map(({ wall }) => wall)
  return [
    median(walls).toFixed(0),
    `${Math.min(...walls).toFixed(0)}–${Math.max(...walls).toFixed(0)}`,
    median(paces.map(({ processor }) => processor)).toFixed(0)
  ]
}

const compare = Effect.fnUntraced(function* (rounds: number, threads: number) {
  const directory = yield* directoryOf(config)
  const engine = yield* Engine.open(directory, { threads, trainable: false, randomInit: { seed: 1, std: 0.05 } })
  const modelPath = `${directory}/model.gguf`
  yield* Gguf.write(engine, modelPath)
  const answer = ours(engine)
  const llama = yield* Llama.open({ modelPath, sequences, threads, contextSize: 2 * (promptLength + maxTokens) })
  const rows: Array<ReadonlyArray<string>> = []
  const ratios: Array<string> = []
  for (const [name, temperature] of [
    ["sampled", 1],
    ["greedy", 0]
  ] as const) {
    const own: Array<Pace> = []
    const theirs: Array<Pace> = []
    for (let round = 0; round <= rounds; round++) {
      const all = requests(temperature, round)
      const mine = yield* paceOf(answer, all)
      const peer = llama === undefined ? undefined : yield* paceOf(llama, all)
      // the first warms up
      if (round === 0) continue
      own.push(mine)
      if (peer !== undefined) theirs.push(peer)
    }
    rows.push([name, ...cells(own), ...cells(theirs)])
    if (theirs.length === 0) continue
    const ratio = (of: keyof Pace) => median(own.map((pace, i) => pace[of] / theirs[i]![of])).toFixed(2)
    ratios.push(`ratio decode_${name} ${ratio("wall")}`, `ratio decode_${name}_per_cpu_second ${ratio("processor")}`)
  }
  yield* Console.log(
    `${sequences} sequences at once, ${promptLength} tokens of prompt, ${maxTokens} sampled, ${threads} threads`
  )
  const titles = ["tokens/s", "spread", "per cpu s"]
  yield* Console.log(table(["", ...titles, "node-llama-cpp", ...titles.slice(1)], rows))
  if (llama === undefined) yield* Console.log(`to compare with node-llama-cpp: ${Llama.howToInstall}`)
  else {
    const share = yield* common(answer, llama, requests(0, 0))
    yield* Console.log(`greedy tokens in common before the first that differs: ${(100 * share).toFixed(1)} %`)
  }
  for (const ratio of ratios) yield* Console.log(ratio)
  return true
})

const [first, second] = process.argv.slice(2)
const program =
  first === "soak"
    ? Effect.flatMap(
        directoryOf({ ...config, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, vocab_size: 300 }),
        (at) => soak(at, Number(second ?? 15_000))
      )
    : compare(Number(first ?? 5), Number(second ?? 2))

const fine = await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer)))
// node-llama-cpp leaves threads behind
process.exit(fine ? 0 : 1)
