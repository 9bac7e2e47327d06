/** Every renderer with a small vocabulary of its own, in which each byte is a token, and what its format can say. */
import * as Either from "effect/Either"
import type { RendererService } from "../../src/Renderer.ts"
import * as Registry from "../../src/renderers/Registry.ts"
import type { TokenizerService } from "../../src/Tokenizer.ts"
import { makeTokenizer } from "../tokenizer/files.ts"

export interface Family {
  readonly title: string
  readonly tokenizer: TokenizerService
  readonly renderer: RendererService
  /** spellings of the vocabulary's special tokens */
  readonly specials: ReadonlyArray<string>
  readonly reasons: boolean
  /** most calls that one turn samples */
  readonly calls: number
  readonly contentWithCalls: boolean
  /** white space around a body is taken off by the template */
  readonly trims: boolean
  /** history is never rewritten, so that a render extends an earlier one */
  readonly isStable: boolean
  /** reasoning and a marker that closes it are tokens of a turn */
  readonly think: boolean
  /** a call as a model writes it, with the arguments as JSON */
  readonly call: (name: string, json: string) => string
  readonly close: string
}

const chatml = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
const qwen = [...chatml, "<tool_response>", "</tool_response>"]
const glm = [
  ...["<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"],
  ...["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"],
  ...["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"]
]
const deepseek = [
  ...["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>"],
  ...[
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>"
  ],
  ...["<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"]
]
const kimi = [
  ...["<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>", "[EOS]"],
  ...["<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"],
  ...["<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"]
]
const minimax = ["]~!b[", "]~b]", "[e~[", "<think>", "</think>", "<minimax:tool_call>", "</minimax:tool_call>"]
const harmony = [
  ...["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>", "<|endoftext|>"]
]
const llama = [
  ...["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"],
  "<|python_tag|>"
]

/** The values of an object, which must be strings, as elements. */
const members = (json: string) => Object.entries(JSON.parse(json) as Record<string, string>)

const jsonCall = (name: string, json: string) => `<tool_call>\n{"name": "${name}", "arguments": ${json}}\n</tool_call>`
const xmlCall = (name: string, json: string) =>
  `<tool_call>\n<function=${name}>\n${members(json)
    .map(([key, value]) => `<parameter=${key}>\n${value}\n</parameter>\n`)
    .join("")}</function>\n</tool_call>`
const pairCall = (name: string, json: string) =>
  `<tool_call>${name}${members(json)
    .map(([key, value]) => `<arg_key>${key}</arg_key><arg_value>${value}</arg_value>`)
    .join("")}</tool_call>`
const miniMaxCall = (name: string, json: string) =>
  `\n<minimax:tool_call>\n<invoke name="${name}">\n${members(json)
    .map(([key, value]) => `<parameter name="${key}">${value}</parameter>\n`)
    .join("")}</invoke>\n</minimax:tool_call>`
const deepSeekCall = (name: string, json: string) =>
  `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n${json}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`
const kimiCall = (name: string, json: string) =>
  `<|tool_calls_section_begin|><|tool_call_begin|>functions.${name}:0<|tool_call_argument_begin|>${json}<|tool_call_end|><|tool_calls_section_end|>`
const llamaCall = (name: string, json: string) => `{"name": "${name}", "parameters": ${json}}`
const harmonyCall = (name: string, json: string) =>
  `<|start|>assistant to=functions.${name}<|channel|>commentary<|message|>${json}`

const parts = (specials: ReadonlyArray<string>) => ({
  specials,
  tokenizer: makeTokenizer({
    specials,
    words: ["user", "assistant", "system", "tool"],
    merges: [
      ["\n", "\n"],
      [">", "\n"],
      [".", "\n"],
      ["h", "i"]
    ]
  })
})

const family = (
  name: string,
  specials: ReadonlyArray<string>,
  says: Partial<Family> & Pick<Family, "call" | "close">,
  config: Readonly<Record<string, unknown>> = {}
): Family => {
  const made = parts(specials)
  return {
    ...{ title: `${name} ${JSON.stringify(config)}`, reasons: true, calls: 3, contentWithCalls: true, trims: false },
    ...{ isStable: false, think: true },
    ...made,
    renderer: Either.getOrThrow(Registry.make(name, { tokenizer: made.tokenizer, source: undefined }, config)),
    ...says
  }
}

const off = { enableThinking: false }

export const families: ReadonlyArray<Family> = [
  family("chatml", qwen, { call: jsonCall, close: "<|im_end|>", isStable: true }),
  family("qwen3", qwen, { call: jsonCall, close: "<|im_end|>" }),
  family("qwen3", qwen, { call: jsonCall, close: "<|im_end|>", reasons: false, isStable: true }, off),
  family("prime-qwen3", qwen, { call: xmlCall, close: "<|im_end|>", isStable: true }),
  family("qwen3.5", qwen, { call: xmlCall, close: "<|im_end|>", trims: true }),
  family("qwen3.6", qwen, { call: xmlCall, close: "<|im_end|>", trims: true }, { preserveThinking: true }),
  family("qwen3.5", qwen, { call: xmlCall, close: "<|im_end|>", trims: true, reasons: false, isStable: true }, off),
  family("glm-4.5", glm, { call: pairCall, close: "<|user|>", trims: true }),
  family("glm-4.5", glm, { call: pairCall, close: "<|user|>", trims: true, reasons: false }, off),
  family("glm-5", glm, { call: pairCall, close: "<|user|>", trims: true }),
  family("glm-5", glm, { call: pairCall, close: "<|user|>", trims: true }, { clearThinking: false }),
  family("glm-5.1", glm, { call: pairCall, close: "<|user|>", trims: true }),
  family("deepseek-v3", deepseek, {
    ...{ call: deepSeekCall, close: "<｜end▁of▁sentence｜>", reasons: false, isStable: true, think: false }
  }),
  family("deepseek-r1", deepseek, { call: deepSeekCall, close: "<｜end▁of▁sentence｜>" }),
  family("kimi-k2", kimi, { call: kimiCall, close: "<|im_end|>", reasons: false, isStable: true, think: false }),
  family("minimax-m2", minimax, { call: miniMaxCall, close: "[e~[" }),
  family("gpt-oss", harmony, { call: harmonyCall, close: "<|call|>", calls: 1, think: false }),
  family(
    "gpt-oss",
    harmony,
    { call: harmonyCall, close: "<|call|>", calls: 1, think: false },
    { autoDropAnalysis: false }
  ),
  family("llama-3", llama, {
    ...{ call: llamaCall, close: "<|eot_id|>", reasons: false, calls: 1, contentWithCalls: false, trims: true },
    ...{ isStable: true, think: false }
  })
]

/** Ids in which every marker that is spelled is its special token, as a model samples it. */
export const idsOf = ({ specials, tokenizer }: Pick<Family, "specials" | "tokenizer">, text: string): Int32Array => {
  const longest = [...specials].sort((left, right) => right.length - left.length)
  const pattern = new RegExp(`(${longest.map((one) => one.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`)
  return Int32Array.from(
    text
      .split(pattern)
      .flatMap((part, index) => (index % 2 === 1 ? tokenizer.special(part)! : [...tokenizer.encode(part).ids]))
  )
}
