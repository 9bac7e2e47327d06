import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as ModuleLoader from "../src/ModuleLoader.ts"

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
