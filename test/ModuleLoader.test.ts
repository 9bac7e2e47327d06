import { fileURLToPath } from "node:url"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Logger, TestClock } from "effect"
import * as ModuleLoader from "../src/ModuleLoader.ts"
import * as Registry from "../src/Registry.ts"
import * as Testing from "../src/testing/index.ts"

const base = fileURLToPath(new URL("./data/modules", import.meta.url))
const errorOf = (specifier: string) => Effect.flip(ModuleLoader.load(specifier, base))

describe("ModuleLoader", () => {
  it.effect("gives the default export of a file relative to the base, and of an installed package", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* ModuleLoader.load("./plain.mjs", base), { answer: 42 })
      assert.deepStrictEqual(yield* ModuleLoader.load(`${base}/plain.mjs`, "/"), { answer: 42 })
      assert.isObject(yield* ModuleLoader.load("./beatTheGroup.ts", base))
      assert.isFunction(yield* ModuleLoader.load("jiti", base))
    })
  )

  it.scoped("a module outside any project imports this package and Effect from the run that loads it", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const body = `import { Algorithm, Credit } from "primerl"
import * as Testing from "primerl/testing"
import * as Effect from "effect/Effect"
import { Schema } from "effect"
import { one } from "./one.NAME"
export default Algorithm.define({
  type: "mine",
  actionLoss: "rl",
  Config: Schema.Struct({}),
  hooks: () => Effect.succeed({ scoreRollout: ({ reward }) => Effect.succeed(Credit.uniform(reward * one * Testing.group([1]).length)) })
})
`
      for (const extension of ["ts", "mjs", "js"]) {
        yield* fs.writeFileString(
          `${directory}/one.${extension}`,
          `export const one${extension === "ts" ? ": number" : ""} = 1\n`
        )
        yield* fs.writeFileString(`${directory}/mine.${extension}`, body.replace("NAME", extension))
        const found = yield* ModuleLoader.load(`./mine.${extension}`, directory)
        const registry = Registry.make([], () => Effect.succeed(found))
        const { layer } = yield* registry.resolve({ type: "./mine" })
        const outcomes = yield* Testing.score(layer, Testing.group([1, 0.5]))
        assert.deepStrictEqual(Testing.advantages(outcomes), { "g0/0": 1, "g0/1": 0.5 }, extension)
      }
    }).pipe(Effect.provide([Testing.layerProvided, NodeContext.layer]))
  )

  it.scoped("what it imports besides is its own to have", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      yield* fs.writeFileString(`${directory}/needy.mjs`, 'import "no-such-package"\nexport default 1\n')
      const error = yield* Effect.flip(ModuleLoader.load("./needy.mjs", directory))
      assert.include(error.message, "no-such-package")
      assert.notInclude(error.message, "install primerl")
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("one that never finishes loading is spoken of after a while", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      yield* fs.writeFileString(`${directory}/stuck.mjs`, "await new Promise(() => {})\nexport default 1\n")
      const said: Array<unknown> = []
      const logger = Logger.make(({ message }) => void said.push(message))
      const load = (specifier: string) =>
        Effect.provide(ModuleLoader.load(specifier, directory), Logger.replace(Logger.defaultLogger, logger))
      yield* fs.writeFileString(`${directory}/quick.mjs`, "export default 1\n")
      yield* load("./quick.mjs")
      const fiber = yield* Effect.fork(load("./stuck.mjs"))
      yield* TestClock.adjust("9 seconds")
      assert.deepStrictEqual(said, [])
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(said, [["still loading ./stuck.mjs"]])
      yield* Fiber.interrupt(fiber)
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.effect("each way to fail has its own words", () =>
    Effect.gen(function* () {
      const missing = yield* errorOf("./mising.ts")
      assert.strictEqual(missing.kind, "not found")
      assert.include(missing.message, `there is no file ${base}/mising.ts`)
      const unknown = yield* errorOf("@nobody/no-such-package")
      assert.strictEqual(unknown.kind, "not found")
      assert.include(unknown.message, "no package of that name is installed")
      const empty = yield* errorOf("./noDefault.mjs")
      assert.strictEqual(empty.kind, "no default export")
      const thrown = yield* errorOf("./throws.mjs")
      assert.strictEqual(thrown.kind, "failed to load")
      assert.include(thrown.message, "TypeError: the model card is missing")
    })
  )
})
