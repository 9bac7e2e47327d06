import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Safetensors from "../../src/Trainer/Safetensors.ts"

/** A file with this header, and this many bytes of data that count up. */
const fileOf = (header: unknown, dataBytes: number, lengthField?: number) => {
  const json = new TextEncoder().encode(typeof header === "string" ? header : JSON.stringify(header))
  const file = new Uint8Array(8 + json.length + dataBytes)
  new DataView(file.buffer).setBigUint64(0, BigInt(lengthField ?? json.length), true)
  file.set(json, 8)
  for (let i = 0; i < dataBytes; i++) file[8 + json.length + i] = i
  return file
}

const f32 = (shape: ReadonlyArray<number>, begin: number, end: number) => ({
  dtype: "F32",
  shape,
  data_offsets: [begin, end]
})

const directory = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

const problemOf = (files: Readonly<Record<string, Uint8Array | string>>) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const at = yield* directory
    for (const [name, content] of Object.entries(files)) {
      yield* typeof content === "string"
        ? fs.writeFileString(`${at}/${name}`, content)
        : fs.writeFile(`${at}/${name}`, content)
    }
    return (yield* Effect.flip(Safetensors.open(at))).message
  })

layer(NodeFileSystem.layer)("safetensors", (it) => {
  it.scoped.each<[string, Uint8Array, RegExp]>([
    ["header longer than the file", fileOf({}, 4, 1_000_000), /header length 1000000 is more than the \d+ bytes/],
    ["a length that no file has", fileOf({}, 0, 2 ** 53), /header length 9007199254740992 is more/],
    ["an empty file", new Uint8Array(0), /holds 0 bytes, which is too short/],
    ["a header that is not JSON", fileOf("<html>", 0), /not a JSON object/],
    ["a header that is not an object", fileOf("[1]", 0), /not a JSON object/],
    [
      "a byte range too small for the shape",
      fileOf({ a: f32([1000, 1000], 0, 4) }, 4),
      /tensor "a": shape \[1000, 1000\] of F32 takes 4000000 bytes, its range \[0, 4\) has 4/
    ],
    [
      "two tensors on the same bytes",
      fileOf({ a: f32([2], 0, 8), b: f32([2], 0, 8) }, 8),
      /tensors "a" and "b" overlap at byte 0/
    ],
    [
      "two tensors that overlap in part",
      fileOf({ a: f32([2], 0, 8), b: f32([2], 4, 12) }, 12),
      /tensors "a" and "b" overlap at byte 4/
    ],
    [
      "a gap between tensors",
      fileOf({ a: f32([1], 0, 4), b: f32([1], 8, 12) }, 12),
      /a gap of 4 bytes before tensor "b"/
    ],
    ["a gap at the beginning", fileOf({ a: f32([1], 4, 8) }, 8), /a gap of 4 bytes before tensor "a"/],
    [
      "bytes after the last tensor",
      fileOf({ a: f32([1], 0, 4) }, 7),
      /3 bytes after the last tensor belong to no tensor/
    ],
    [
      "a truncated file",
      fileOf({ a: f32([4], 0, 16) }, 10),
      /tensor "a" ends 6 bytes after the end of the file \(truncated\)/
    ],
    [
      "an unknown dtype",
      fileOf({ a: { dtype: "I4", shape: [8], data_offsets: [0, 4] } }, 4),
      /tensor "a": dtype "I4" is not supported; F32, F16 and BF16 are/
    ],
    [
      "a dtype that every object has",
      fileOf({ a: { dtype: "toString", shape: [], data_offsets: [0, 4] } }, 4),
      /dtype "toString"/
    ],
    ["a range that runs backwards", fileOf({ a: f32([0], 4, 0) }, 4), /runs backwards/],
    ["a negative size", fileOf({ a: f32([-1], 0, 4) }, 4), /tensor "a": shape\.0/],
    [
      "a tensor listed twice",
      fileOf(`{"a":${JSON.stringify(f32([1], 0, 4))},"a":${JSON.stringify(f32([1], 4, 8))}}`, 8),
      /tensor "a" is listed twice/
    ],
    ["offsets that are missing", fileOf({ a: { dtype: "F32", shape: [1] } }, 4), /tensor "a": data_offsets/]
  ])("SAVE-03: %s is refused by name", ([, file, message]) =>
    Effect.gen(function* () {
      expect(yield* problemOf({ "model.safetensors": file })).toMatch(message)
    })
  )

  it.scoped("SAVE-03: a header in another order than its data is read", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const at = yield* directory
      const file = fileOf(
        { __metadata__: { format: "pt" }, b: f32([1], 4, 8), c: f32([0], 8, 8), a: f32([1], 0, 4) },
        8
      )
      yield* fs.writeFile(`${at}/model.safetensors`, file)
      const checkpoint = yield* Safetensors.open(at)
      expect(checkpoint.files).toEqual([{ file: "model.safetensors", names: ["a", "b", "c"] }])
      expect([...(yield* checkpoint.read("b"))]).toEqual([4, 5, 6, 7])
      expect([...(yield* checkpoint.read("a"))]).toEqual([0, 1, 2, 3])
      expect([...(yield* checkpoint.read("c"))]).toEqual([])
      expect((yield* Effect.flip(checkpoint.read("d"))).message).toMatch(/has no tensor "d"/)
    })
  )

  it.scoped("a directory without weights, and no directory at all, say what is missing", () =>
    Effect.gen(function* () {
      expect(yield* problemOf({})).toMatch(/holds neither model\.safetensors nor model\.safetensors\.index\.json/)
      expect((yield* Effect.flip(Safetensors.open("/no/such/place"))).message).toMatch(/\/no\/such\/place/)
    })
  )

  const index = (map: Record<string, string>) => JSON.stringify({ metadata: { total_size: 1 }, weight_map: map })
  const shard = (name: string) => fileOf({ [name]: f32([1], 0, 4) }, 4)
  it.scoped.each<[string, Readonly<Record<string, Uint8Array | string>>, RegExp]>([
    [
      "an entry that its shard does not hold",
      {
        "1.safetensors": shard("a"),
        "model.safetensors.index.json": index({ a: "1.safetensors", b: "1.safetensors" })
      },
      /names tensor "b" in 1\.safetensors, which does not hold it/
    ],
    [
      "a shard that is missing",
      { "model.safetensors.index.json": index({ a: "1.safetensors" }) },
      /1\.safetensors: cannot be read/
    ],
    [
      "a tensor in two shards",
      {
        "1.safetensors": shard("a"),
        "2.safetensors": fileOf({ a: f32([1], 0, 4), b: f32([1], 4, 8) }, 8),
        "model.safetensors.index.json": index({ a: "1.safetensors", b: "2.safetensors" })
      },
      /tensor "a" is also in .*1\.safetensors/
    ],
    [
      "a tensor that the index does not know",
      {
        "1.safetensors": fileOf({ a: f32([1], 0, 4), b: f32([1], 4, 8) }, 8),
        "model.safetensors.index.json": index({ a: "1.safetensors" })
      },
      /tensor "b" is not named for this file in the index/
    ],
    [
      "a path out of the directory",
      { "model.safetensors.index.json": index({ a: "../x.safetensors" }) },
      /"\.\.\/x\.safetensors", which is not a file of this directory/
    ],
    ["an index that is none", { "model.safetensors.index.json": "{}" }, /needs "weight_map"/]
  ])("SAVE-01: %s is refused by name", ([, files, message]) =>
    Effect.gen(function* () {
      expect(yield* problemOf(files)).toMatch(message)
    })
  )

  const tensor = (name: string, values: ReadonlyArray<number>) => ({
    name,
    shape: [values.length],
    values: Effect.succeed(Float32Array.from(values))
  })

  it.scoped("SAVE-01: shards are written with an index of what they hold, and an empty shard is left out", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const at = yield* directory
      const files = [
        { file: "model-00001-of-00003.safetensors", names: ["b", "a"] },
        { file: "model-00002-of-00003.safetensors", names: ["lm_head.weight"] },
        { file: "model-00003-of-00003.safetensors", names: ["c"] }
      ]
      yield* Safetensors.write(at, files, [tensor("a", [1, 2]), tensor("b", [3]), tensor("c", [4, 5, 6])])
      expect((yield* fs.readDirectory(at)).sort()).toEqual([
        "model-00001-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
        "model.safetensors.index.json"
      ])
      const written = JSON.parse(yield* fs.readFileString(`${at}/model.safetensors.index.json`)) as unknown
      expect(written).toEqual({
        metadata: { total_size: 24 },
        weight_map: {
          b: "model-00001-of-00003.safetensors",
          a: "model-00001-of-00003.safetensors",
          c: "model-00003-of-00003.safetensors"
        }
      })
      const checkpoint = yield* Safetensors.open(at)
      expect(checkpoint.files.map(({ names }) => names)).toEqual([["b", "a"], ["c"]])
      expect([...new Float32Array((yield* checkpoint.read("c")).slice().buffer)]).toEqual([4, 5, 6])
    })
  )

  it.scoped("a file is whole or as before: what fails midway leaves the old one", () =>
    Effect.gen(function* () {
      const at = yield* directory
      const files = [{ file: "model.safetensors", names: ["a", "b"] }]
      yield* Safetensors.write(at, files, [tensor("a", [1]), tensor("b", [2])])
      const broken = { ...tensor("b", [9]), values: Effect.fail("no") }
      expect(yield* Effect.flip(Safetensors.write(at, files, [tensor("a", [8]), broken]))).toBe("no")
      const checkpoint = yield* Safetensors.open(at)
      expect([...new Float32Array((yield* checkpoint.read("a")).slice().buffer)]).toEqual([1])
      const homeless = yield* Effect.flip(Safetensors.write(at, files, [tensor("x", [1])]))
      expect(String(homeless)).toMatch(/no file is named for tensor "x"/)
    })
  )

  it.scoped("the data of a written file begins at a multiple of eight", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const at = yield* directory
      yield* Safetensors.write(at, [{ file: "model.safetensors", names: ["abc"] }], [tensor("abc", [1, 2, 3])])
      const file = yield* fs.readFile(`${at}/model.safetensors`)
      const length = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true))
      expect(length % 8).toBe(0)
      const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length))) as unknown
      expect(header).toEqual({ __metadata__: { format: "pt" }, abc: f32([3], 0, 12) })
      expect(file.length).toBe(8 + length + 12)
    })
  )
})
