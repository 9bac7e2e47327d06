/**
 * Megabytes of text per second to token ids and back, and milliseconds until a tokenizer is ready, beside
 * `@huggingface/tokenizers`, which takes turns with this one in one process, so that a busy machine slows both. Each round
 * has texts of its own, of which neither has seen any; that both give the same ids is checked. A ratio is how many times
 * faster this one is, by the medians; a start is from the file to the first ids, with what an earlier start kept.
 *
 *     npm run bench:tokenizer [rounds] [characters] [tokenizer]
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Tokenizer as Reference } from "@huggingface/tokenizers"
import * as Clock from "effect/Clock"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { TokenizerService } from "../src/Tokenizer.ts"
import * as HuggingFace from "../src/tokenizer/HuggingFace.ts"
import { kinds, makeText } from "../test/peers/corpus.ts"
import { byteLevel, type Peer, referenceArguments, sentencePiece } from "../test/peers/tokenizers.ts"
import { median, table } from "./numbers.ts"

const [rounds = 7, characters = 200_000] = process.argv.slice(2, 4).map(Number)
const only = process.argv[4]

/** Seconds that something takes, and what it gives. */
const timed = <A>(run: () => A) =>
  Effect.gen(function* () {
    const started = yield* Clock.currentTimeNanos
    const value = run()
    return { value, seconds: Number((yield* Clock.currentTimeNanos) - started) / 1e9 }
  })

interface Measured {
  readonly name: string
  readonly unit: string
  /** per round, in the unit; more is better, or less, as `better` says */
  readonly ours: ReadonlyArray<number>
  readonly theirs: ReadonlyArray<number>
  readonly better: "more" | "less"
}

const ratioOf = ({ better, ours, theirs }: Measured) =>
  better === "more" ? median(ours) / median(theirs) : median(theirs) / median(ours)

const spread = (values: ReadonlyArray<number>) => {
  const digits = median(values) < 10 ? 2 : 0
  return `${median(values).toFixed(digits)} (${Math.min(...values).toFixed(digits)}–${Math.max(...values).toFixed(digits)})`
}

const row = (measured: Measured): ReadonlyArray<string> => [
  measured.name,
  measured.unit,
  spread(measured.ours),
  spread(measured.theirs),
  ratioOf(measured).toFixed(1)
]

const starts = (peer: Peer) =>
  Effect.gen(function* () {
    const ours: Array<number> = []
    const unkept: Array<number> = []
    const theirs: Array<number> = []
    const cache = mkdtempSync(join(tmpdir(), "primerl-bench-"))
    const read = (folder: string) =>
      HuggingFace.fromDirectory(peer.directory).pipe(
        Effect.map((tokenizer) => tokenizer.encode("The first thing")),
        Effect.withConfigProvider(ConfigProvider.fromMap(new Map([["PRIMERL_CACHE", folder]]))),
        Effect.timed,
        Effect.map(([time]) => Duration.toMillis(time))
      )
    yield* read(cache)
    for (let round = 0; round < Math.min(rounds, 3); round++) {
      ours.push(yield* read(cache))
      unkept.push(yield* read(""))
      const { seconds } = yield* timed(() => {
        const json: unknown = JSON.parse(readFileSync(join(peer.directory, "tokenizer.json"), "utf8"))
        new Reference(...referenceArguments(peer, json)).encode("The first thing")
      })
      theirs.push(seconds * 1000)
    }
    rmSync(cache, { recursive: true })
    const measured = { unit: "ms", theirs, better: "less" as const }
    return [
      { ...measured, name: `${peer.name}_start`, ours },
      { ...measured, name: `${peer.name}_start_nothing_kept`, ours: unkept }
    ]
  })

const speeds = (peer: Peer, tokenizer: TokenizerService, reference: Reference) =>
  Effect.gen(function* () {
    const results: Array<Measured> = []
    const decoding = { ours: [] as Array<number>, theirs: [] as Array<number> }
    for (const kind of kinds) {
      const encoding = { ours: [] as Array<number>, theirs: [] as Array<number> }
      // the first round is for the compiler
      for (let round = 0; round <= rounds; round++) {
        const text = makeText(kind, characters, 1000 + round, peer.specials)
        const megabytes = Buffer.byteLength(text) / 1e6
        const mine = timed(() => tokenizer.encodeWithSpecials(text).ids)
        const other = timed(() => reference.encode(text, { add_special_tokens: false }).ids)
        const first = round % 2 === 0 ? yield* mine : undefined
        const theirs = yield* other
        const ours = first ?? (yield* mine)
        if (ours.value.join(" ") !== theirs.value.join(" ")) return yield* Effect.dieMessage(`${peer.name}: ids differ`)
        const ourText = yield* timed(() => tokenizer.decode(ours.value))
        const theirText = yield* timed(() => reference.decode(theirs.value))
        if (kind === "prose" && ourText.value !== theirText.value) {
          return yield* Effect.dieMessage(`${peer.name}: texts differ`)
        }
        if (round === 0) continue
        encoding.ours.push(megabytes / ours.seconds)
        encoding.theirs.push(megabytes / theirs.seconds)
        decoding.ours.push(megabytes / ourText.seconds)
        decoding.theirs.push(megabytes / theirText.seconds)
      }
      results.push({ name: `${peer.name}_${kind}`, unit: "MB/s", better: "more", ...encoding })
    }
    return [...results, { name: `${peer.name}_decode`, unit: "MB/s", better: "more" as const, ...decoding }]
  })

const program = Effect.gen(function* () {
  const all: Array<Measured> = []
  for (const peer of [...byteLevel, ...sentencePiece]) {
    if (only !== undefined && peer.name !== only) continue
    all.push(...(yield* starts(peer)))
    const tokenizer = yield* HuggingFace.fromDirectory(peer.directory).pipe(
      Effect.withConfigProvider(ConfigProvider.fromMap(new Map([["PRIMERL_CACHE", ""]])))
    )
    all.push(...(yield* speeds(peer, tokenizer, new Reference(...referenceArguments(peer)))))
  }
  yield* Console.log(
    `${rounds} rounds of ${characters} characters; median (least–most)\n${table(
      ["", "", "primerl", "@huggingface/tokenizers", "ratio"],
      all.map(row)
    )}\n`
  )
  for (const measured of all) yield* Console.log(`ratio ${measured.name} ${ratioOf(measured).toFixed(2)}`)
})

await Effect.runPromise(program)
