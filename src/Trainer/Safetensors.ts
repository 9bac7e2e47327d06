/**
 * Weights of a Hugging Face directory, in one safetensors file or in shards named by an index. A tensor is read when it
 * is asked for, so that a checkpoint never lies in memory twice; a file is replaced only when its successor is whole.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { ModelError } from "./ModelError.ts"
import { type Entry, encodeHeader, headerLength, parseHeader } from "./SafetensorsHeader.ts"

const single = "model.safetensors"
const indexName = "model.safetensors.index.json"

/** The files of a checkpoint, and the names in each in the order of their data. @category model */
export type Files = ReadonlyArray<{ readonly file: string; readonly names: ReadonlyArray<string> }>

/** @category model */
export interface Checkpoint {
  readonly files: Files
  readonly tensors: ReadonlyMap<string, Entry>
  /** The tensor's bytes as they are in the file: little-endian values of its dtype, row by row. */
  readonly read: (name: string) => Effect.Effect<Uint8Array, ModelError>
}

const Index = Schema.parseJson(
  Schema.Struct({ weight_map: Schema.Record({ key: Schema.String, value: Schema.String }) })
)
const parseIndex = Schema.decodeUnknownEither(Index)

const unreadable = (path: string) => (error: { readonly message: string }) =>
  new ModelError({ path, reason: `cannot be read (${error.message})` })

const unwritable = (path: string) => (error: { readonly message: string }) =>
  new ModelError({ path, reason: `cannot be written (${error.message})` })

const readExactly = (file: FileSystem.File, path: string, offset: number, bytes: number) =>
  Effect.gen(function* () {
    const out = new Uint8Array(bytes)
    yield* file.seek(FileSystem.Size(offset), "start")
    let at = 0
    while (at < bytes) {
      const count = Number(yield* Effect.mapError(file.read(out.subarray(at)), unreadable(path)))
      if (count === 0) {
        return yield* new ModelError({ path, reason: `ends at byte ${offset + at}, ${bytes - at} bytes too early` })
      }
      at += count
    }
    return out
  })

const openPart = (path: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const file = yield* Effect.mapError(fs.open(path, { flag: "r" }), unreadable(path))
    const size = Number((yield* Effect.mapError(file.stat, unreadable(path))).size)
    const fail = (reason: string) => new ModelError({ path, reason })
    const first = yield* readExactly(file, path, 0, Math.min(8, size))
    const length = yield* Either.mapLeft(headerLength(first, size), fail)
    const json = yield* readExactly(file, path, 8, length)
    return { file, entries: yield* Either.mapLeft(parseHeader(json, size), fail) }
  })

const readIndex = (directory: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = `${directory}/${indexName}`
    const there = yield* Effect.mapError(fs.exists(path), unreadable(path))
    if (!there) return Option.none()
    const text = yield* Effect.mapError(fs.readFileString(path), unreadable(path))
    const { weight_map } = yield* Either.mapLeft(
      parseIndex(text),
      () => new ModelError({ path, reason: `is not an index: it needs "weight_map", a file name for each tensor` })
    )
    const outside = Object.values(weight_map).find((file) => /[\\/]/.test(file) || file === "" || file.startsWith("."))
    return outside === undefined
      ? Option.some(weight_map)
      : yield* new ModelError({ path, reason: `names "${outside}", which is not a file of this directory` })
  })

/**
 * Opens the weights of a directory; every header is read and checked. One file wins over an index, as a single-file save
 * into a directory of shards is the newer one.
 *
 * @category constructors
 */
export const open = (directory: string): Effect.Effect<Checkpoint, ModelError, FileSystem.FileSystem | Scope.Scope> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const whole = yield* Effect.mapError(fs.exists(`${directory}/${single}`), unreadable(directory))
    if (whole) return yield* openFile(directory, single)
    const index = yield* readIndex(directory)
    return Option.isSome(index)
      ? yield* openFiles(directory, [...new Set(Object.values(index.value))].sort(), index)
      : yield* new ModelError({ path: directory, reason: `holds neither ${single} nor ${indexName}` })
  })

/** Opens one file of a directory, which holds all its tensors. @category constructors */
export const openFile = (
  directory: string,
  file: string
): Effect.Effect<Checkpoint, ModelError, FileSystem.FileSystem | Scope.Scope> =>
  openFiles(directory, [file], Option.none())

const openFiles = (
  directory: string,
  names: ReadonlyArray<string>,
  index: Option.Option<Readonly<Record<string, string>>>
): Effect.Effect<Checkpoint, ModelError, FileSystem.FileSystem | Scope.Scope> =>
  Effect.gen(function* () {
    const tensors = new Map<string, Entry>()
    const places = new Map<string, { readonly file: FileSystem.File; readonly path: string }>()
    const files: Array<Files[number]> = []
    for (const name of names) {
      const path = `${directory}/${name}`
      const { entries, file } = yield* openPart(path)
      for (const entry of entries) {
        const other = places.get(entry.name)
        if (other !== undefined) {
          return yield* new ModelError({ path, reason: `tensor "${entry.name}" is also in ${other.path}` })
        }
        if (Option.isSome(index) && index.value[entry.name] !== name) {
          return yield* new ModelError({
            path,
            reason: `tensor "${entry.name}" is not named for this file in the index`
          })
        }
        tensors.set(entry.name, entry)
        places.set(entry.name, { file, path })
      }
      files.push({ file: name, names: entries.map((entry) => entry.name) })
    }
    const absent = Option.match(index, {
      onNone: () => undefined,
      onSome: (map) => Object.keys(map).find((name) => !tensors.has(name))
    })
    if (absent !== undefined && Option.isSome(index)) {
      return yield* new ModelError({
        path: `${directory}/${indexName}`,
        reason: `names tensor "${absent}" in ${index.value[absent]}, which does not hold it`
      })
    }
    // Reads of one file share its position, so they take turns.
    const turn = yield* Effect.makeSemaphore(1)
    return {
      files,
      tensors,
      read: (name) =>
        Effect.suspend(() => {
          const entry = tensors.get(name)
          const place = places.get(name)
          return entry === undefined || place === undefined
            ? new ModelError({ path: directory, reason: `has no tensor "${name}"` })
            : turn.withPermits(1)(readExactly(place.file, place.path, entry.begin, entry.end - entry.begin))
        })
    }
  })

/** A tensor to be written; its values are asked for when its turn comes. @category model */
export interface Source<E, R> {
  readonly name: string
  readonly shape: ReadonlyArray<number>
  readonly values: Effect.Effect<Float32Array, E, R>
}

const writeFile = <E, R>(path: string, tensors: ReadonlyArray<Source<E, R>>) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const partial = `${path}.partial`
    const writeWhole = Effect.scoped(
      Effect.gen(function* () {
        const file = yield* Effect.mapError(fs.open(partial, { flag: "w" }), unwritable(path))
        const write = (bytes: Uint8Array) => Effect.mapError(file.writeAll(bytes), unwritable(path))
        yield* write(encodeHeader(tensors))
        for (const tensor of tensors) {
          const values = yield* tensor.values
          yield* write(new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
        }
        yield* Effect.mapError(file.sync, unwritable(path))
      })
    )
    yield* Effect.onError(writeWhole, () => Effect.ignore(fs.remove(partial)))
    yield* Effect.mapError(fs.rename(partial, path), unwritable(path))
  })

/** Writes F32 tensors into one file of a directory, which is made when it is not there. @category encoding */
export const writeSingle = <E, R>(
  directory: string,
  file: string,
  tensors: ReadonlyArray<Source<E, R>>
): Effect.Effect<void, E | ModelError, R | FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    yield* Effect.mapError(fs.makeDirectory(directory, { recursive: true }), unwritable(directory))
    yield* writeFile(`${directory}/${file}`, tensors)
  })

/**
 * Writes F32 tensors under the given names. Several files get an index whose entries and `total_size` are those of what
 * was written; files of `files` that hold none of the tensors are left out. `E` and `R` are those of the tensors' values.
 *
 * @category encoding
 */
export const write = <E, R>(
  directory: string,
  files: Files,
  tensors: ReadonlyArray<Source<E, R>>
): Effect.Effect<void, E | ModelError, R | FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    yield* Effect.mapError(fs.makeDirectory(directory, { recursive: true }), unwritable(directory))
    const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]))
    const parts = files
      .map(({ file, names }) => ({ file, tensors: names.flatMap((name) => byName.get(name) ?? []) }))
      .filter((part) => part.tensors.length > 0)
    const placed = new Set(parts.flatMap((part) => part.tensors.map((tensor) => tensor.name)))
    const homeless = tensors.find((tensor) => !placed.has(tensor.name))
    if (homeless !== undefined) {
      return yield* new ModelError({ path: directory, reason: `no file is named for tensor "${homeless.name}"` })
    }
    yield* Effect.forEach(parts, (part) => writeFile(`${directory}/${part.file}`, part.tensors), { discard: true })
    if (parts.length === 1 && parts[0]!.file === single) return
    const path = `${directory}/${indexName}`
    const total = tensors.reduce((sum, { shape }) => sum + shape.reduce((product, size) => product * size, 4), 0)
    const weightMap = Object.fromEntries(parts.flatMap((part) => part.tensors.map(({ name }) => [name, part.file])))
    const text = `${JSON.stringify({ metadata: { total_size: total }, weight_map: weightMap }, null, 2)}\n`
    yield* Effect.mapError(fs.writeFileString(`${path}.partial`, text), unwritable(path))
    yield* Effect.mapError(fs.rename(`${path}.partial`, path), unwritable(path))
  })
