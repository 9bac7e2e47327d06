import { readFileSync } from "node:fs"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Config from "../../src/Config.ts"
import * as Run from "../../src/Run.ts"
import { files } from "../config/files.ts"
import { run } from "./kit.ts"

const read = (name: string) => readFileSync(new URL(`../data/plans/${name}`, import.meta.url), "utf8")
const real = { check: Run.check, plan: Run.plan }

const load = (path: string, text: string) =>
  Config.loadAny([path], ["output_dir=/runs"]).pipe(Effect.provide(files({ [path]: text })))

describe("primerl plan of several sources", () => {
  for (const name of ["three-environments", "two-teachers", "every-sampler"]) {
    it.effect(`${name}: the whole text, which reads back as the same configuration`, () =>
      Effect.gen(function* () {
        const toml = read(`${name}.toml`)
        const { code, out, text } = yield* run(
          ["plan", "rl.toml", "--set", "output_dir=/runs"],
          { "rl.toml": toml },
          real
        )
        expect([code, text]).toEqual([0, ""])
        expect(out).toBe(read(`${name}.txt`))
        expect(yield* load("again.toml", out)).toEqual(yield* load("rl.toml", toml))
      })
    )
  }

  it.effect("GRPO on what a frozen model says is refused where the source or its default says so", () =>
    Effect.gen(function* () {
      const toml = `[model]
name = "/policy"
[[orchestrator.train.env]]
id = "reverse-text"
sampling = { source = { name = "big", base_url = "http://localhost:1/v1" } }
`
      const own = yield* run(["plan", "rl.toml"], { "rl.toml": toml }, real)
      expect(own.text).toMatch(
        /rl\.toml:5 +orchestrator\.train\.env\[0\]\.sampling\.source: source "reverse-text" samples from a frozen model, which grpo cannot train on/
      )
      const inherited = `[orchestrator.train.sampling.source]\nname = "big"\nbase_url = "http://localhost:1/v1"\n[[orchestrator.train.env]]\nid = "reverse-text"\n`
      const all = yield* run(["plan", "rl.toml"], { "rl.toml": inherited }, real)
      expect(all.text).toMatch(/rl\.toml:1 +orchestrator\.train\.sampling\.source: source "reverse-text" samples from/)
    })
  )

  it.effect(
    "a filter that leaves tokens out is refused where ratios are trained on, and not where tokens are imitated",
    () =>
      Effect.gen(function* () {
        const toml = (algo: string) =>
          `[model]\nname = "/policy"\n[[orchestrator.train.env]]\nid = "reverse-text"\nalgo = { type = "${algo}" }\nsampling = { top_p = 0.9 }\n`
        const refused = yield* run(["plan", "rl.toml"], { "rl.toml": toml("grpo") }, real)
        expect(refused.text).toMatch(
          /rl\.toml:6 +orchestrator\.train\.env\[0\]\.sampling: source "reverse-text" samples with top_p 0\.9, and grpo trains on its tokens by rl/
        )
        const imitated = yield* run(["plan", "rl.toml"], { "rl.toml": toml("sft") }, real)
        expect(imitated.text).not.toMatch(/samples with top_p/)
      })
  )
})
