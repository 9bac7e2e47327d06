/**
 * Sampled tokens per second on the policy of reverse-text: as many sequences as a step of the example has,
 * one after the other and all together.
 *
 *     npx vite-node bench/generate.ts [rounds]
 */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import type { Engine } from "../src/Trainer/Engine.ts"
import { table } from "./numbers.ts"
import { ids, pace, row, titles, withEngine } from "./policy.ts"

const sequences = 128
const promptLength = 32
const maxTokens = 40

/** No id stops a sequence, so that every round samples as many tokens. */
const generate = (engine: Engine, together: number, rounds: number) => {
  const requests = Array.from({ length: sequences }, (_, seed) => ({
    promptIds: ids(promptLength, seed, engine.config.vocabSize),
    ...{ maxTokens, temperature: 1, topP: 1, topK: 0, minP: 0, seed },
    stopTokenIds: new Int32Array(0)
  }))
  const all = Effect.forEach(requests, (request) => engine.generate(request), { concurrency: together })
  const sampled = Effect.map(all, (results) => results.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0))
  return pace(sampled, rounds)
}

const rounds = Number(process.argv[2] ?? 7)

const program = Effect.gen(function* () {
  const rows: Array<ReadonlyArray<string>> = []
  for (const together of [1, sequences]) {
    for (const threads of [1, 2]) {
      const found = yield* withEngine({ threads, trainable: false }, (engine) => generate(engine, together, rounds))
      rows.push(row(`${sequences} sequences, ${together} at a time`, threads, found))
    }
  }
  yield* Console.log(table(titles, rows))
})

await Effect.runPromise(program)
