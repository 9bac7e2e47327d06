/**
 * Which renderer a model needs. Its chat template decides: by its hash, or by what only one family's template says; any
 * other template is rendered as it is. A model without a template is known by its name or by special tokens that only one
 * family has. What is not recognised is no guess, since a wrong format trains silently on the wrong tokens.
 */
import { createHash } from "node:crypto"
import type { TokenizerService } from "../Tokenizer.ts"

/** What was recognised. @category model */
export type MatchedBy =
  | "given name"
  | "template hash"
  | "template"
  | "template of its own"
  | "model name"
  | "family prefix"
  | "special tokens"

/** A renderer, and why it is the one. @category model */
export interface Detected {
  readonly name: string
  readonly options?: Readonly<Record<string, unknown>> | undefined
  readonly matchedBy: MatchedBy
}

/** sha256 of templates as they are shipped. */
const hashes: ReadonlyMap<string, Omit<Detected, "matchedBy">> = new Map([
  ["87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5", { name: "qwen3" }],
  [
    "b48c47f6443892716176eb200bf4ef108f64e06ca26ed0fa8ebc0a4b3992fcb2",
    { name: "llama-3", options: { preamble: false } }
  ],
  ["3b8267e54b67df6500f231ffa969955cc9d26b3444a291ced4eb96ca7d3ca1ea", { name: "deepseek-v3" }]
])

/** the template's spoken parts: string literals, and text outside of tags */
const literals = (template: string): string => {
  const outside = template.replace(/\{%[\s\S]*?%\}|\{\{[\s\S]*?\}\}|\{#[\s\S]*?#\}/g, "")
  const quoted = template.match(/'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/g) ?? []
  return [...quoted.map((text) => text.slice(1, -1)), outside].join("\n")
}

/** nothing is said but the frame, every turn closes with a line break, and no text is trimmed */
const isChatMl = (template: string): boolean => {
  const joined = template.replace(/['"]\s*\+\s*['"]/g, "")
  const rest = literals(template).replace(
    /<\|im_(?:start|end)\|>|\\n|\b(?:system|user|assistant|tool|role|content)\b|\s/g,
    ""
  )
  return (
    rest === "" &&
    joined.includes("<|im_start|>assistant\\n") &&
    /<\|im_end\|>\\n/.test(joined) &&
    !/<\|im_end\|>(?!\\n)/.test(joined) &&
    !/trim|strip|replace|upper|lower/.test(template)
  )
}

interface Family {
  readonly name: string
  readonly options?: Readonly<Record<string, unknown>> | undefined
  /** what the template must say, and must not */
  readonly says: ReadonlyArray<string>
  readonly never?: RegExp | undefined
}

const afterQuestion = "loop.index0 > ns.last_query_index"

/** The first that fits is the one. */
const families: ReadonlyArray<Family> = [
  {
    name: "qwen3",
    says: ["reasoning_content", "enable_thinking", afterQuestion, "<tool_response>", "<args-json-object>"],
    never: /<function=|You are (?!provided with function)/
  },
  {
    name: "qwen3.6",
    says: ["<function=example_function_name>", "enable_thinking", "preserve_thinking", "<IMPORTANT>", afterQuestion]
  },
  {
    name: "qwen3.5",
    says: ["<function=example_function_name>", "enable_thinking", "<IMPORTANT>", afterQuestion]
  },
  { name: "glm-4.5", says: ["[gMASK]<sop>", "<arg_key>", "/nothink", "<|observation|>"] },
  { name: "glm-5.1", says: ["[gMASK]<sop>", "<arg_key>", "clear_thinking", "defer_loading"], never: /Effort/ },
  { name: "glm-5", says: ["[gMASK]<sop>", "<arg_key>", "clear_thinking"], never: /Effort/ },
  { name: "minimax-m2", says: ["]~b]", "<minimax:tool_call>", "<invoke name="] },
  { name: "kimi-k2", says: ["<|im_middle|>", "tool_declare", "<|im_assistant|>"], never: /<think>/ },
  { name: "gpt-oss", says: ["<|channel|>", "<|start|>", "namespace ", "Valid channels"] },
  { name: "llama-3", says: ["<|start_header_id|>", "Cutting Knowledge Date", "tools_in_user_message"] },
  {
    name: "llama-3",
    options: { preamble: false },
    says: ["<|start_header_id|>", "<|eot_id|>", "| trim"],
    never: /Cutting Knowledge|tools|ipython/
  },
  { name: "deepseek-r1", says: ["<｜tool▁calls▁begin｜>", "<｜Assistant｜><think>"] },
  { name: "deepseek-v3", says: ["<｜tool▁calls▁begin｜>", "<｜Assistant｜>"], never: /think/ }
]

/** The renderer that reproduces a chat template, if there is one. @category detection */
export const ofTemplate = (template: string): Detected | undefined => {
  const known = hashes.get(createHash("sha256").update(template).digest("hex"))
  if (known !== undefined) return { ...known, matchedBy: "template hash" }
  const family = families.find(
    ({ never, says }) => says.every((part) => template.includes(part)) && never?.test(template) !== true
  )
  if (family !== undefined) return { name: family.name, options: family.options, matchedBy: "template" }
  return isChatMl(template) ? { name: "chatml", matchedBy: "template" } : undefined
}

const models: ReadonlyMap<string, string> = new Map(
  Object.entries({
    qwen3: [
      ...["0.6B", "1.7B", "4B", "8B", "14B", "32B", "30B-A3B", "235B-A22B"].map((size) => `Qwen/Qwen3-${size}`),
      ...["4B", "30B-A3B"].flatMap((size) => [`Qwen/Qwen3-${size}-Instruct-2507`, `Qwen/Qwen3-${size}-Thinking-2507`])
    ],
    "prime-qwen3": ["PrimeIntellect/Qwen3-0.6B", "PrimeIntellect/Qwen3-1.7B"],
    "qwen3.5": ["0.8B", "2B", "4B", "9B", "35B-A3B", "122B-A10B", "397B-A17B"].map((size) => `Qwen/Qwen3.5-${size}`),
    "qwen3.6": ["Qwen/Qwen3.6-35B-A3B"],
    "glm-4.5": ["THUDM/GLM-4.5-Air", "zai-org/GLM-4.5-Air"],
    "glm-5": ["zai-org/GLM-5", "zai-org/GLM-5-FP8", "zai-org/GLM-4.7-Flash"],
    "glm-5.1": ["zai-org/GLM-5.1"],
    "deepseek-v3": ["deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3-Base"],
    "deepseek-r1": ["deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-R1-0528"],
    "kimi-k2": ["moonshotai/Kimi-K2-Instruct"],
    "gpt-oss": ["openai/gpt-oss-20b", "openai/gpt-oss-120b"],
    "llama-3": ["meta-llama/Llama-3.2-1B-Instruct", "meta-llama/Llama-3.2-3B-Instruct"],
    "minimax-m2": ["MiniMaxAI/MiniMax-M2", "MiniMaxAI/MiniMax-M2.5"]
  }).flatMap(([renderer, of]) => of.map((model) => [model.toLowerCase(), renderer] as const))
)

/** Beginnings of model names; the first that fits is the one. */
const prefixes: ReadonlyArray<readonly [prefix: RegExp, renderer: string]> = [
  [/^qwen3\.5\b/, "qwen3.5"],
  [/^qwen3\.6\b/, "qwen3.6"],
  [/^qwen3-(?!vl|coder|next|omni|embedding|reranker)/, "qwen3"],
  [/^glm-4\.[56]\b/, "glm-4.5"],
  [/^glm-5\.1\b/, "glm-5.1"],
  [/^glm-(5|4\.7)(?![.\d])/, "glm-5"],
  [/^deepseek-r1(?!-distill)/, "deepseek-r1"],
  [/^deepseek-v3(?![.\d])/, "deepseek-v3"],
  [/^kimi-k2-instruct/, "kimi-k2"],
  [/^gpt-oss\b/, "gpt-oss"],
  [/^(meta-)?llama-3/, "llama-3"],
  [/^minimax-m2\b/, "minimax-m2"]
]

/** The renderer of a model that is called so, as "Qwen/Qwen3-8B" or by its last part. @category detection */
export const ofName = (model: string): Detected | undefined => {
  const name = model.toLowerCase()
  const exact = models.get(name)
  if (exact !== undefined) return { name: exact, matchedBy: "model name" }
  const last = name.split("/").at(-1) ?? name
  const found = prefixes.find(([prefix]) => prefix.test(last))
  return found === undefined ? undefined : { name: found[1], matchedBy: "family prefix" }
}

const tokens: ReadonlyArray<readonly [renderer: string, tokens: ReadonlyArray<string>]> = [
  ["gpt-oss", ["<|channel|>", "<|message|>", "<|return|>", "<|call|>"]],
  ["llama-3", ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]],
  ["kimi-k2", ["<|im_middle|>", "<|im_assistant|>", "<|tool_calls_section_begin|>"]],
  ["minimax-m2", ["]~b]", "[e~[", "<minimax:tool_call>"]],
  ["deepseek-v3", ["<｜User｜>", "<｜Assistant｜>", "<｜tool▁calls▁begin｜>"]]
]

/** The renderer of a vocabulary that only one family has. @category detection */
export const ofTokens = (tokenizer: TokenizerService): Detected | undefined => {
  const found = tokens.find(([, all]) => all.every((token) => tokenizer.special(token) !== undefined))
  return found === undefined ? undefined : { name: found[0], matchedBy: "special tokens" }
}
