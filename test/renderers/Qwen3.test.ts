import { createHash } from "node:crypto"
import { Template } from "@huggingface/jinja"
import { Tokenizer as Reference } from "@huggingface/tokenizers"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import type { Message } from "../../src/Message.ts"
import * as PrimeQwen3 from "../../src/renderers/PrimeQwen3.ts"
import * as Qwen3 from "../../src/renderers/Qwen3.ts"
import { makeTokenizer } from "../tokenizer/files.ts"
import { tokenizerConfig, tokenizerJson, qwen3 as vocabulary } from "../tokenizer/qwen3.ts"
import { ids as idsBy, textWhere as textWhereBy, weather } from "./fixtures.ts"

const tokenizer = vocabulary()
const make = (options: Qwen3.Options = {}) => Either.getOrThrow(Qwen3.make(tokenizer, options))
const qwen3 = make()
const ids = (text: string) => idsBy(text, tokenizer)

/** length, and the hash of the ids as compact JSON */
const fingerprint = (tape: Int32Array) => [
  tape.length,
  createHash("sha256")
    .update(JSON.stringify([...tape]))
    .digest("hex")
]
const runLengths = (stream: ArrayLike<number>) => {
  const runs: Array<[number, number]> = []
  for (const value of Array.from(stream)) {
    const last = runs.at(-1)
    if (last?.[0] === value) last[1]++
    else runs.push([value, 1])
  }
  return runs
}

const question: ReadonlyArray<Message> = [
  { role: "system", content: "You are concise." },
  { role: "user", content: "What is 2+2?" }
]
const answer: Message = { role: "assistant", content: "Four.", reasoningContent: "Two plus two equals four." }
const follow: ReadonlyArray<Message> = [{ role: "user", content: "And 3+3?" }]

describe("known renderings", () => {
  const prompt = qwen3.render(question, { tools: [weather], addGenerationPrompt: true })
  const completed = qwen3.render([...question, answer], { tools: [weather] })

  it("a prompt with tools, its attribution, and the completed conversation", () => {
    expect(fingerprint(prompt.tokenIds)).toEqual([
      158,
      "080aab54d0ee370f49c843eae30a493eabc252eca32ef5ecc0b3b1ddc72ae500"
    ])
    expect(runLengths(prompt.messageIndices)).toEqual([
      [0, 143],
      [1, 12],
      [-1, 3]
    ])
    expect(runLengths(prompt.isContent).map(([, length]) => length)).toEqual([3, 4, 139, 7, 5])
    expect(fingerprint(completed.tokenIds)).toEqual([
      172,
      "0a3b9ecf2923febbe4f40a14cfdf1b293e7b2e3073230ddbf5e1f00914883109"
    ])
    expect(runLengths(completed.sampledMask)).toEqual([
      [0, 158],
      [1, 13],
      [0, 1]
    ])
  })

  it("the completion parses to its message", () => {
    const completion = completed.tokenIds.slice(158, -1)
    expect(fingerprint(completion)).toEqual([13, "ae59d3cb1f34a68b0109b6092c9e3b783bab325bad5fe7bd1a0aa38d78f2dba0"])
    expect(qwen3.parse(completion, { promptIds: prompt.tokenIds }).message).toEqual(answer)
  })

  it("the bridge that keeps reasoning", () => {
    const start = qwen3.render(question, { addGenerationPrompt: true }).tokenIds
    const turn = qwen3.render([...question, { role: "assistant", content: "Prior answer." }]).tokenIds
    const bridged = make({ thinkingRetention: "all" }).bridge(start, turn.slice(start.length, -1), follow)!
    expect(fingerprint(bridged.tokenIds)).toEqual([
      47,
      "ae61a84d8b9ad2ce6d57335f11d3b25ce73936e2abd5e4fc6ed4a75b03c2747c"
    ])
    expect(fingerprint(bridged.tokenIds.slice(turn.length - 1))).toEqual([
      15,
      "cf39a84fd7c4c25c0d96678c623ef14190fed0e32995be6cfffdd29f97846b6f"
    ])
    expect(runLengths(bridged.messageIndices)).toEqual([
      [-1, 33],
      [0, 11],
      [-1, 3]
    ])
    expect(runLengths(bridged.isContent).map(([, length]) => length)).toEqual([36, 6, 5])
  })
})

it("known renderings of the format for training", () => {
  const prime = Either.getOrThrow(PrimeQwen3.make(tokenizer))
  const prompt = prime.render(question, { tools: [weather], addGenerationPrompt: true })
  expect(fingerprint(prompt.tokenIds)).toEqual([
    269,
    "afa9279d4e2e2fd6567565dbea9ff22776b481affba76a5f897a477f1c4f4eeb"
  ])
  const completed = prime.render([...question, answer], { tools: [weather] })
  expect(fingerprint(completed.tokenIds)).toEqual([
    282,
    "6748ef4a8b646af9a799f6abe26d77a2bf0b37d4d7bffae4f4274a06378516ed"
  ])
  const completion = completed.tokenIds.slice(269, -1)
  expect(prime.parse(completion, { promptIds: prompt.tokenIds }).message).toEqual(answer)
})

describe("the shipped template", () => {
  const template = new Template(tokenizerConfig.chat_template)
  const reference = new Reference(tokenizerJson, tokenizerConfig)
  const text = FastCheck.oneof(
    FastCheck.constantFrom("", "hi", "\n\nhi\n", "Is it 2+2?", "é😀", "a.\n\n", '{"b": [1, 2.5]}', " x "),
    FastCheck.string({ unit: "grapheme", maxLength: 10 }).filter((value) => !/[<>]/.test(value))
  )
  // the template engine strips all white space where Python strips the named characters
  const outerLineBreaks = text.map((value) => value.replace(/^\s+|\s+$/g, "\n"))
  const call = FastCheck.record({
    id: FastCheck.constant("c"),
    name: FastCheck.constantFrom("get_weather", "ls"),
    arguments: FastCheck.constantFrom("{}", '{"city": "Oslo", "n": 1.0}')
  })
  const message: FastCheck.Arbitrary<Message> = FastCheck.oneof(
    FastCheck.record({ role: FastCheck.constant("user" as const), content: text }),
    FastCheck.record({ role: FastCheck.constant("tool" as const), toolCallId: FastCheck.constant("c"), content: text }),
    FastCheck.record({ role: FastCheck.constant("tool" as const), toolCallId: FastCheck.constant("c"), content: text }),
    FastCheck.record(
      {
        role: FastCheck.constant("assistant" as const),
        content: outerLineBreaks,
        reasoningContent: outerLineBreaks,
        toolCalls: FastCheck.array(call, { maxLength: 2 })
      },
      { requiredKeys: ["role", "content"] }
    )
  )
  const conversation = FastCheck.tuple(
    FastCheck.option(FastCheck.record({ role: FastCheck.constant("system" as const), content: text })),
    FastCheck.array(message, { minLength: 1, maxLength: 6 })
  ).map(([system, rest]): ReadonlyArray<Message> => (system === null ? rest : [system, ...rest]))

  it("ids equal the template's text, read by the reference tokenizer", () => {
    FastCheck.assert(
      FastCheck.property(conversation, FastCheck.boolean(), FastCheck.boolean(), (messages, withTools, prompted) => {
        const tools = withTools ? [weather, { name: "ls", parameters: { u: "é/" } }] : []
        const said = template.render({
          messages: messages.map((one) =>
            one.role === "assistant"
              ? {
                  role: one.role,
                  content: one.content ?? "",
                  reasoning_content: one.reasoningContent ?? null,
                  tool_calls: (one.toolCalls ?? []).map((toolCall) => ({ ...toolCall }))
                }
              : { ...one }
          ),
          ...(withTools ? { tools: tools.map((tool) => ({ type: "function", function: tool })) } : {}),
          add_generation_prompt: prompted
        })
        const { tokenIds } = qwen3.render(messages, { tools, addGenerationPrompt: prompted })
        expect(tokenizer.decode(tokenIds)).toBe(said.normalize("NFC"))
        expect([...tokenIds]).toEqual(reference.encode(said, { add_special_tokens: false }).ids)
      }),
      { numRuns: 100 }
    )
  })

  it("with thinking off, the prompt ends with an empty pair, and a later render goes on from it", () => {
    const off = make({ enableThinking: false })
    const prompt = off.render(question, { addGenerationPrompt: true })
    const said = template.render({ messages: [...question], add_generation_prompt: true, enable_thinking: false })
    expect(tokenizer.decode(prompt.tokenIds)).toBe(said)
    const all = off.render([...question, { role: "assistant", content: "Four." }, ...follow])
    expect([...all.tokenIds.subarray(0, prompt.tokenIds.length)]).toEqual([...prompt.tokenIds])
    const bridged = off.bridge(prompt.tokenIds, ids("Four.<|im_end|>"), follow)!
    expect([...bridged.tokenIds.subarray(0, all.tokenIds.length)]).toEqual([...all.tokenIds])
  })
})

it("REND-14: an empty pair that the template inserts is not trained, sampled reasoning is", () => {
  const bare = qwen3.render([...question, { role: "assistant", content: "Four." }])
  expect(textWhereBy(bare, bare.sampledMask, 1, tokenizer)).toBe("Four.<|im_end|>")
  expect(tokenizer.decode(bare.tokenIds)).toContain("<think>\n\n</think>\n\nFour.")
  const reasoned = qwen3.render([...question, answer])
  expect(textWhereBy(reasoned, reasoned.sampledMask, 1, tokenizer)).toBe(
    "<think>\nTwo plus two equals four.\n</think>\n\nFour.<|im_end|>"
  )
})

it("a tool result is bridged, a question that would drop reasoning is not", () => {
  const prompt = qwen3.render(question, { addGenerationPrompt: true }).tokenIds
  const completion = ids(
    '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call><|im_end|>'
  )
  const results: ReadonlyArray<Message> = [
    { role: "tool", toolCallId: "1", content: "a<|im_end|>" },
    { role: "tool", toolCallId: "2", content: "b" }
  ]
  const bridged = qwen3.bridge(prompt, completion, results)!
  expect(tokenizer.decode(bridged.tokenIds.subarray(prompt.length + completion.length))).toBe(
    "\n<|im_start|>user\n<tool_response>\na<|im_end|>\n</tool_response>\n<tool_response>\nb\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
  )
  // "|>" and the line break after it are one token, which starts in the result
  expect(textWhereBy(bridged, bridged.isContent, 1, tokenizer)).toBe("a<|im_end|>\nb")
  expect(qwen3.bridge(prompt, completion, [...results, ...follow])).toBeUndefined()
  const asTool: Message = { role: "user", content: "<tool_response>\n1\n</tool_response>" }
  expect(qwen3.bridge(prompt, completion, [asTool])).toBeDefined()
})

it("a vocabulary without the format's tokens is refused", () => {
  expect(Either.getOrThrow(Either.flip(Qwen3.make(makeTokenizer({})))).message).toContain("<think>")
})
