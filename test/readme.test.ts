import { readFileSync } from "node:fs"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import beatTheGroup from "../examples/beat-the-group.ts"
import { advantages, group, score } from "../src/testing/index.ts"

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8")
const blocks = Array.from(read("README.md").matchAll(/```ts\n(.*?)```/gs), ([, code]) => code)

describe("README", () => {
  it("shows the examples as they are in the repository, where they are compiled", () => {
    expect(blocks).toEqual([read("examples/refunds.ts"), read("examples/beat-the-group.ts")])
  })

  it("names only files, commands and scripts that there are", () => {
    const scripts = JSON.parse(read("package.json")).scripts
    for (const [, script] of read("README.md").matchAll(/npm (?:run )?(quickstart|test|conformance)\b/g)) {
      expect(scripts).toHaveProperty(script!)
    }
    for (const [, path] of read("README.md").matchAll(/`?((?:examples|docs|native)\/[\w./-]*\.\w+)/g)) {
      expect(read(path!).length).toBeGreaterThan(0)
    }
  })

  it.effect("the example algorithm does what it says", () =>
    Effect.gen(function* () {
      const outcomes = yield* score(beatTheGroup.layer(), group([1, 0.25, 0]))
      expect(Object.values(advantages(outcomes))).toEqual([0.75, -0.75, -1])
    })
  )
})
