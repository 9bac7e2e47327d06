/**
 * Keeps what was read from a large tokenizer.json in a form that is read again in a tenth of the time. A kept file is
 * named by the SHA-256 of the tokenizer.json that it came from, holds that and a SHA-256 of itself, and is used only when
 * both are right; whatever else is found there is made anew. Where nothing can be written, nothing is kept.
 */
import { createHash } from "node:crypto"
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises"
import { homedir } from "node:os"
import { dirname, join } from "node:path"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type { Compiled } from "./Compiled.ts"

/** Changes whenever what is kept, or what is made of it, would be read differently. */
const version = 1
const magic = 0x6b6f7470
const prefix = 48

const sha256 = (bytes: Uint8Array): Buffer => createHash("sha256").update(bytes).digest()

type Column = Uint8Array | Int32Array

const columnsOf = ({ idOfByte, kinds, lefts, results, rights, spelled }: Compiled): ReadonlyArray<Column> => [
  kinds,
  spelled.starts,
  spelled.bytes,
  idOfByte,
  lefts,
  rights,
  results
]

const padded = (bytes: Uint8Array): Uint8Array => {
  const whole = new Uint8Array(Math.ceil(bytes.length / 4) * 4)
  whole.set(bytes)
  return whole
}

/** The bytes of a file to keep; `source` is the SHA-256 of the tokenizer.json. @category encoding */
export const toBytes = (compiled: Compiled, source: string): Uint8Array => {
  const { added, byteLevel, cutsAtMarks, decoder, ignoreMerges, normalizer, preTokenizer } = compiled
  const columns = columnsOf(compiled)
  const lengths = columns.map(({ length }) => length)
  const rest = { added, byteLevel, cutsAtMarks, decoder, ignoreMerges, normalizer, preTokenizer }
  const header = Buffer.from(JSON.stringify({ source, lengths, rest }), "utf8")
  const parts = [
    header,
    ...columns.map(({ buffer, byteLength, byteOffset }) => new Uint8Array(buffer, byteOffset, byteLength))
  ]
  const body = Buffer.concat(parts.map(padded))
  const start = new Uint8Array(prefix)
  start.set(new Uint8Array(Int32Array.of(magic, version, header.length, 0).buffer))
  start.set(sha256(body), 16)
  return Buffer.concat([start, body])
}

interface Header {
  readonly source: string
  readonly lengths: ReadonlyArray<number>
  readonly rest: Pick<
    Compiled,
    "added" | "byteLevel" | "cutsAtMarks" | "decoder" | "ignoreMerges" | "normalizer" | "preTokenizer"
  >
}

/** What was kept; none unless it is whole and came from `source`. @category decoding */
export const fromBytes = (file: Uint8Array, source: string): Option.Option<Compiled> =>
  Option.gen(function* () {
    // on its own memory, so that the columns can be views of it
    const bytes = file.byteOffset % 4 === 0 ? file : file.slice()
    if (bytes.length < prefix) return yield* Option.none()
    const [found, written, headerLength] = new Int32Array(bytes.buffer, bytes.byteOffset, 3)
    const body = bytes.subarray(prefix)
    if (found !== magic || written !== version || sha256(body).compare(bytes, 16, prefix) !== 0) {
      return yield* Option.none()
    }
    const text = Buffer.from(body.subarray(0, headerLength)).toString("utf8")
    const header: Header = yield* Either.getRight(Either.try(() => JSON.parse(text)))
    if (header.source !== source) return yield* Option.none()
    let at = bytes.byteOffset + prefix + Math.ceil(headerLength! / 4) * 4
    const take = (column: number, width: number): number => {
      const start = at
      at += Math.ceil((header.lengths[column]! * width) / 4) * 4
      return start
    }
    const bytesAt = (column: number) => new Uint8Array(bytes.buffer, take(column, 1), header.lengths[column])
    const integersAt = (column: number) => new Int32Array(bytes.buffer, take(column, 4), header.lengths[column])
    return {
      ...header.rest,
      kinds: bytesAt(0),
      spelled: { starts: integersAt(1), bytes: bytesAt(2) },
      idOfByte: integersAt(3),
      lefts: integersAt(4),
      rights: integersAt(5),
      results: integersAt(6)
    }
  })

const variable = (name: string) => Effect.orElseSucceed(Config.option(Config.string(name)), () => Option.none<string>())

/** `PRIMERL_CACHE`, or `primerl` in `XDG_CACHE_HOME` or `~/.cache`; none when `PRIMERL_CACHE` is empty. @category location */
export const folder: Effect.Effect<Option.Option<string>> = Effect.gen(function* () {
  const chosen = yield* variable("PRIMERL_CACHE")
  if (Option.isSome(chosen)) return Option.filter(chosen, (path) => path !== "")
  const base = Option.getOrElse(yield* variable("XDG_CACHE_HOME"), () => join(homedir(), ".cache"))
  return Option.some(join(base, "primerl"))
})

/** below this, reading the file itself takes no time that is felt @category constants */
export const smallest = 1 << 20

/** Whoever reads meanwhile sees the old file or the new one, and two who write do not meet. */
const write = (file: string, bytes: Uint8Array) =>
  Effect.tryPromise(() => mkdir(dirname(file), { recursive: true, mode: 0o700 })).pipe(
    Effect.zipRight(Effect.tryPromise(() => mkdtemp(join(dirname(file), "partial-")))),
    Effect.flatMap((own) =>
      Effect.tryPromise(() => writeFile(join(own, "file"), bytes)).pipe(
        Effect.zipRight(Effect.tryPromise(() => rename(join(own, "file"), file))),
        Effect.ensuring(Effect.ignore(Effect.tryPromise(() => rm(own, { recursive: true, force: true }))))
      )
    ),
    Effect.ignore
  )

/** What was kept of this tokenizer.json, or else what `compile` makes of it, which is then kept. @category caching */
export const through = <E>(content: Uint8Array, compile: Effect.Effect<Compiled, E>): Effect.Effect<Compiled, E> =>
  Effect.gen(function* () {
    const directory = yield* folder
    if (content.length < smallest || Option.isNone(directory)) return yield* compile
    const source = sha256(content).toString("hex")
    const file = join(directory.value, "tokenizers", `${source}.bin`)
    const found = yield* Effect.option(Effect.tryPromise(() => readFile(file)))
    const kept = Option.flatMap(found, (bytes) => fromBytes(bytes, source))
    if (Option.isSome(kept)) return kept.value
    const made = yield* compile
    yield* write(file, toBytes(made, source))
    return made
  })
