/** A turn with several calls, in deltas and whole; one that was cut; and numbers that are none. */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as ChatMessage from "../../src/server/ChatMessage.ts"
import type { Delta } from "../../src/server/Reader.ts"
import { said, scripted } from "./scripted.ts"

const call = (name: string): Delta => ({
  type: "toolCall",
  call: { name, arguments: "{}", raw: name, status: "ok" }
})

describe("calls of a turn", () => {
  it("have the ids and the places in deltas that they have in the whole", () => {
    const whole = ChatMessage.message([call("a"), call("b"), call("c")], 9).tool_calls
    const first = ChatMessage.delta([call("a")], { promptTokens: 9, before: 0 }).tool_calls
    const rest = ChatMessage.delta([call("b"), call("c")], { promptTokens: 9, before: 1 }).tool_calls
    const told = [...first!, ...rest!]
    expect(told.map(({ index }) => index)).toEqual([0, 1, 2])
    expect(told.map(({ index: _, ...one }) => one)).toEqual(whole)
    expect(new Set(whole!.map(({ id }) => id)).size).toBe(3)
  })

  it("are why it ended where it ended by itself, and not where it was cut", () => {
    const stopped = { reason: "stop", stop: undefined } as const
    const cut = { reason: "length", stop: undefined } as const
    expect(ChatMessage.finishReason(stopped, 1)).toBe("tool_calls")
    expect(ChatMessage.finishReason(stopped, 0)).toBe("stop")
    expect(ChatMessage.finishReason(cut, 1)).toBe("length")
    expect(ChatMessage.finishReason(undefined, 1)).toBeNull()
  })
})

it.scoped("a score that is no number is an error, sampled or of the prompt, and never null", () =>
  Effect.gen(function* () {
    const broken = yield* scripted(said("no<|im_end|>"), 1, () => Number.NaN)
    const refusal = { error: { type: "server_error", message: expect.stringMatching(/the engine gave NaN/) } }
    expect(yield* broken.call("completions", { prompt: "ab", max_tokens: 0, prompt_logprobs: 1 })).toMatchObject(
      refusal
    )
    expect(yield* broken.call("completions", { prompt: "ab", max_tokens: 2 })).toMatchObject(refusal)
  })
)
