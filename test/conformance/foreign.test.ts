/** Folders that others may write: what the format allows must not look like a failure of the package. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { passes } from "../../src/conformance/Check.ts"
import * as Conformance from "../../src/conformance/Conformance.ts"

const failing = (packing: object) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const folder = yield* fs.makeTempDirectoryScoped()
    yield* fs.writeFileString(`${folder}/packing.json`, JSON.stringify({ cases: [packing] }))
    return (yield* Conformance.run(folder)).filter((check) => !passes(check)).map(({ quantity }) => quantity)
  })
const base = { workers: 1, padToMultipleOf: 1, cost: "tokens" }
const bins = (...lengths: ReadonlyArray<ReadonlyArray<number>>) => [
  lengths.map((sequenceLengths) => ({ sequenceLengths, dummy: false }))
]

layer(NodeContext.layer)("packing records", (it) => {
  it.scoped("with a sample of one token", () =>
    Effect.gen(function* () {
      const one = { ...base, name: "one", lengths: [1, 3], maxSequenceLength: 4, streams: false }
      expect(yield* failing({ ...one, expected: bins([3, 1]) })).toEqual([])
    })
  )

  it.scoped("with a sample that is cut and whose streams have no member", () =>
    Effect.gen(function* () {
      const cut = { ...base, name: "cut", lengths: [2, 2, 2, 2, 2, 9], maxSequenceLength: 8, streams: true }
      expect(yield* failing({ ...cut, expected: bins([8], [2, 2, 2, 2], [2]) })).toEqual([])
    })
  )
})
