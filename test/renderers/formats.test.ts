/** The words of each format, token by token as text, on a conversation that has everything. */
import * as Either from "effect/Either"
import { describe, expect, it } from "vitest"
import type { Message, ToolSpec } from "../../src/Message.ts"
import * as Registry from "../../src/renderers/Registry.ts"
import { families, idsOf } from "./families.ts"

const vocabularyOf = (name: string) => families.find(({ renderer }) => renderer.name === name)!
const rendererOf = (name: string, config: Readonly<Record<string, unknown>> = {}) =>
  Either.getOrThrowWith(
    Registry.make(name, { tokenizer: vocabularyOf(name).tokenizer, source: undefined }, config),
    (error) => error
  )

const tool: ToolSpec = {
  name: "f",
  description: "Does é.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
}
const call = { id: "functions.f:0", name: "f", arguments: '{"city": "Oslo", "n": 1.0, "yes": true}' }
const conversation: ReadonlyArray<Message> = [
  { role: "system", content: "S" },
  { role: "user", content: "U" },
  { role: "assistant", content: "C", reasoningContent: "R", toolCalls: [call] },
  { role: "tool", toolCallId: "functions.f:0", name: "f", content: "T" }
]
const withoutReasoning = conversation.map((message): Message => {
  if (message.role !== "assistant") return message
  const { reasoningContent: _, ...rest } = message
  return rest
})
const json =
  '{"type": "function", "function": {"name": "f", "description": "Does é.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}'
const bare = json.slice('{"type": "function", "function": '.length, -1)

const said = (
  name: string,
  messages: ReadonlyArray<Message>,
  options: { readonly config?: Readonly<Record<string, unknown>>; readonly tools?: ReadonlyArray<ToolSpec> } = {}
) => {
  const { tokenizer } = vocabularyOf(name)
  const rendered = rendererOf(name, options.config).render(messages, {
    tools: options.tools,
    addGenerationPrompt: true
  })
  return tokenizer.decode(rendered.tokenIds)
}

const xmlCall = (yes: string) =>
  `<tool_call>\n<function=f>\n<parameter=city>\nOslo\n</parameter>\n<parameter=n>\n1.0\n</parameter>\n<parameter=yes>\n${yes}\n</parameter>\n</function>\n</tool_call>`
const qwenTool = "<|im_start|>user\n<tool_response>\nT\n</tool_response><|im_end|>\n<|im_start|>assistant\n"

describe("a conversation with reasoning, a call and its result", () => {
  it.each<[string, string, Readonly<Record<string, unknown>>]>([
    [
      "qwen3.5",
      `<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n<think>\nR\n</think>\n\nC\n\n${xmlCall("True")}<|im_end|>\n${qwenTool}<think>\n`,
      {}
    ],
    [
      "qwen3.6",
      `<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n<think>\nR\n</think>\n\nC\n\n${xmlCall("true")}<|im_end|>\n${qwenTool}<think>\n\n</think>\n\n`,
      { enableThinking: false }
    ],
    [
      "glm-5",
      "[gMASK]<sop><|system|>S<|user|>U<|assistant|><think>R</think>C<tool_call>f<arg_key>city</arg_key><arg_value>Oslo</arg_value><arg_key>n</arg_key><arg_value>1.0</arg_value><arg_key>yes</arg_key><arg_value>true</arg_value></tool_call><|observation|><tool_response>T</tool_response><|assistant|><think>",
      {}
    ],
    [
      "glm-4.5",
      "[gMASK]<sop><|system|>\nS<|user|>\nU<|assistant|>\n<think>R</think>\nC\n<tool_call>f\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>n</arg_key>\n<arg_value>1.0</arg_value>\n<arg_key>yes</arg_key>\n<arg_value>true</arg_value>\n</tool_call><|observation|>\n<tool_response>\nT\n</tool_response><|assistant|>",
      {}
    ],
    [
      "minimax-m2",
      ']~!b[]~b]system\nS[e~[\n]~b]user\nU[e~[\n]~b]ai\n<think>\nR\n</think>\n\nC\n<minimax:tool_call>\n<invoke name="f">\n<parameter name="city">Oslo</parameter>\n<parameter name="n">1.0</parameter>\n<parameter name="yes">true</parameter>\n</invoke>\n</minimax:tool_call>[e~[\n]~b]tool\n<response>T</response>[e~[\n]~b]ai\n<think>\n',
      {}
    ],
    [
      "gpt-oss",
      '<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date: 2025-01-15\n\nReasoning: high\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|><|start|>developer<|message|># Instructions\n\nS<|end|><|start|>user<|message|>U<|end|><|start|>assistant<|channel|>analysis<|message|>R<|end|><|start|>assistant<|channel|>commentary<|message|>C<|end|><|start|>assistant to=functions.f<|channel|>commentary<|message|>{"city": "Oslo", "n": 1.0, "yes": true}<|call|><|start|>functions.f to=assistant<|channel|>commentary<|message|>T<|end|><|start|>assistant<|channel|>analysis<|message|>',
      { date: "2025-01-15", reasoningEffort: "high" }
    ]
  ])("in %s", (name, text, config) => {
    expect(said(name, conversation, { config })).toBe(text)
  })

  it.each<[string, string]>([
    [
      "deepseek-v3",
      '<｜begin▁of▁sentence｜>S<｜User｜>U<｜Assistant｜>C<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"city": "Oslo", "n": 1.0, "yes": true}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜><｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>T<｜tool▁output▁end｜><｜tool▁outputs▁end｜>'
    ],
    [
      "kimi-k2",
      '<|im_system|>system<|im_middle|>S<|im_end|><|im_user|>user<|im_middle|>U<|im_end|><|im_assistant|>assistant<|im_middle|>C<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"city": "Oslo", "n": 1.0, "yes": true}<|tool_call_end|><|tool_calls_section_end|><|im_end|><|im_system|>f<|im_middle|>## Return of functions.f:0\nT<|im_end|><|im_assistant|>assistant<|im_middle|>'
    ]
  ])("in %s, which has no place for reasoning and says so", (name, text) => {
    expect(said(name, withoutReasoning)).toBe(text)
    expect(() => said(name, conversation)).toThrow("message 2 has reasoning, which this format has no place for")
  })

  it("in llama-3, with a call alone and a result as a JSON string", () => {
    const messages = withoutReasoning.map((message) =>
      message.role === "assistant" ? { ...message, content: null } : message
    )
    expect(said("llama-3", messages)).toBe(
      '<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n{"name": "f", "parameters": {"city": "Oslo", "n": 1.0, "yes": true}}<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\n"T"<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n'
    )
    expect(() => said("llama-3", withoutReasoning)).toThrow("one or the other")
  })
})

describe("tools", () => {
  const asked: ReadonlyArray<Message> = [{ role: "user", content: "U" }]

  it.each<[string, string]>([
    [
      "qwen3.5",
      `<|im_start|>system\n# Tools\n\nYou have access to the following functions:\n\n<tools>\n${json}\n</tools>\n\nIf you choose`
    ],
    [
      "glm-5",
      `[gMASK]<sop><|system|>\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>\n${json}\n</tools>\n\nFor each`
    ],
    ["glm-5.1", `</tools> XML tags:\n<tools>\n${bare}\n</tools>\n\nFor each`],
    [
      "minimax-m2",
      `]~!b[]~b]system\nYou are a helpful assistant.\n\n# Tools\nYou may call one or more tools to assist with the user query.\nHere are the tools available in JSONSchema format:\n\n<tools>\n<tool>${bare}</tool>\n</tools>\n\nWhen making`
    ],
    [
      "kimi-k2",
      '<|im_system|>tool_declare<|im_middle|>[{"function":{"description":"Does é.","name":"f","parameters":{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"}},"type":"function"}]<|im_end|><|im_system|>system<|im_middle|>You are Kimi, an AI assistant created by Moonshot AI.<|im_end|>\n<|im_user|>user'
    ],
    [
      "gpt-oss",
      "functions'.<|end|><|start|>developer<|message|># Tools\n\n## functions\n\nnamespace functions {\n\n// Does é.\ntype f = (_: {\ncity: string,\n}) => any;\n\n} // namespace functions<|end|><|start|>user"
    ]
  ])("stand in %s as its template has them", (name, text) => {
    expect(said(name, asked, { tools: [tool] })).toContain(text)
  })

  it("are not part of DeepSeek's format: who wants them known says so in the system message", () => {
    expect(said("deepseek-v3", asked, { tools: [tool] })).toBe(said("deepseek-v3", asked))
  })

  it("stand in Llama's first message of the user, or in its system message", () => {
    expect(said("llama-3", asked, { tools: [tool] })).toMatch(
      /Environment: ipython[\s\S]*user<\|end_header_id\|>\n\nGiven the/
    )
    const system = said("llama-3", asked, { tools: [tool], config: { toolPlacement: "system" } })
    expect(system).toMatch(/Today Date: 26 Jul 2024\n\nYou have access to the following functions\. /)
    expect(() => said("llama-3", [{ role: "assistant", content: "a" }], { tools: [tool] })).toThrow("toolPlacement")
  })

  it("have TypeScript types in harmony", () => {
    const parameters = {
      type: "object",
      properties: {
        q: { type: "string", description: "what\nto find" },
        unit: { type: "string", enum: ["a", "b"], default: "a" },
        n: { type: "integer", default: 3 },
        tags: { type: "array", items: { type: "string" } },
        any: {},
        maybe: { type: ["string", "null"] },
        either: { anyOf: [{ type: "number" }, { type: "boolean" }] }
      },
      required: ["q"]
    }
    expect(
      said("gpt-oss", asked, {
        tools: [
          { name: "g", parameters },
          { name: "h", parameters: {} }
        ]
      })
    ).toContain(
      'namespace functions {\n\ntype g = (_: {\n// what\n// to find\nq: string,\nunit?: "a" | "b", // default: a\nn?: number, // default: 3\ntags?: string[],\nany?: any,\nmaybe?: string | null,\neither?: number | boolean,\n}) => any;\n\ntype h = () => any;\n\n} // namespace functions'
    )
  })
})

describe("reasoning in history", () => {
  const twice: ReadonlyArray<Message> = [
    { role: "user", content: "1" },
    { role: "assistant", content: "A", reasoningContent: "old" },
    { role: "user", content: "2" },
    { role: "assistant", content: "B", reasoningContent: "new" }
  ]
  const kept = (name: string, config: Readonly<Record<string, unknown>> = {}) => {
    const { tokenizer } = vocabularyOf(name)
    const text = tokenizer.decode(rendererOf(name, config).render(twice).tokenIds)
    return [text.includes("old"), text.includes("new")]
  }

  it.each<[string, Readonly<Record<string, unknown>>, [boolean, boolean]]>([
    ["chatml", {}, [true, true]],
    ["qwen3", {}, [false, true]],
    ["qwen3.5", {}, [false, true]],
    ["qwen3.6", { preserveThinking: true }, [true, true]],
    ["glm-4.5", {}, [false, true]],
    ["glm-5", {}, [false, true]],
    ["glm-5", { clearThinking: false }, [true, true]],
    ["deepseek-r1", {}, [false, true]],
    ["minimax-m2", {}, [false, true]],
    ["gpt-oss", {}, [false, false]],
    ["gpt-oss", { autoDropAnalysis: false }, [true, true]]
  ])("%s %j", (name, config, expected) => {
    expect(kept(name, config)).toEqual(expected)
  })

  /** whether a tool's result and a new question extend the turn before them */
  const bridges = (name: string, config: Readonly<Record<string, unknown>>) => {
    const family = vocabularyOf(name)
    const renderer = rendererOf(name, config)
    const prompt = renderer.render([{ role: "user", content: "1" }], { addGenerationPrompt: true }).tokenIds
    const deltas: ReadonlyArray<ReadonlyArray<Message>> = [
      [{ role: "tool", toolCallId: "functions.f:0", name: "f", content: "T" }],
      [{ role: "user", content: "2" }]
    ]
    const thought = renderer.parse(new Int32Array(), { promptIds: prompt }).reasoningComplete === false
    const closed = thought && family.think ? "r</think>a" : "a"
    return deltas.map((delta) => {
      const turn = name.startsWith("glm") ? (delta[0]!.role === "user" ? "<|user|>" : "<|observation|>") : family.close
      const body =
        name === "gpt-oss" ? "r<|end|><|start|>assistant<|channel|>final<|message|>a<|return|>" : closed + turn
      return renderer.bridge(prompt, idsOf(family, body), delta) !== undefined
    })
  }

  it.each<[string, Readonly<Record<string, unknown>>, [tool: boolean, question: boolean]]>([
    ["chatml", {}, [true, true]],
    ["qwen3", {}, [true, false]],
    ["prime-qwen3", {}, [true, true]],
    ["qwen3", { enableThinking: false }, [true, true]],
    ["qwen3", { thinkingRetention: "all" }, [true, true]],
    ["qwen3", { enableThinking: false, thinkingRetention: "tool_cycle" }, [true, false]],
    ["qwen3.5", {}, [true, false]],
    ["qwen3.5", { enableThinking: false }, [true, true]],
    ["qwen3.6", {}, [true, false]],
    ["qwen3.6", { preserveThinking: true }, [true, true]],
    ["glm-4.5", {}, [true, false]],
    ["glm-4.5", { enableThinking: false }, [true, true]],
    ["glm-5", {}, [true, false]],
    ["glm-5", { clearThinking: false }, [true, true]],
    ["glm-5.1", { enableThinking: false }, [true, true]],
    ["minimax-m2", {}, [true, false]],
    ["minimax-m2", { thinkingRetention: "all" }, [true, true]],
    ["deepseek-v3", {}, [true, true]],
    ["deepseek-r1", {}, [false, false]],
    ["kimi-k2", {}, [true, true]],
    ["llama-3", {}, [true, true]],
    ["gpt-oss", {}, [true, false]],
    ["gpt-oss", { autoDropAnalysis: false }, [true, true]]
  ])("%s %j: a bridge keeps to it", (name, config, expected) => {
    expect(bridges(name, config)).toEqual(expected)
  })

  it.each<[string, Readonly<Record<string, unknown>>]>([
    ["qwen3.6", { preserveThinking: true, thinkingRetention: "tool_cycle" }],
    ["glm-5", { clearThinking: false, thinkingRetention: "tool_cycle" }],
    ["gpt-oss", { autoDropAnalysis: false, thinkingRetention: "tool_cycle" }]
  ])("%s %j contradicts itself", (name, config) => {
    expect(() => rendererOf(name, config)).toThrow("contradicts")
  })
})

describe("a cut turn is closed as context", () => {
  const cut = (name: string, completion: string, config: Readonly<Record<string, unknown>> = {}) => {
    const family = vocabularyOf(name)
    const renderer = rendererOf(name, config)
    const prompt = renderer.render([{ role: "user", content: "1" }], { addGenerationPrompt: true }).tokenIds
    const completionIds = idsOf(family, completion)
    const delta: ReadonlyArray<Message> = [{ role: "tool", toolCallId: "x", name: "f", content: "T" }]
    const bridged = renderer.bridge(prompt, completionIds, delta)
    if (bridged === undefined) return undefined
    return family.tokenizer.decode(bridged.tokenIds.subarray(prompt.length + completionIds.length))
  }

  it.each<[string, string, RegExp]>([
    ["qwen3.5", "Adding th", /^\n<\/think>\n\n<\|im_end\|>\n<\|im_start\|>user\n<tool_response>/],
    ["glm-5", "Adding th", /^<\/think><\|endoftext\|><\|observation\|><tool_response>/],
    ["glm-5", "r</think>the an", /^<\|endoftext\|><\|observation\|><tool_response>/],
    ["minimax-m2", "Adding th", /^\n<\/think>\n\n\[e~\[\n\]~b\]tool\n<response>/],
    ["gpt-oss", "Adding th", /^<\|end\|><\|start\|>functions\.f to=assistant/],
    ["gpt-oss", "r<|end|>", /^<\|start\|>functions\.f to=assistant/],
    ["kimi-k2", "the an", /^<\|im_end\|><\|im_system\|>f<\|im_middle\|>/],
    ["llama-3", "the an", /^<\|eot_id\|><\|start_header_id\|>ipython/],
    ["deepseek-v3", "the an", /^<｜end▁of▁sentence｜><｜tool▁outputs▁begin｜>/]
  ])("REND-01: %s after %j", (name, completion, expected) => {
    expect(cut(name, completion)).toMatch(expected)
  })

  it("gpt-oss declines one that was cut inside a header", () => {
    expect(cut("gpt-oss", "r<|end|><|start|>assistant<|chan")).toBeUndefined()
    expect(cut("gpt-oss", "r<|end|><|start|>assistant")).toBeUndefined()
  })

  it("GLM declines a result where the model handed over to the user, and writes no marker twice", () => {
    expect(cut("glm-5", "r</think>a<|user|>")).toBeUndefined()
    expect(cut("glm-5", "r</think>a<|observation|>")).toBe("<tool_response>T</tool_response><|assistant|><think>")
  })

  it("a stop that was sampled inside reasoning is no turn to go on from", () => {
    expect(cut("qwen3.5", "Adding<|im_end|>")).toBeUndefined()
    expect(cut("gpt-oss", "Adding<|return|>")).toBeUndefined()
  })
})

it("GLM-4.5: every call begins a line, with content before it or without", () => {
  for (const content of ["C", null]) {
    const text = said("glm-4.5", [{ role: "assistant", content, toolCalls: [call, { ...call, arguments: "{}" }] }])
    expect(text).toContain(content === null ? "<think></think>\n<tool_call>f\n" : "<think></think>\nC\n<tool_call>f\n")
    expect(text).toContain("</tool_call>\n<tool_call>f\n</tool_call>")
  }
})

it("GLM: the marker after an assistant's turn is what the model writes to end it", () => {
  const { tokenizer } = vocabularyOf("glm-5")
  const rendered = rendererOf("glm-5").render([
    ...conversation,
    { role: "assistant", content: "A" },
    { role: "user", content: "2" }
  ])
  const markers = [...rendered.tokenIds.keys()].filter(
    (at) => rendered.sampledMask[at] === 1 && rendered.isContent[at] === 0
  )
  expect(markers.map((at) => [tokenizer.decode([rendered.tokenIds[at]!]), rendered.messageIndices[at]])).toEqual([
    ["<|observation|>", 3],
    ["<|user|>", 5]
  ])
})
