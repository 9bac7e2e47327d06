import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Losses from "../../src/run/Losses.ts"

const modules = fileURLToPath(new URL("../data/modules", import.meta.url))
const wordsOf = (type: string) => Effect.map(Effect.flip(Losses.resolve({ type })), ({ message }) => message)

describe("the loss that a config names", () => {
  it.effect("one that breaks on its configuration is a problem with its words", () =>
    Effect.gen(function* () {
      const type = `${modules}/brokenLoss.ts`
      expect(yield* wordsOf(type)).toBe(`trainer.loss.type: loss "${type}" could not be made: clip is not finite`)
    })
  )

  it.effect("a misspelt name gets the nearest one, a module that is there and does not do gets no list", () =>
    Effect.gen(function* () {
      expect(yield* wordsOf("dpop")).toContain('Did you mean "dppo"? Built in: dppo, default, ipo')
      expect(yield* wordsOf("jiti")).not.toContain("Built in")
      expect(yield* wordsOf(`${modules}/throws.mjs`)).not.toContain("Built in")
    })
  )
})
