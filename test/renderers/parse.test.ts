import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import type { ParsedToolCall, ParseEvent } from "../../src/Renderer.ts"
import { chatml, ids, plain, plainChatml, tokenizer } from "./fixtures.ts"

const parse = (completion: string, prompt?: string) =>
  chatml.parse(ids(completion), { promptIds: prompt === undefined ? undefined : ids(prompt) })

/** What a reader of the stream has in the end. */
const collect = (events: ReadonlyArray<ParseEvent>) => {
  const seen = { content: "", reasoning: "", calls: [] as Array<ParsedToolCall>, told: [] as Array<[string, string]> }
  for (const event of events) {
    if (event.type === "content") seen.content += event.text
    else if (event.type === "reasoning") seen.reasoning += event.text
    else if (event.type === "contentRevoked") seen.content = ""
    else if (event.type === "toolCallStart") seen.told[event.index] = [event.name, ""]
    else if (event.type === "toolCallArguments") seen.told[event.index]![1] += event.text
    else if (event.type === "toolCallEnd") {
      expect(event.index).toBe(seen.calls.length)
      seen.calls.push(event.call)
    }
  }
  return seen
}

const call = (body: string) => `<tool_call>\n${body}\n</tool_call>`
const ls = call('{"name": "ls", "arguments": {}}')

describe("reasoning", () => {
  it("REND-02: unfinished reasoning that the prompt opened is never content; after the first close markers are text", () => {
    const cut = parse("Let me work this out", "<|im_start|>assistant\n<think>")
    expect(cut.message).toEqual({ role: "assistant", content: "", reasoningContent: "Let me work this out" })
    expect(cut.reasoningComplete).toBe(false)
    const unopened = parse("a</think>b</think>c")
    expect(unopened.message).toEqual({ role: "assistant", content: "b</think>c", reasoningContent: "a" })
    expect(unopened.reasoningComplete).toBe(true)
  })

  it("REND-03: a call drafted inside reasoning is not a call", () => {
    const draft = '<tool_call>{"name":"rm","arguments":{}}</tool_call>'
    const opened = parse(`<think>maybe ${draft}</think><tool_call>{"name":"ls","arguments":{}}</tool_call>`)
    expect(opened.message.toolCalls?.map(({ name }) => name)).toEqual(["ls"])
    expect(opened.toolCalls).toHaveLength(1)
    expect(opened.message.reasoningContent).toBe(`maybe ${draft}`)
    const unopened = parse(`maybe ${draft} no</think>done`)
    expect(unopened.toolCalls).toEqual([])
    expect(unopened.message).toEqual({
      role: "assistant",
      content: "done",
      reasoningContent: `maybe ${draft} no`
    })
  })

  it("a call closes reasoning that nothing else closes", () => {
    const { message, reasoningComplete } = parse(`<think>\nlook\n${ls}<|im_end|>`)
    expect(message.reasoningContent).toBe("look")
    expect(reasoningComplete).toBe(true)
    expect(message.toolCalls?.map(({ name }) => name)).toEqual(["ls"])
  })

  it("is none without a marker, empty with an empty pair, and text when only spelled", () => {
    expect(parse("Hello").message).toEqual({ role: "assistant", content: "Hello" })
    expect(parse("Hello").reasoningComplete).toBeUndefined()
    expect(parse("<think></think>Hello").message).toEqual({
      role: "assistant",
      content: "Hello",
      reasoningContent: ""
    })
    const spelled = chatml.parse(Int32Array.from([...ids("<thi"), ...ids("nk>"), ...ids("x < y and a > b")]))
    expect(spelled.message).toEqual({ role: "assistant", content: "<think>x < y and a > b" })
    expect(parse("a <think> b").message.content).toBe("a <think> b")
  })

  it("the prompt decides: closed there, a later close is text; open in an earlier turn only, it is not open", () => {
    expect(parse("a</think>b", "<|im_start|>assistant\n<think>\n\n</think>\n\n").message).toEqual({
      role: "assistant",
      content: "a</think>b"
    })
    const earlier = "<|im_start|>assistant\n<think>cut<|im_end|>\n<|im_start|>assistant\n"
    expect(parse("a", earlier).reasoningComplete).toBeUndefined()
  })

  it("only the line breaks of the format go", () => {
    expect(parse("<think>\n\n a \n\n</think>\n\n\nb\n").message).toEqual({
      role: "assistant",
      content: "\nb\n",
      reasoningContent: "\n a \n"
    })
    expect(parse("\na\n</think>b", "<|im_start|>assistant\n<think>\n").message.reasoningContent).toBe("\na")
  })
})

describe("tool calls", () => {
  it("REND-04: a close marker inside an argument is text of it", () => {
    const body = '{"name":"bash","arguments":{"cmd":"echo </tool_call> test"}}'
    for (const completion of [
      ids(`<tool_call>\n${body}\n</tool_call><|im_end|>`),
      Int32Array.from([...ids("<tool_call>"), ...tokenizer.encode(body).ids, ...ids("</tool_call>")])
    ]) {
      const { message, toolCalls } = chatml.parse(completion)
      expect(toolCalls.map(({ status }) => status)).toEqual(["ok"])
      expect(message.content).toBeNull()
      expect(JSON.parse(message.toolCalls![0]!.arguments)).toEqual({ cmd: "echo </tool_call> test" })
    }
  })

  it("a string that never ends does not swallow the calls after it", () => {
    const { message, toolCalls } = parse(`a\n<tool_call>{"name": "x}</tool_call>\n${ls}`)
    expect(toolCalls.map(({ raw, status }) => [status, raw])).toEqual([
      ["invalid_json", '{"name": "x}'],
      ["ok", '\n{"name": "ls", "arguments": {}}\n']
    ])
    expect(message.content).toBe("a")
  })

  it.each([
    ['{"name": "f", "arguments": {"a": 1,}}', "invalid_json"],
    ["{'name': 'f'}", "invalid_json"],
    ['{"arguments": {}}', "missing_name"],
    ['{"name": 3}', "missing_name"],
    ["[1]", "missing_name"],
    ['{"name": "f", "arguments": "{\\"a\\": "}', "invalid_json"]
  ])("%s is %s, kept raw and not executed", (body, status) => {
    const { message, toolCalls } = parse(`before\n${call(body)}`)
    expect(toolCalls.map((one) => [one.status, one.raw])).toEqual([[status, `\n${body}\n`]])
    expect(message).toEqual({ role: "assistant", content: "before" })
  })

  it("a call that is cut off keeps the content before it", () => {
    const { message, terminatedBy, toolCalls } = parse('Let me see.\n<tool_call>\n{"name": "get')
    expect(toolCalls.map(({ status }) => status)).toEqual(["unclosed_block"])
    expect(message).toEqual({ role: "assistant", content: "Let me see." })
    expect(terminatedBy).toBeUndefined()
  })

  it("several calls keep their order, the spelling of their arguments, and ids of their own", () => {
    const { message } = parse(
      `${call('{"name": "a", "arguments": {"x": 1.0, "big": 12345678901234567890}}')}\n${call('{"arguments": "{\\"y\\": 2}", "name": "b"}')}\n${call('{"name": "c"}')}<|im_end|>`,
      "<|im_start|>assistant\n"
    )
    expect(message.toolCalls).toEqual([
      { id: "call_3_0", name: "a", arguments: '{"x": 1.0, "big": 12345678901234567890}' },
      { id: "call_3_1", name: "b", arguments: '{"y": 2}' },
      { id: "call_3_2", name: "c", arguments: "{}" }
    ])
  })

  it("text between and after calls is content, blank text is not", () => {
    expect(parse(`a\n${ls}\n${ls}\n and b\n`).message.content).toBe("a\n and b\n")
    expect(parse(`${ls}\n`).message.content).toBeNull()
  })

  it("are text where the vocabulary has no markers", () => {
    const { message, toolCalls } = plainChatml.parse(plain.encode(`<think>a</think>${ls}`).ids)
    expect(message).toEqual({ role: "assistant", content: `<think>a</think>${ls}` })
    expect(toolCalls).toEqual([])
  })
})

describe("the end of a turn", () => {
  it("REND-16: end tokens are no content, and which one it was is known", () => {
    expect(parse("hi<|im_end|>")).toMatchObject({ message: { content: "hi" }, terminatedBy: "stop" })
    expect(parse("hi<|endoftext|>")).toMatchObject({ message: { content: "hi" }, terminatedBy: "eos" })
    expect(parse("hi").terminatedBy).toBeUndefined()
    expect(parse("<|im_end|>").message).toEqual({ role: "assistant", content: "" })
    expect(parse("").message).toEqual({ role: "assistant", content: "" })
  })

  it("TOK-15: a turn that ended with the turn's close is not truncated, whatever the end-of-text id is", () => {
    expect(chatml.stopTokenIds).toEqual([tokenizer.special("<|im_end|>"), tokenizer.special("<|endoftext|>")])
    expect(parse("done<|im_end|>").terminatedBy).toBe("stop")
  })

  it("nothing after the first stop is read", () => {
    expect(parse(`a<|im_end|>b<|im_end|>${ls}`)).toEqual(parse("a<|im_end|>"))
  })
})

describe("streaming", () => {
  const piece = FastCheck.constantFrom(
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<|im_end|>",
    "\n",
    "\n\n",
    " ",
    "text",
    "é😀",
    '"',
    "\\",
    '{"name": "f", "arguments": {"a": "',
    '"}}',
    '<tool_call>{"name": "f"}</tool_call>',
    '{"arguments": {"n": 1.0}, "name": "f"}'
  )

  it("whatever arrives, the events add up to what the batch parser says", () => {
    const prompts = FastCheck.constantFrom(undefined, "<|im_start|>assistant\n<think>\n", "<|im_start|>assistant\n")
    FastCheck.assert(
      FastCheck.property(FastCheck.array(piece, { maxLength: 14 }), prompts, (pieces, prompt) => {
        const promptIds = prompt === undefined ? undefined : ids(prompt)
        const completion = Int32Array.from(pieces.flatMap((text) => [...ids(text)]))
        const parser = chatml.parser({ promptIds })
        const events = [...completion].flatMap((id) => [...parser.push(id)])
        const finished = parser.finish()
        const seen = collect([...events, ...finished.events])
        const parsed = chatml.parse(completion, { promptIds })
        expect(finished.parsed).toEqual(parsed)
        expect(seen.content).toBe(parsed.message.content ?? "")
        expect(seen.reasoning).toBe(parsed.message.reasoningContent ?? "")
        expect(seen.calls).toEqual(parsed.toolCalls)
        for (const [index, { arguments: text, name, source, span, status }] of parsed.toolCalls.entries()) {
          if (status === "ok") expect(seen.told[index]).toEqual([name, text])
          expect(tokenizer.decode(completion.slice(...span))).toBe(source)
        }
      }),
      { numRuns: 1000 }
    )
  })

  it("TOK-12: half a character waits for its other half, and is none where a marker or the end comes first", () => {
    const [first, second] = [195, 169]
    const parser = chatml.parser({ promptIds: ids("<|im_start|>assistant\n<think>\n\n</think>\n\n") })
    expect(parser.push(first)).toEqual([])
    expect(parser.push(second)).toEqual([{ type: "content", text: "é" }])
    expect(parser.push(first)).toEqual([])
    expect(parser.finish().parsed.message.content).toBe("é\ufffd")
    const cut = chatml.parse(
      Int32Array.from([...ids("<think>"), first, ...ids("</think>ok"), first, ...ids("<|im_end|>")])
    )
    expect(cut.message).toEqual({ role: "assistant", content: "ok\ufffd", reasoningContent: "\ufffd" })
  })

  it("text comes out as it arrives, and a call when it is closed", () => {
    const parser = chatml.parser({ promptIds: ids("<|im_start|>assistant\n<think>\n\n</think>\n\n") })
    const types = [...ids(`hi ${ls}`)].map((id) => parser.push(id).map((event) => event.type))
    expect(types.slice(0, 2)).toEqual([["content"], ["content"]])
    expect(types.at(-1)).toEqual(["toolCallEnd"])
    expect(types.filter((some) => some.includes("toolCallArguments"))).toEqual([
      ["toolCallArguments"],
      ["toolCallArguments"]
    ])
  })
})
