import { readFileSync } from "node:fs"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { refunds } from "../../examples/agents/refunds.ts"
import { search } from "../../examples/agents/search.ts"
import { recorded } from "../../examples/agents/session.ts"
import * as Environment from "../../src/Environment.ts"
import * as Trace from "../../src/Trace.ts"
import { planned } from "../../src/testing/index.ts"
import { callText, layer } from "../interception/kit.ts"

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8")
const run = (environment: Environment.Environment) =>
  Environment.rollout(environment, planned({ example: Environment.exampleKey(environment, 0) }), { seed: 1 })

describe("the page about agents", () => {
  it("shows the examples as they are in the repository, where they are compiled", () => {
    const blocks = Array.from(read("docs/interception.md").matchAll(/```ts\n(.*?)```/gs), ([, code]) => code)
    expect(blocks).toEqual(["refunds", "session", "search"].map((name) => read(`examples/agents/${name}.ts`)))
  })

  it.effect("its agent is rewarded for what the policy says", () =>
    Effect.gen(function* () {
      expect(yield* run(refunds)).toMatchObject({ _tag: "Rollout", reward: 1, stopReason: "done" })
    }).pipe(Effect.provide(layer({ reply: () => "refund<|im_end|>" })))
  )

  it.effect("its agent is recorded without an environment", () =>
    Effect.gen(function* () {
      const trace = yield* recorded
      expect([Trace.lastReply(trace), trace.stop?.reason]).toEqual(["refund", "done"])
    }).pipe(Effect.provide(layer({ reply: () => "refund<|im_end|>" })))
  )

  it.effect("its search ends where the needle is found", () =>
    Effect.gen(function* () {
      const ended = yield* run(search)
      expect(ended).toMatchObject({ reward: 0.5, stopReason: "task", trace: { stop: { reason: "found", by: "task" } } })
    }).pipe(
      Effect.provide(
        layer({
          reply: (_, call) => `${callText("look", `{"where":"${call === 0 ? "barn" : "haystack"}"}`)}<|im_end|>`
        })
      )
    )
  )
})
