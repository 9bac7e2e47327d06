import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as EndIds from "../../src/server/EndIds.ts"

const read = (files: Readonly<Record<string, string>>) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped()
    for (const [name, text] of Object.entries(files)) yield* fs.writeFileString(`${directory}/${name}`, text)
    return yield* EndIds.read(directory)
  }).pipe(Effect.provide(NodeContext.layer))

describe("the ids that end a model's text", () => {
  it.scoped("are those of generation_config.json, or else of config.json, or none", () =>
    Effect.gen(function* () {
      const config = '{"eos_token_id": 7}'
      expect(yield* read({ "generation_config.json": '{"eos_token_id": [1, 2]}', "config.json": config })).toEqual([
        1, 2
      ])
      expect(yield* read({ "generation_config.json": '{"eos_token_id": null}', "config.json": config })).toEqual([7])
      expect(yield* read({ "generation_config.json": "{}", "config.json": config })).toEqual([7])
      expect(yield* read({ "config.json": "{}" })).toEqual([])
      expect(yield* read({})).toEqual([])
    })
  )

  it.scoped("are told to be missing where a file is broken: a model without them never ends", () =>
    Effect.gen(function* () {
      for (const text of ["{", '{"eos_token_id": "end"}', "[]"]) {
        const error = yield* Effect.flip(read({ "generation_config.json": text, "config.json": '{"eos_token_id": 7}' }))
        expect(error._tag === "ModelError" && error.message).toMatch(
          /generation_config\.json: eos_token_id cannot be read/
        )
      }
    })
  )
})
