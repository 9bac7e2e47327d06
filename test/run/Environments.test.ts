import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Environments from "../../src/run/Environments.ts"

const modules = fileURLToPath(new URL("../data/modules", import.meta.url))
const wordsOf = (id: string) => Effect.map(Effect.flip(Environments.resolve({ id }, 0)), ({ message }) => message)

describe("the environment that a config names", () => {
  it.effect("a name that nothing has is told what there is, and what it may have meant", () =>
    Effect.gen(function* () {
      expect(yield* wordsOf("reverse-txt")).toMatch(
        /Did you mean "reverse-text"\? Built in: reverse-text, terminal; one of your own/
      )
      expect(yield* wordsOf("zebra")).toMatch(/installed; .*\. Built in: reverse-text/)
    })
  )

  it.effect("a module that is there and does not do, or a file that is not, gets no list of names", () =>
    Effect.gen(function* () {
      for (const id of ["plain.mjs", "throws.mjs", "noDefault.mjs", "nowhere.mjs"].map(
        (file) => `${modules}/${file}`
      )) {
        expect(yield* wordsOf(id)).not.toContain("Built in")
      }
      expect(yield* wordsOf(`${modules}/unrewarded.mjs`)).toBe(
        `environment "${modules}/unrewarded.mjs": EnvironmentError: environment puzzles: it has no reward; give \`reward\`, a function of task and answer that returns a number`
      )
    })
  )
})
