import * as FastCheck from "effect/FastCheck"
import { expect, it } from "vitest"
import * as Runs from "../../src/renderers/internal/Runs.ts"
import { qwen3 } from "../tokenizer/qwen3.ts"
import { textWhere } from "./fixtures.ts"

const part = (message: number): Runs.Part => ({ message, sampled: false, content: message % 2 === 1 })

it("however a run is cut into pieces, its ids are those of the whole text", () => {
  const piece = FastCheck.oneof(
    FastCheck.constantFrom(
      "check.",
      "\n\n",
      ".\n",
      "x\n",
      "\n",
      "user\n",
      ">\n",
      "<parameter",
      "ok",
      " ",
      "e",
      "\u0301",
      "é"
    ),
    FastCheck.string({ unit: "grapheme", maxLength: 6 })
  )
  FastCheck.assert(
    FastCheck.property(FastCheck.array(piece, { maxLength: 8 }), (pieces) => {
      const runs = Runs.make(qwen3())
      for (const [index, text] of pieces.entries()) runs.text(text, part(index))
      const { messageIndices, tokenIds } = runs.finish()
      expect([...tokenIds]).toEqual([...qwen3().encode(pieces.join("")).ids])
      // pieces stand in order, so that their tokens do
      expect([...messageIndices]).toEqual([...messageIndices].sort((left, right) => left - right))
    }),
    { numRuns: 150 }
  )
})

it("a token that holds bytes of two pieces belongs to the one that it starts in", () => {
  const runs = Runs.make(qwen3())
  runs.text("check.", part(0))
  runs.text("\n\n", part(1))
  runs.special(151645, part(2))
  runs.text("after", part(3))
  const rendered = runs.finish()
  expect([...rendered.tokenIds.subarray(1, 3)]).toEqual([382, 151645])
  expect([...rendered.messageIndices]).toEqual([0, 0, 2, 3])
  expect(textWhere(rendered, rendered.isContent, 1, qwen3())).toBe("after")
})

it("normalising may shorten a text: attribution counts the bytes that were encoded", () => {
  const runs = Runs.make(qwen3())
  runs.text("e\u0301e\u0301e\u0301|", part(0))
  runs.text("body", part(1))
  const rendered = runs.finish()
  expect(textWhere(rendered, rendered.isContent, 1, qwen3())).toBe("body")
})

it("a token of scaffold and a body that takes the seam is the body's, whichever comes first", () => {
  const where = (takesSeam: boolean) => {
    const runs = Runs.make(qwen3())
    runs.text("\n<response>", part(0))
    runs.text("The end", { ...part(1), takesSeam })
    runs.text("</response>", part(2))
    const rendered = runs.finish()
    return textWhere(rendered, rendered.isContent, 1, qwen3())
  }
  expect(where(false)).toBe(" end")
  expect(where(true)).toBe(">The end")
})
