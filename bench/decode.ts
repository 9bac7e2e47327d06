/**
 * Sampled tokens per second with many sequences at once, beside node-llama-cpp where it is installed: the same random
 * weights of the Llama family in float32, the same threads, in turns.
 *
 *     npm run bench:decode -- [rounds]
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
import { median, table } from "./numbers.ts"
import { ids } from "./policy.ts"

const threads = 2
const sequences = 32
const promptLength = 32
const maxTokens = 64

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

const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(`${tmpdir()}/primerl-decode-`)),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
)

const requests = (temperature: number, round: number): ReadonlyArray<Llama.Request> =>
  Array.from({ length: sequences }, (_, i) => ({
    promptIds: ids(promptLength, round * sequences + i, config.vocab_size),
    ...{ maxTokens, temperature, seed: round * sequences + i }
  }))

const ours = (engine: Engine.Engine) => (all: ReadonlyArray<Llama.Request>) =>
  Effect.forEach(
    all,
    (request) => engine.generate({ ...request, topP: 1, topK: 0, minP: 0, stopTokenIds: new Int32Array(0) }),
    { concurrency: "unbounded" }
  ).pipe(Effect.map((results) => results.map(({ tokenIds }) => Array.from(tokenIds))))

type Answer<E> = (all: ReadonlyArray<Llama.Request>) => Effect.Effect<ReadonlyArray<ReadonlyArray<number>>, E>

/** Tokens per second of one answer to all requests. */
const paceOf = <E>(answer: Answer<E>, all: ReadonlyArray<Llama.Request>) =>
  Effect.gen(function* () {
    const started = yield* Clock.currentTimeNanos
    const drawn = yield* answer(all)
    const seconds = Number((yield* Clock.currentTimeNanos) - started) / 1e9
    return drawn.reduce((sum, { length }) => sum + length, 0) / seconds
  })

/** Share of the greedy tokens that two answers have in common, up to the first that differs. */
const agreement = (a: ReadonlyArray<ReadonlyArray<number>>, b: ReadonlyArray<ReadonlyArray<number>>) => {
  const same = a.map((tokens, i) => {
    const at = tokens.findIndex((token, t) => token !== b[i]![t])
    return at < 0 ? tokens.length : at
  })
  return same.reduce((sum, length) => sum + length, 0) / (sequences * maxTokens)
}

const rounds = Number(process.argv[2] ?? 5)

const program = Effect.gen(function* () {
  const directory = yield* temporary
  writeFileSync(`${directory}/config.json`, JSON.stringify(config))
  const engine = yield* Engine.open(directory, { threads, trainable: false, randomInit: { seed: 1, std: 0.05 } })
  const modelPath = `${directory}/model.gguf`
  yield* Gguf.write(engine, modelPath)
  const llama = yield* Llama.open({ modelPath, sequences, threads, contextSize: promptLength + maxTokens })
  const answer = ours(engine)
  const rows: Array<ReadonlyArray<string>> = []
  const ratios: Array<string> = []
  for (const [name, temperature] of [
    ["sampled", 1],
    ["greedy", 0]
  ] as const) {
    const own: Array<number> = []
    const theirs: Array<number> = []
    for (let round = 0; round <= rounds; round++) {
      const all = requests(temperature, round)
      const mine = yield* paceOf(answer, all)
      const peer = llama === undefined ? undefined : yield* paceOf(llama, all)
      // the first warms up
      if (round === 0) continue
      own.push(mine)
      if (peer !== undefined) theirs.push(peer)
    }
    const show = (paces: ReadonlyArray<number>) =>
      paces.length === 0
        ? ["-", "-"]
        : [median(paces).toFixed(0), `${Math.min(...paces).toFixed(0)}–${Math.max(...paces).toFixed(0)}`]
    rows.push([name, ...show(own), ...show(theirs)])
    if (theirs.length > 0) {
      ratios.push(`ratio decode_${name} ${median(own.map((pace, i) => pace / theirs[i]!)).toFixed(2)}`)
    }
  }
  yield* Console.log(
    `${sequences} sequences at once, ${promptLength} tokens of prompt, ${maxTokens} sampled, ${threads} threads`
  )
  yield* Console.log(table(["", "tokens/s", "spread", "node-llama-cpp", "spread"], rows))
  if (llama === undefined) yield* Console.log(`to compare with node-llama-cpp: ${Llama.howToInstall}`)
  else {
    const greedy = requests(0, 0)
    const common = agreement(yield* answer(greedy), yield* llama(greedy))
    yield* Console.log(`greedy tokens in common before the first that differs: ${(100 * common).toFixed(1)} %`)
  }
  for (const ratio of ratios) yield* Console.log(ratio)
}).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer))

await Effect.runPromise(program)
process.exit(0)
