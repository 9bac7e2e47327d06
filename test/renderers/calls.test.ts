/** Tool calls that are well formed, and all the ways in which they are not, in each way of writing them. */
import * as Either from "effect/Either"
import { describe, expect, it } from "vitest"
import type { ToolSpec } from "../../src/Message.ts"
import * as Registry from "../../src/renderers/Registry.ts"
import * as ToolSpecs from "../../src/renderers/ToolSpecs.ts"
import { makeTokenizer } from "../tokenizer/files.ts"
import { families, idsOf } from "./families.ts"

const parse = (name: string, text: string, tools?: ReadonlyArray<ToolSpec>, prompt?: string) => {
  const family = families.find(({ renderer }) => renderer.name === name)!
  return family.renderer.parse(idsOf(family, text), {
    tools,
    promptIds: prompt === undefined ? undefined : idsOf(family, prompt)
  })
}
const statuses = (name: string, text: string, tools?: ReadonlyArray<ToolSpec>) =>
  parse(name, text, tools).toolCalls.map(({ status }) => status)
const valuesOf = (name: string, text: string, tools?: ReadonlyArray<ToolSpec>): unknown =>
  JSON.parse(parse(name, text, tools).toolCalls[0]!.arguments!)

const known: ReadonlyArray<ToolSpec> = [
  {
    name: "f",
    parameters: {
      type: "object",
      properties: {
        flag: { type: "boolean" },
        n: { type: "integer" },
        s: { type: "string" },
        o: { anyOf: [{ type: "integer" }, { type: "null" }] },
        list: { type: "array" },
        maybe: { type: ["string", "null"] },
        free: {}
      }
    }
  }
]

const xml = (values: Readonly<Record<string, string>>) =>
  `<tool_call>\n<function=f>\n${Object.entries(values)
    .map(([key, value]) => `<parameter=${key}>\n${value}\n</parameter>\n`)
    .join("")}</function>\n</tool_call>`
const pairs = (values: Readonly<Record<string, string>>) =>
  `<tool_call>f${Object.entries(values)
    .map(([key, value]) => `<arg_key>${key}</arg_key><arg_value>${value}</arg_value>`)
    .join("")}</tool_call>`
const miniMax = (values: Readonly<Record<string, string>>) =>
  `<minimax:tool_call>\n<invoke name="f">\n${Object.entries(values)
    .map(([key, value]) => `<parameter name="${key}">${value}</parameter>\n`)
    .join("")}</invoke>\n</minimax:tool_call>`

describe.each([
  ["qwen3.5", xml],
  ["glm-5", pairs],
  ["glm-4.5", pairs],
  ["minimax-m2", miniMax]
] as const)("values as text, %s", (name, write) => {
  it("REND-06: the schema says what a value is; without it all are strings", () => {
    const values = { flag: "True", n: "5", s: "123", o: "null" }
    expect(valuesOf(name, write(values), known)).toEqual({ flag: true, n: 5, s: "123", o: null })
    expect(valuesOf(name, write(values))).toEqual(values)
    expect(valuesOf(name, write({ s: "007" }), known)).toEqual({ s: "007" })
    expect(valuesOf(name, write({ flag: "false", o: "7", list: '[1, "a"]' }), known)).toEqual({
      ...{ flag: false, o: 7, list: [1, "a"] }
    })
  })

  it("strings that look like something else stay strings, where a string is allowed", () => {
    for (const text of ["true", "42", "null", "[1,2,3]", '"quoted"', "None"]) {
      expect(valuesOf(name, write({ s: text }), known)).toEqual({ s: text })
    }
    expect(valuesOf(name, write({ maybe: "null" }), known)).toEqual({ maybe: null })
    expect(valuesOf(name, write({ maybe: "5" }), known)).toEqual({ maybe: "5" })
    expect(valuesOf(name, write({ free: "5" }), known)).toEqual({ free: 5 })
    expect(valuesOf(name, write({ free: "five" }), known)).toEqual({ free: "five" })
    expect(valuesOf(name, write({ other: "5" }), known)).toEqual({ other: "5" })
  })

  it("a value that its schema does not allow is an attempt, with what was written", () => {
    const parsed = parse(name, write({ n: "five" }), known)
    expect(parsed.toolCalls.map(({ arguments: text, status }) => [status, text])).toEqual([
      ["invalid_json", '{"n": "five"}']
    ])
    expect(parsed.message.toolCalls).toBeUndefined()
  })

  it("numbers keep their digits, and strings their line breaks, quotes and backslashes", () => {
    expect(parse(name, write({ n: "12345678901234567890", free: "1.0" }), known).toolCalls[0]!.arguments).toBe(
      '{"n": 12345678901234567890, "free": 1.0}'
    )
    const text = 'a\n\n "b" \\n <c> é😀 '
    expect(valuesOf(name, write({ s: text }), known)).toEqual({ s: text })
    expect(valuesOf(name, write({ s: "" }), known)).toEqual({ s: "" })
    expect(valuesOf(name, write({}), known)).toEqual({})
  })

  it("an argument that is there twice leaves open which one counts", () => {
    const once = write({ s: "a" })
    const piece = /(<parameter[\s\S]*<\/parameter>\n|<arg_key>[\s\S]*<\/arg_value>)/.exec(once)![1]!
    expect(statuses(name, once.replace(piece, piece + piece), known)).toEqual(["malformed_structure"])
  })
})

describe("REND-04: a value that spells its own end", () => {
  it("is read whole where what follows shows that it goes on", () => {
    expect(valuesOf("qwen3.5", xml({ s: "echo </parameter> and </function> test" }), known)).toEqual({
      s: "echo </parameter> and </function> test"
    })
    expect(valuesOf("minimax-m2", miniMax({ s: 'say </parameter> "x' }), known)).toEqual({ s: 'say </parameter> "x' })
  })
})

describe("attempts", () => {
  it.each<[string, string, ReadonlyArray<string>, ReadonlyArray<ToolSpec>?]>([
    ["qwen3.5", "<tool_call>\nf()\n</tool_call>", ["malformed_structure"]],
    ["qwen3.5", "<tool_call>\n<function=>\n</function>\n</tool_call>", ["missing_name"]],
    ["qwen3.5", "<tool_call>\n<function=f>\n<parameter=a>\nx\n</function>\n</tool_call>", ["malformed_structure"]],
    ["qwen3.5", "<tool_call>\n<function=f>\n</function>\nand more\n</tool_call>", ["malformed_structure"]],
    ["qwen3.5", "<tool_call>\n<function=f>\n<parameter=a>\nx", ["unclosed_block"]],
    ["qwen3.5", `${xml({ s: "1" })}\n${xml({ s: "2" })}`, ["ok", "ok"]],
    ["glm-5", "<tool_call>g</tool_call>", ["unknown_tool"], known],
    ["glm-5", "<tool_call>g</tool_call>", ["ok"]],
    ["glm-5", "<tool_call>f\n<arg_value>x</arg_value></tool_call>", ["unknown_tool"], known],
    ["glm-5", "<tool_call>f\n<arg_value>x</arg_value></tool_call>", ["malformed_structure"]],
    ["glm-5", "<tool_call>f<arg_key>a</arg_key></tool_call>", ["malformed_structure"], known],
    ["glm-5", "<tool_call></tool_call>", ["missing_name"]],
    ["glm-5", "<tool_call>f<arg_key>a</arg_key><arg_value>x", ["unclosed_block"], known],
    ["minimax-m2", "<minimax:tool_call>\nnothing\n</minimax:tool_call>", ["malformed_structure"]],
    ["minimax-m2", '<minimax:tool_call>\n<invoke name="f">\n', ["unclosed_block"]],
    [
      "minimax-m2",
      '<minimax:tool_call>\n<invoke name="f">\n</invoke>\n<invoke name="g">\n</invoke>\n</minimax:tool_call>',
      ["ok", "ok"]
    ],
    [
      "minimax-m2",
      '<minimax:tool_call>\n<invoke name="f">\n</invoke>\n<invoke name="g">\n<para',
      ["ok", "unclosed_block"]
    ],
    ["deepseek-v3", "<｜tool▁calls▁begin｜>x<｜tool▁calls▁end｜>", ["malformed_structure"]],
    [
      "deepseek-v3",
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function f {}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      ["malformed_structure"]
    ],
    [
      "deepseek-v3",
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{,}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      ["invalid_json"]
    ],
    [
      "deepseek-v3",
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      ["missing_name"]
    ],
    // an older template leaves the end of the section out
    [
      "deepseek-v3",
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜><｜end▁of▁sentence｜>",
      ["ok"]
    ],
    [
      "kimi-k2",
      "<|tool_calls_section_begin|><|tool_call_begin|>f<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
      ["missing_name"]
    ],
    [
      "kimi-k2",
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{<|tool_call_end|><|tool_calls_section_end|>",
      ["invalid_json"]
    ],
    [
      "kimi-k2",
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{",
      ["unclosed_block"]
    ],
    ["kimi-k2", "<|tool_calls_section_begin|><|tool_calls_section_end|>", ["malformed_structure"]],
    ["gpt-oss", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>", ["ok"]],
    ["gpt-oss", "<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}<|call|>", ["ok"]],
    ["gpt-oss", "<|channel|>commentary to=functions.f<|message|>{,}<|call|>", ["invalid_json"]],
    ["gpt-oss", "<|channel|>commentary to=functions.f<|message|>{", ["unclosed_block"]],
    ["llama-3", '{"name": "f", "parameters": {"a": 1,}}<|eot_id|>', ["invalid_json"]],
    ["llama-3", '{"name": "f", "parameters": {"a"', ["unclosed_block"]],
    ["llama-3", '<|python_tag|>{"name": "f", "parameters": {}}<|eom_id|>', ["ok"]],
    ["llama-3", '{"name": "g", "parameters": {}}<|eot_id|>', [], known],
    ["llama-3", '{"answer": 5}<|eot_id|>', []],
    ["llama-3", 'The call is {"name": "f", "parameters": {}}<|eot_id|>', []]
  ])("%s %j: %j", (name, text, expected, tools) => {
    expect(statuses(name, text, tools)).toEqual(expected)
  })

  it("what is no call in Llama's format is its content, whole", () => {
    for (const text of ['{"answer": 5}', '{"name": "g", "parameters": {}}', "{", '{"na', ' {"name"']) {
      expect(parse("llama-3", `${text}<|eot_id|>`, known).message.content).toBe(text)
    }
  })

  it("a name without end in Llama's format is content, and is not read again with every token", () => {
    const endless = `{"name": "${"f".repeat(20_000)}`
    expect(parse("llama-3", endless).message.content).toBe(endless)
  })

  it("Kimi's own ids name the tool, and stay", () => {
    const { message } = parse(
      "kimi-k2",
      "a<|tool_calls_section_begin|><|tool_call_begin|>functions.my.tool:7<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|><|im_end|>"
    )
    expect(message).toEqual({
      role: "assistant",
      content: "a",
      toolCalls: [{ id: "functions.my.tool:7", name: "my.tool", arguments: "{}" }]
    })
  })
})

describe("reasoning in each family", () => {
  it("REND-02: what the prompt opened and nothing closed is never content", () => {
    for (const [name, prompt] of [
      ["qwen3.5", "<|im_start|>assistant\n<think>\n"],
      ["glm-5", "<|assistant|><think>"],
      ["minimax-m2", "]~b]ai\n<think>\n"],
      ["deepseek-r1", "<｜Assistant｜><think>\n"],
      ["gpt-oss", "<|start|>assistant<|channel|>analysis<|message|>"]
    ] as const) {
      const { message, reasoningComplete } = parse(name, "Let me work this out", undefined, prompt)
      expect(message).toEqual({ role: "assistant", content: "", reasoningContent: "Let me work this out" })
      expect(reasoningComplete).toBe(false)
    }
  })

  it("REND-03: a call that was drafted in reasoning is none; one that nothing follows ends it, but not in every family", () => {
    const draft = xml({ s: "rm" })
    const both = parse("qwen3.5", `<think>\nmaybe ${draft}\n</think>\n\n${xml({ s: "ls" })}`, known)
    expect(both.message.toolCalls?.map(({ arguments: text }) => text)).toEqual(['{"s": "ls"}'])
    expect(both.message.reasoningContent).toBe(`maybe ${draft}`)
    expect(statuses("qwen3.5", `<think>\nlook\n${draft}`, known)).toEqual(["ok"])
    const r1 = parse("deepseek-r1", "<think>\nlook <｜tool▁calls▁begin｜>", undefined)
    expect([r1.toolCalls, r1.reasoningComplete]).toEqual([[], false])
    const v3 = parse("deepseek-v3", "look at this")
    expect(v3.message).toEqual({ role: "assistant", content: "look at this" })
  })

  it("a marker that the vocabulary lacks is found in the text, over any split", () => {
    const { specials } = families.find(({ renderer }) => renderer.name === "deepseek-v3")!
    const without = specials.filter((one) => !one.includes("think"))
    const tokenizer = makeTokenizer({ specials: without })
    const r1 = Either.getOrThrow(Registry.make("deepseek-r1", { tokenizer, source: undefined }))
    const parsed = r1.parse(idsOf({ specials: without, tokenizer }, "<think>\na < b</think>\n\nc <think> d"), {})
    expect(parsed.message).toEqual({ role: "assistant", content: "c <think> d", reasoningContent: "a < b" })
  })

  it("harmony: a preamble is content, channels are told apart, and unfinished analysis says so", () => {
    const prompt = "<|start|>assistant<|channel|>analysis<|message|>"
    const whole = parse(
      "gpt-oss",
      "think<|end|><|start|>assistant<|channel|>commentary<|message|>First.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
      undefined,
      prompt
    )
    expect(whole.message).toMatchObject({ content: "First.", reasoningContent: "think" })
    expect(whole.message.toolCalls?.map(({ arguments: text, name }) => [name, text])).toEqual([["f", "{}"]])
    expect(whole.reasoningComplete).toBe(true)
    const again = parse("gpt-oss", "a<|end|><|start|>assistant<|channel|>analysis<|message|>b", undefined, prompt)
    expect([again.message.reasoningContent, again.reasoningComplete]).toEqual(["a\nb", false])
  })
})

describe("tool specs", () => {
  const parameters = { type: "object", properties: { city: { type: "string" } } }
  const spec = { name: "f", description: "d", parameters }

  it("five shapes are one", () => {
    const shapes = [
      spec,
      { type: "function", function: spec },
      { type: "function", ...spec },
      { name: "f", description: "d", input_schema: parameters },
      { name: "f", description: "d", inputSchema: parameters },
      { type: "custom", name: "f", description: "d", input_schema: parameters }
    ]
    for (const shape of shapes) expect(Either.getOrThrow(ToolSpecs.normalise([shape]))).toEqual([spec])
    const [read] = Either.getOrThrow(ToolSpecs.normalise([spec]))!
    expect(read!.parameters).not.toBe(parameters)
    expect(Either.getOrThrow(ToolSpecs.normalise([{ ...spec, strict: true }]))).toEqual([{ ...spec, strict: true }])
  })

  it("none and an empty list stay different", () => {
    expect(Either.getOrThrow(ToolSpecs.normalise(null))).toBeUndefined()
    expect(Either.getOrThrow(ToolSpecs.normalise([]))).toEqual([])
  })

  it.each<[unknown, string]>([
    [{ type: "web_search" }, 'tools[1] has the type "web_search"'],
    [{ type: "custom", name: "grep" }, 'tools[1] has the type "custom"'],
    [{ description: "d" }, "tools[1] has no name"],
    [{ name: "" }, "tools[1] has no name"],
    [{ name: "f", description: 3 }, "description that is no string"],
    [{ name: "f", parameters: [] }, "parameters that is no object"],
    [{ name: "f", strict: "yes" }, '"strict" that is neither'],
    [{ name: "f", parameters: {}, inputSchema: { type: "object" } }, "two schemas that differ"],
    [5, "tools[1] is no object"]
  ])("%j is refused by its place", (tool, reason) => {
    const refused = Either.getOrThrow(Either.flip(ToolSpecs.normalise([spec, tool])))
    expect(refused.message).toContain(reason)
  })
})
