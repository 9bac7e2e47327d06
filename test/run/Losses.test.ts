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

  it.effect("every built-in one by its name, with its own keys and no others", () =>
    Effect.gen(function* () {
      for (const type of Object.keys(Losses.builtIn)) {
        expect((yield* Losses.resolve({ type })).type).toBe(type === "default" ? "dppo" : type)
        const error = yield* Effect.flip(Losses.resolve({ type, clip_hihg: 1 }))
        expect(error.message).toContain("trainer.loss.clip_hihg")
      }
      expect(yield* Losses.resolve({ type: "ppo_clip", clip_high: 0.28 })).toMatchObject({
        native: { kernel: "ppo_clip", clipLow: 0.2, clipHigh: 0.28 }
      })
      const negative = yield* Effect.flip(Losses.resolve({ type: "icepop", mask_low: -1 }))
      expect(negative.message).toContain("trainer.loss.mask_low")
      const text = yield* Effect.flip(Losses.resolve({ type: "ppo_clip", clip_high: "0.2" }))
      expect(text.message).toBe('trainer.loss.clip_high: Expected number, actual "0.2"')
    })
  )

  it.effect("custom without a path says what it takes", () =>
    Effect.gen(function* () {
      expect(yield* wordsOf("custom")).toContain('import_path = "./my-loss.ts"')
    })
  )
})
