import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Algorithm from "../../src/Algorithm.ts"
import * as Credit from "../../src/Credit.ts"
import * as Testing from "../../src/testing/index.ts"
import { matchers } from "../../src/testing/vitest.ts"
import { run } from "../cli/kit.ts"
// the example's own tests, as its author would run them
import "../../examples/testing/rank.test.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const read = (path: string) => readFileSync(`${root}/${path}`, "utf8")
const page = read("docs/testing.md")

describe("docs/testing.md", () => {
  it("shows the example as it is in the repository, where it is compiled", () => {
    for (const path of ["rank.ts", "rank.test.ts"])
      assert.include(page, `\`\`\`ts\n${read(`examples/testing/${path}`)}\`\`\``)
  })

  it.effect("shows what the kit says of the algorithm without its guard", () =>
    Effect.gen(function* () {
      const wrong = Algorithm.define({
        type: "rank",
        actionLoss: "rl",
        hooks: () => ({
          scoreGroup: (group) =>
            group.map(({ reward }) => {
              const beaten = group.reduce((sum, other) => sum + Math.sign(reward - other.reward), 0)
              return Credit.uniform(beaten / (group.length - 1))
            })
        })
      })
      assert.include(page, `\`\`\`\n${Testing.reportText(yield* Testing.check(wrong.layer()))}\`\`\``)
    })
  )

  it.effect("shows what the command prints", () =>
    Effect.gen(function* () {
      const [, command] = /```sh\nnpx primerl (.*?)```/s.exec(page)!
      const args = command!.replaceAll("\\\n", " ").trim().split(/\s+/)
      const file = "examples/testing/group.jsonl"
      const { code, out } = yield* run(args, { [file]: read(file) })
      assert.strictEqual(code, 0)
      assert.include(page, `\`\`\`\n${out.trimEnd()}\n\`\`\``)
    })
  )

  it("names every property, and only exports that there are", () => {
    for (const { name } of Testing.properties(
      Algorithm.define({ type: "any", actionLoss: "ce", hooks: () => ({}) }).layer()
    )) {
      assert.include(page, `\n| ${name} |`)
    }
    const used = page.slice(page.indexOf("## Build what it reads"))
    const names = Array.from(used.matchAll(/^\| (`.*?) \|/gm), ([, cell]) =>
      Array.from(cell!.matchAll(/`(?:await )?(?:expect\(\w+\)\.)?(\w+)/g), ([, name]) => name!)
    ).flat()
    assert.isAbove(names.length, 25)
    for (const name of names) assert.isTrue(name in Testing || name in matchers, name)
  })
})
