import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import rloo from "../examples/rloo.ts"
import { advantages, group, score } from "../src/testing/index.ts"

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8")
const blocks = Array.from(read("README.md").matchAll(/```ts\n(.*?)```/gs), ([, code]) => code)

describe("README", () => {
  it("shows the examples as they are in the repository, where they are compiled", () => {
    expect(blocks).toEqual([read("examples/program.ts"), read("examples/rloo.ts")])
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
      const outcomes = yield* score(rloo.layer(), group([1, 0.25, 0]))
      expect(Object.values(advantages(outcomes))).toEqual([0.875, -0.25, -0.625])
      const equal = yield* score(rloo.layer(), group([0.1, 0.1, 0.1]))
      expect(Object.values(advantages(equal))).toEqual([0, 0, 0])
    })
  )

  it("the example program makes the reward rise and saves what it trained", () => {
    const root = fileURLToPath(new URL("..", import.meta.url))
    const directory = mkdtempSync(join(tmpdir(), "primerl-readme-"))
    try {
      mkdirSync(join(directory, "node_modules"))
      symlinkSync(root, join(directory, "node_modules/primerl"))
      const program = [
        join(root, "node_modules/vite-node/vite-node.mjs"),
        ...["--root", root, "--config", join(root, "vitest.config.ts")],
        join(root, "examples/program.ts")
      ]
      const printed = execFileSync(process.execPath, program, { cwd: directory, encoding: "utf8" })
      const rewards = Array.from(printed.matchAll(/^step \d+ {2}reward (\d\.\d\d)$/gm), ([, reward]) => Number(reward))
      expect(rewards).toHaveLength(20)
      expect(rewards[0]).toBeLessThan(0.5)
      expect(rewards.at(-1)).toBeGreaterThan(0.8)
      expect(existsSync(join(directory, "shouting-policy/model.safetensors"))).toBe(true)
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  })
})
