import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as ToolLoop from "../../src/harnesses/ToolLoop.ts"
import type { AssistantMessage, Message, ToolSpec } from "../../src/Message.ts"
import { layerInProcess } from "../../src/Runtime.ts"
import type { Completion, Model } from "../../src/Session.ts"

const spec = (name: string): ToolSpec => ({ name, parameters: { type: "object" } })
const add: ToolLoop.Tool<number> = {
  spec: spec("add"),
  run: ({ a, b }, task) => Effect.succeed(String(Number(a) + Number(b) + task))
}
const calling = (...calls: ReadonlyArray<readonly [name: string, text: string]>): AssistantMessage => ({
  role: "assistant",
  content: null,
  toolCalls: calls.map(([name, text], i) => ({ id: `c${i}`, name, arguments: text }))
})

/** A model that says these things, one a turn, and what it was asked. */
const scripted = (...turns: ReadonlyArray<AssistantMessage>) => {
  const asked: Array<ReadonlyArray<Message>> = []
  const told: Array<ReadonlyArray<ToolSpec> | undefined> = []
  const model: Model = {
    complete: (messages, { tools } = {}) =>
      Effect.sync((): Completion => {
        told.push(tools)
        asked.push(messages)
        const none = { tokenIds: new Int32Array(0), logprobs: new Float32Array(0), promptTokens: 0, stop: undefined }
        return { message: turns[asked.length - 1]!, toolCalls: [], finishReason: "stop", ...none }
      })
  }
  return { asked, told, model }
}
const run = (harness: ReturnType<typeof ToolLoop.make<number>>, model: Model) =>
  harness
    .run({
      task: 100,
      messages: [{ role: "user", content: "17+4?" }],
      model,
      endpoint: Effect.die("no server is asked"),
      timed: (_, work) => work
    })
    .pipe(Effect.provide(layerInProcess))

describe("the tool loop", () => {
  it.effect("asks, runs what is called, and goes on with the whole conversation until nothing is called", () =>
    Effect.gen(function* () {
      const last: AssistantMessage = { role: "assistant", content: "It is 121." }
      const first = calling(["add", '{"a":17,"b":4}'], ["add", '{"a":1,"b":1}'])
      const { asked, model, told } = scripted(first, last)
      yield* run(ToolLoop.make({ via: "session", tools: [add], system: "Be brief." }), model)
      expect(asked).toHaveLength(2)
      expect(asked[1]).toEqual([
        { role: "system", content: "Be brief." },
        { role: "user", content: "17+4?" },
        first,
        { role: "tool", toolCallId: "c0", content: "121", name: "add" },
        { role: "tool", toolCallId: "c1", content: "102", name: "add" }
      ])
      expect(told).toEqual([[add.spec], [add.spec]])
    })
  )

  it.effect("tells the model what it got wrong: an unknown tool, arguments that are no JSON or no object", () =>
    Effect.gen(function* () {
      const { asked, model } = scripted(calling(["sub", "{}"], ["add", '{"a":'], ["add", "[1]"]), {
        role: "assistant",
        content: "sorry"
      })
      yield* run(ToolLoop.make({ via: "session", tools: [add] }), model)
      const answers = asked[1]!.filter(({ role }) => role === "tool").map(({ content }) => content)
      expect(answers[0]).toBe('there is no tool "sub"; there are add')
      expect(answers[1]).toContain("the call of add cannot be read: ")
      expect(answers[2]).toBe("the call of add cannot be read: the arguments are [1], and no object")
    })
  )

  it.effect("a tool that breaks is to blame itself", () =>
    Effect.gen(function* () {
      const broken: ToolLoop.Tool<number> = { spec: spec("add"), run: () => Effect.die(new Error("no disk")) }
      const { model } = scripted(calling(["add", "{}"]))
      const error = yield* Effect.flip(run(ToolLoop.make({ via: "session", tools: [broken] }), model))
      expect(error).toMatchObject({ _tag: "ToolError", message: "tool add: no disk" })
    })
  )
})
