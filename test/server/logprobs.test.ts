/** The forms in which clients read log-probabilities. */
import { describe, expect, it } from "@effect/vitest"
import * as Logprobs from "../../src/server/Logprobs.ts"

const tokens = [
  { id: 7, logprob: -0.5, offset: 0 },
  { id: 8, logprob: -2, offset: 1 }
]
const spelling = (id: number) => (id === 7 ? "é" : "\ufffd")

describe("a chat's log-probabilities", () => {
  it("hold the token as its only candidate where one is asked for, and none where none is", () => {
    const of = (candidates: number) => Logprobs.chatContent(tokens, { spelling, candidates })
    expect(of(0).map(({ top_logprobs }) => top_logprobs)).toEqual([[], []])
    const [{ top_logprobs, ...first }] = of(1) as [ReturnType<typeof of>[number]]
    expect(top_logprobs).toEqual([first])
  })

  it("have the bytes of a token that is text, and null for a part of a character and for an id", () => {
    const bytes = (of: Logprobs.Spelling) =>
      Logprobs.chatContent(tokens, { spelling: of, candidates: 0 }).map(({ bytes }) => bytes)
    expect(bytes(spelling)).toEqual([[0xc3, 0xa9], null])
    expect(bytes(Logprobs.asId)).toEqual([null, null])
  })
})

it("a completion's log-probabilities have a table of the token itself where candidates are asked for", () => {
  const of = (candidates: number) =>
    Logprobs.completion([{ id: 7, logprob: null, offset: 0 }, tokens[1]!], { spelling, candidates })
  expect(of(0)).toEqual({
    text_offset: [0, 1],
    token_logprobs: [null, -2],
    tokens: ["é", "\ufffd"],
    top_logprobs: null
  })
  expect(of(1).top_logprobs).toEqual([null, { "\ufffd": -2 }])
})
