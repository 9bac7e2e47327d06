/**
 * The header of a safetensors file: eight bytes of length (little-endian), then JSON that gives every tensor a dtype, a
 * shape and a byte range. The ranges must tile the rest of the file: no overlap, no gap, nothing left over.
 */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type { DType } from "./Native.ts"

/** A tensor of a file; `begin` and `end` are byte offsets from the start of the file. @category model */
export interface Entry {
  readonly name: string
  readonly dtype: DType
  readonly shape: ReadonlyArray<number>
  readonly begin: number
  readonly end: number
}

/** Largest header that is read: a hundred times that of a model with a trillion parameters. */
const maxHeaderBytes = 100_000_000

const sizes: Readonly<Record<string, number>> = { F32: 4, F16: 2, BF16: 2 }

const Size = Schema.Int.pipe(Schema.nonNegative())
const Tensor = Schema.Struct({
  dtype: Schema.String,
  shape: Schema.Array(Size),
  data_offsets: Schema.Tuple(Size, Size)
})
const Json = Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
const parseJson = Schema.decodeUnknownEither(Json)
const parseTensor = Schema.decodeUnknownEither(Tensor, { errors: "all" })
const textDecoder = new TextDecoder("utf-8", { fatal: true })

/** Length of the JSON, from the file's first eight bytes. @category parsing */
export const headerLength = (first: Uint8Array, fileBytes: number): Either.Either<number, string> => {
  if (first.length < 8 || fileBytes < 8) {
    return Either.left(`holds ${fileBytes} bytes, which is too short for a safetensors header (truncated?)`)
  }
  const length = Number(new DataView(first.buffer, first.byteOffset, 8).getBigUint64(0, true))
  if (length > fileBytes - 8) {
    return Either.left(
      `header length ${length} is more than the ${fileBytes - 8} bytes that follow it (truncated, or not a safetensors file)`
    )
  }
  return length > maxHeaderBytes
    ? Either.left(`header length ${length} is over ${maxHeaderBytes}`)
    : Either.right(length)
}

const entryOf = (name: string, value: unknown, dataStart: number): Either.Either<Entry, string> =>
  Either.gen(function* () {
    const fail = (reason: string) => Either.left(`tensor "${name}": ${reason}`)
    const parsed = parseTensor(value)
    if (Either.isLeft(parsed)) {
      const issue = ParseResult.ArrayFormatter.formatErrorSync(parsed.left)[0]
      return yield* fail(`${issue?.path.map(String).join(".")}: ${issue?.message}`)
    }
    const { data_offsets, dtype, shape } = parsed.right
    const [begin, end] = data_offsets
    const width = Object.hasOwn(sizes, dtype) ? sizes[dtype] : undefined
    if (width === undefined) return yield* fail(`dtype "${dtype}" is not supported; F32, F16 and BF16 are`)
    if (end < begin) return yield* fail(`byte range [${begin}, ${end}) runs backwards`)
    const bytes = shape.reduce((product, size) => product * size, width)
    if (bytes !== end - begin) {
      return yield* fail(
        `shape [${shape.join(", ")}] of ${dtype} takes ${bytes} bytes, its range [${begin}, ${end}) has ${end - begin}`
      )
    }
    return { name, dtype: dtype as DType, shape, begin: dataStart + begin, end: dataStart + end }
  })

/** Names the first place where the ranges do not tile the data, if there is one. */
const tilingProblem = (entries: ReadonlyArray<Entry>, dataStart: number, fileBytes: number): string | undefined => {
  let at = dataStart
  let previous = "the header"
  for (const entry of [...entries].sort((a, b) => a.begin - b.begin || a.end - b.end)) {
    if (entry.begin < at) return `tensors "${previous}" and "${entry.name}" overlap at byte ${entry.begin - dataStart}`
    if (entry.begin > at) {
      return `a gap of ${entry.begin - at} bytes before tensor "${entry.name}" belongs to no tensor`
    }
    if (entry.end > fileBytes) {
      return `tensor "${entry.name}" ends ${entry.end - fileBytes} bytes after the end of the file (truncated)`
    }
    at = entry.end
    previous = entry.name
  }
  return at === fileBytes ? undefined : `${fileBytes - at} bytes after the last tensor belong to no tensor`
}

/**
 * The tensors in the order of their data. `json` are the bytes after the length field; a problem is told in words,
 * without the path.
 *
 * @category parsing
 */
export const parseHeader = (json: Uint8Array, fileBytes: number): Either.Either<ReadonlyArray<Entry>, string> =>
  Either.gen(function* () {
    const text = yield* Either.try({
      try: () => textDecoder.decode(json),
      catch: () => "the header is not UTF-8 (not a safetensors file)"
    })
    const record = yield* Either.mapLeft(
      parseJson(text),
      () => "the header is not a JSON object (not a safetensors file)"
    )
    const duplicate = duplicateKey(text)
    if (duplicate !== undefined) return yield* Either.left(`tensor "${duplicate}" is listed twice`)
    const dataStart = 8 + json.length
    const entries: Array<Entry> = []
    for (const [name, value] of Object.entries(record)) {
      if (name !== "__metadata__") entries.push(yield* entryOf(name, value, dataStart))
    }
    const problem = tilingProblem(entries, dataStart, fileBytes)
    if (problem !== undefined) return yield* Either.left(problem)
    return entries.sort((a, b) => a.begin - b.begin || a.end - b.end)
  })

/** JSON parsers keep the last of two equal keys; the first one's bytes would then silently belong to nobody. */
const duplicateKey = (text: string): string | undefined => {
  const seen = new Set<string>()
  for (const match of text.matchAll(/"((?:[^"\\]|\\.)*)"\s*:\s*\{/g)) {
    if (seen.has(match[1]!)) return match[1]
    seen.add(match[1]!)
  }
  return undefined
}

/**
 * Length field and JSON for F32 tensors laid end to end in the given order, padded with spaces to a multiple of eight.
 *
 * @category encoding
 */
export const encodeHeader = (
  tensors: ReadonlyArray<{ readonly name: string; readonly shape: ReadonlyArray<number> }>
): Uint8Array => {
  let at = 0
  const record: Record<string, unknown> = { __metadata__: { format: "pt" } }
  for (const { name, shape } of tensors) {
    const bytes = shape.reduce((product, size) => product * size, 4)
    record[name] = { dtype: "F32", shape, data_offsets: [at, at + bytes] }
    at += bytes
  }
  const json = new TextEncoder().encode(JSON.stringify(record))
  const length = Math.ceil(json.length / 8) * 8
  const out = new Uint8Array(8 + length).fill(0x20)
  new DataView(out.buffer).setBigUint64(0, BigInt(length), true)
  out.set(json, 8)
  return out
}
