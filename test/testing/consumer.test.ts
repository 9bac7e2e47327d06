import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, describe, expect, it } from "@effect/vitest"

const root = fileURLToPath(new URL("../..", import.meta.url))
const directory = mkdtempSync(join(tmpdir(), "primerl-consumer-"))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const install = (name: string, from: string) => {
  const place = join(directory, "node_modules", name)
  mkdirSync(dirname(place), { recursive: true })
  symlinkSync(from, place)
}
const write = (name: string, text: string) => writeFileSync(join(directory, name), text)

write("package.json", '{ "type": "module" }')
install("primerl", root)
install("effect", join(root, "node_modules/effect"))

describe("a package that installs primerl", () => {
  it("has the kit and the matchers at run time, without vitest", () => {
    write(
      "run.mjs",
      `import { Effect } from "effect"
import { Grpo } from "primerl"
import { explain, group, table } from "primerl/testing"
import { matchers } from "primerl/testing/vitest"
console.log(Object.keys(matchers).join(" "))
console.log(table(await Effect.runPromise(explain(Grpo.layer(), group([1, 0])))))
`
    )
    const printed = execFileSync(process.execPath, ["run.mjs"], { cwd: directory, encoding: "utf8" })
    expect(printed).toContain("toHaveAdvantages toHaveWeights toBeAbsent toPassProperties\n")
    expect(printed).toContain("grpo: 2 rollouts, 8 tokens")
  })

  it("has their types, and wrong uses are errors", () => {
    install("vitest", join(root, "node_modules/vitest"))
    write(
      "mine.ts",
      `import { Effect, type Layer } from "effect"
import { type Algorithm, Grpo } from "primerl"
import { type Explanation, explain, group, layerTeachers, type Outcome, properties, score } from "primerl/testing"
import { matchers } from "primerl/testing/vitest"
import { expect, it } from "vitest"

expect.extend(matchers)
const outcomes: ReadonlyArray<Outcome> = await Effect.runPromise(score(Grpo.layer(), group([1, 0])))
expect(outcomes).toHaveAdvantages([0.5, -0.5], 4)
expect(outcomes[0]).not.toBeAbsent("Failed")
// @ts-expect-error no such reason
expect(outcomes[0]).toBeAbsent("Lost")
const explanation: Explanation = await Effect.runPromise(explain(Grpo.layer(), group([1, 0])))
expect(explanation.rollouts[0]).toHaveWeights("rl", [0, 0, 1, 1])
// @ts-expect-error no such component
expect(explanation.rollouts[0]).toHaveWeights("kl", [0])
const held: Promise<void> = expect(Grpo.layer()).toPassProperties({ runs: 3, shiftInvariant: true })
// @ts-expect-error no such option
expect(Grpo.layer()).toPassProperties({ shiftInvariance: true })
for (const { name, run } of properties(Grpo.layer())) it(name, run)
declare const hungry: Layer.Layer<Algorithm.Algorithm, never, "a service that no run has">
// @ts-expect-error no run provides it
properties(hungry)
layerTeachers({ expert: { score: () => -0.5, scoringMs: 100 } })
export { held }
`
    )
    const options = ["--strict", "--noEmit", "--skipLibCheck", "--target", "es2022", "--module", "nodenext"]
    const tsc = [join(root, "node_modules/typescript/bin/tsc"), ...options, "mine.ts"]
    expect(execFileSync(process.execPath, tsc, { cwd: directory, encoding: "utf8" })).toBe("")
  })
})
