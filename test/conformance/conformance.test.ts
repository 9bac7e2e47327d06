import { fileURLToPath } from "node:url"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { passes, Tally } from "../../src/conformance/Check.ts"
import * as Conformance from "../../src/conformance/Conformance.ts"
import * as Models from "../../src/conformance/Models.ts"
import * as Addon from "../../src/Trainer/Addon.ts"
import { isas } from "../../src/Trainer/Native.ts"

const cases = fileURLToPath(new URL("../data/cases", import.meta.url))

/** A copy of some of the cases, to be changed. */
const copyOf = (...names: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const folder = yield* fs.makeTempDirectoryScoped()
    for (const name of names) yield* fs.copy(`${cases}/${name}`, `${folder}/${name}`)
    return folder
  })

layer(NodeFileSystem.layer)("conformance", (it) => {
  it.effect("every recorded case is within its tolerance", () =>
    Effect.gen(function* () {
      const checks = yield* Conformance.run(cases)
      expect(checks.filter((check) => !passes(check))).toEqual([])
      expect(new Set(checks.map(({ file }) => file))).toEqual(
        new Set(["loss.json", "packing.json", "models/llama-rope-scaled", "models/qwen2-untied", "models/qwen3-tied"])
      )
      expect(Conformance.table(checks).split("\n").length).toBe(checks.length + 1)
    })
  )

  it.effect("so are the models on every instruction set that this processor has, in every precision", () =>
    Effect.gen(function* () {
      const { isa } = (yield* Addon.load).cpu()
      for (const one of isas.slice(0, isas.indexOf(isa) + 1)) {
        for (const dtype of ["float32", "bfloat16", "bfloat16x3"] as const) {
          for (const name of ["qwen3-tied", "qwen2-untied", "llama-rope-scaled"]) {
            expect((yield* Models.check(cases, name, { isa: one, dtype })).filter((check) => !passes(check))).toEqual(
              []
            )
          }
        }
      }
    })
  )

  it.scoped("a deviation is found, with the place where it is worst", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* copyOf("loss.json", "packing.json")
      const text = yield* fs.readFileString(`${folder}/loss.json`)
      yield* fs.writeFileString(`${folder}/loss.json`, text.replace('"loss": -0.254111845651267', '"loss": -0.2541'))
      const packing = JSON.parse(yield* fs.readFileString(`${folder}/packing.json`)) as {
        cases: Array<{ name: string; expected: Array<Array<object>> }>
      }
      packing.cases[0]!.expected[0]!.pop()
      yield* fs.writeFileString(`${folder}/packing.json`, JSON.stringify(packing))
      const failed = (yield* Conformance.run(folder)).filter((check) => !passes(check))
      expect(failed.map(({ at, quantity }) => [quantity, at])).toEqual([
        ["float64 total", "dppo-near-plain"],
        ["micro-batches over the record", "simple-ffd"],
        ["micro-batches of a worker over the record", "simple-ffd"],
        ["heaviest worker over the record", "simple-ffd"]
      ])
      expect(Conformance.table(failed)).toMatch(
        /^FAIL {2}loss\.json .*float64 total .*4\.7e-5 .*1\.0e-6 {2}dppo-near-plain$/m
      )
    })
  )

  it.scoped("what cannot be read is named", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const message = (folder: string) => Effect.map(Effect.flip(Conformance.run(folder)), (error) => error.message)
      expect(yield* message("/no/such/folder")).toMatch(/\/no\/such\/folder: cannot be read/)
      const empty = yield* fs.makeTempDirectoryScoped()
      expect(yield* message(empty)).toMatch(/holds no cases/)
      yield* fs.writeFileString(`${empty}/loss.json`, '{"cases":[{"name":"a"}]}')
      expect(yield* message(empty)).toMatch(/loss\.json: is not in the format of these cases: cases\.0\.loss/)
      const unknown = yield* copyOf("loss.json")
      const text = yield* fs.readFileString(`${unknown}/loss.json`)
      yield* fs.writeFileString(`${unknown}/loss.json`, text.replace('"type": "ipo"', '"type": "nope"'))
      expect(yield* message(unknown)).toMatch(/loss type "nope" is unknown; there are dppo, default, ipo/)
      const modelless = yield* copyOf("models")
      yield* fs.remove(`${modelless}/models/qwen3-tied/model.safetensors`)
      expect(yield* message(modelless)).toMatch(/qwen3-tied: holds neither model\.safetensors/)
    })
  )

  it.effect("what is not a number is never within tolerance", () =>
    Effect.sync(() => {
      const tally = new Tally("f")
      tally.absolute("q", 1, 1, 1, "first")
      tally.absolute("q", Number.NaN, 1, 1, "second")
      tally.absolute("q", 3, 1, 1, "third")
      expect(tally.checks).toEqual([
        { file: "f", quantity: "q", count: 3, worst: Number.POSITIVE_INFINITY, tolerance: 1, at: "second" }
      ])
    })
  )
})
