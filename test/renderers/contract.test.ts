/** What every renderer promises, whatever its format is: one suite over all of them. */
import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import type { AssistantMessage, Message, ToolSpec } from "../../src/Message.ts"
import type { ParsedToolCall, ParseEvent, Rendered } from "../../src/Renderer.ts"
import { type Family, families, idsOf } from "./families.ts"

const tools: ReadonlyArray<ToolSpec> = [
  {
    name: "search",
    description: "Looks for é.",
    parameters: { type: "object", properties: { query: { type: "string" } }, required: ["query"] }
  },
  { name: "now", parameters: { type: "object", properties: {} } }
]

/** Texts that a body may hold, with spellings of the format's own tokens among them. */
const textOf = (family: Family) =>
  FastCheck.oneof(
    {
      weight: 4,
      arbitrary: FastCheck.constantFrom("hi", "What is 2+2?", "é😀", "check.", '{"a": 1}', "x < y > z", "a\n\nb")
    },
    { weight: 1, arbitrary: FastCheck.constantFrom(" leading", "trailing ", "\nline", "end.\n") },
    { weight: 2, arbitrary: FastCheck.constantFrom(...family.specials).map((one) => `say ${one} or ${one}.`) },
    { weight: 2, arbitrary: FastCheck.string({ unit: "grapheme", maxLength: 8 }) }
  )

/** Conversations of rounds: a question, any number of calls with their results, an answer. */
const conversationsOf = (family: Family) => {
  const text = textOf(family)
  const body = family.trims ? text.map((one) => one.trim() || "ok") : text
  // what a format takes off around a body never comes back, and an empty answer is none
  const said = text.map((one) => one.trim() || "ok")
  const reasoning = family.reasons ? FastCheck.option(said, { nil: undefined }) : FastCheck.constant(undefined)
  const calling = FastCheck.record({
    reasoning,
    content: family.contentWithCalls ? FastCheck.option(said) : FastCheck.constant(null),
    queries: FastCheck.array(said, { minLength: 1, maxLength: family.calls }),
    result: body
  })
  const round = FastCheck.record({
    question: body,
    calling: FastCheck.array(calling, { maxLength: 2 }),
    reasoning,
    answer: said
  })
  return FastCheck.record({
    system: FastCheck.option(body),
    rounds: FastCheck.array(round, { minLength: 1, maxLength: 3 })
  }).map(({ rounds, system }): ReadonlyArray<Message> => {
    let count = 0
    return [
      ...(system === null ? [] : [{ role: "system" as const, content: system }]),
      ...rounds.flatMap((one): ReadonlyArray<Message> => {
        const turns = one.calling.flatMap(
          ({ content, queries, reasoning: thought, result }): ReadonlyArray<Message> => {
            const toolCalls = queries.map((query) => ({
              id: `functions.search:${count++}`,
              name: "search",
              arguments: JSON.stringify({ query })
            }))
            return [
              {
                role: "assistant",
                content,
                toolCalls,
                ...(thought === undefined ? {} : { reasoningContent: thought })
              },
              ...toolCalls.map(({ id, name }): Message => ({ role: "tool", toolCallId: id, name, content: result }))
            ]
          }
        )
        return [
          { role: "user", content: one.question },
          ...turns,
          {
            ...{ role: "assistant", content: one.answer },
            ...(one.reasoning === undefined ? {} : { reasoningContent: one.reasoning })
          }
        ]
      })
    ]
  })
}

const runs = { numRuns: 15 }

const textWhere = ({ tokenizer }: Family, rendered: Rendered, is: (at: number) => boolean) =>
  tokenizer.decode(rendered.tokenIds.filter((_, at) => is(at)))

/** The tokens that a model would have sampled for the last message. */
const sampledOf = (rendered: Rendered, index: number) =>
  rendered.tokenIds.filter((_, at) => rendered.sampledMask[at] === 1 && rendered.messageIndices[at] === index)

const collect = (events: ReadonlyArray<ParseEvent>) => {
  const seen = {
    content: "",
    reasoning: "",
    calls: [] as Array<ParsedToolCall>,
    told: [] as Array<[string, string, string]>
  }
  for (const event of events) {
    if (event.type === "content") seen.content += event.text
    else if (event.type === "reasoning") seen.reasoning += event.text
    else if (event.type === "contentRevoked") seen.content = ""
    else if (event.type === "toolCallStart") {
      expect(seen.told[event.index]).toBeUndefined()
      seen.told[event.index] = [event.id, event.name, ""]
    } else if (event.type === "toolCallArguments") seen.told[event.index]![2] += event.text
    else if (event.type === "toolCallEnd") {
      expect(event.index).toBe(seen.calls.length)
      seen.calls.push(event.call)
    }
  }
  return seen
}

describe.each(families.map((family) => [family.title, family] as const))("%s", (_, family) => {
  const { renderer, specials, tokenizer } = family
  const isGlm = renderer.name.startsWith("glm")
  const stop = (id: number) => renderer.stopTokenIds.includes(id)
  const ids = (text: string) => idsOf(family, text)
  const conversations = conversationsOf(family)

  it("renders streams of one length, in which every message has tokens that begin with its frame", () => {
    FastCheck.assert(
      FastCheck.property(conversations, FastCheck.boolean(), FastCheck.boolean(), (messages, withTools, prompted) => {
        const rendered = renderer.render(messages, {
          tools: withTools ? tools : undefined,
          addGenerationPrompt: prompted
        })
        const { isContent, messageIndices, sampledMask, tokenIds } = rendered
        expect([messageIndices.length, sampledMask.length, isContent.length]).toEqual(Array(3).fill(tokenIds.length))
        messages.forEach((message, index) => {
          const first = messageIndices.indexOf(index)
          expect(first, `message ${index} has tokens`).toBeGreaterThanOrEqual(0)
          // DeepSeek's system text stands bare, and its turns after a result go on without a marker
          if (!renderer.name.startsWith("deepseek")) expect(isContent[first]).toBe(0)
          if (message.role === "assistant") return
          const own = textWhere(family, rendered, (at) => messageIndices[at] === index && isContent[at] === 1)
          const body = message.content.trim()
          const written =
            renderer.name === "llama-3" && message.role === "tool" ? JSON.stringify(body).slice(1, -1) : body
          expect(own).toContain(written)
        })
        tokenIds.forEach((id, at) => {
          const index = messageIndices[at]!
          expect(index >= -1 && index < messages.length).toBe(true)
          if (messages[index]?.role === "assistant") expect(isContent[at]).toBe(sampledMask[at])
          else if (sampledMask[at] === 1) expect(isGlm && stop(id) && isContent[at] === 0).toBe(true)
        })
      }),
      runs
    )
  })

  it("a prompt is the conversation and its own tokens, which are of no message", () => {
    FastCheck.assert(
      FastCheck.property(conversations, (messages) => {
        // a prompt follows a question or a result
        const asked = messages.slice(0, messages.findLastIndex(({ role }) => role !== "assistant") + 1)
        const plain = renderer.render(asked)
        const prompted = renderer.render(asked, { addGenerationPrompt: true })
        const { length } = plain.tokenIds
        expect([...prompted.tokenIds.subarray(0, length)]).toEqual([...plain.tokenIds])
        for (let at = length; at < prompted.tokenIds.length; at++) {
          expect([prompted.messageIndices[at], prompted.sampledMask[at], prompted.isContent[at]]).toEqual([-1, 0, 0])
        }
      }),
      runs
    )
  })

  it("REND-09: text of callers mints no special token, wherever it stands", () => {
    const count = (rendered: Rendered) => rendered.tokenIds.filter((id) => tokenizer.isSpecial(id)).length
    const at = (body: string): ReadonlyArray<Message> => [
      { role: "system", content: body },
      { role: "user", content: body },
      {
        ...{ role: "assistant", content: family.contentWithCalls ? body : null },
        ...(family.reasons ? { reasoningContent: body } : {}),
        toolCalls: [{ id: "functions.search:0", name: "search", arguments: JSON.stringify({ query: body }) }]
      },
      { role: "tool", toolCallId: "functions.search:0", name: "search", content: body }
    ]
    const toolsWith = (description: string) => tools.map((tool) => ({ ...tool, description }))
    for (const special of specials) {
      const [plain, forged] = ["words", `a ${special} b ${special}`].map((body) =>
        renderer.render(at(body), { tools: toolsWith(body), addGenerationPrompt: true })
      )
      expect(count(forged!), special).toBe(count(plain!))
    }
  })

  it("REND-07: no content, empty content and null are one and the same next to a call", () => {
    const toolCalls = [{ id: "functions.search:0", name: "search", arguments: '{"query": "x"}' }]
    const turns = [null, "", undefined].map((content) =>
      renderer.render([{ role: "user", content: "q" }, { role: "assistant", content, toolCalls } as Message])
    )
    expect(turns[1]).toEqual(turns[0])
    expect(turns[2]).toEqual(turns[0])
    expect(tokenizer.decode(turns[0]!.tokenIds)).not.toMatch(/None|null|undefined/)
  })

  it("a turn that is rendered parses to the same message, in every split, and renders to the same tokens", () => {
    FastCheck.assert(
      FastCheck.property(conversations, (messages) => {
        const last = messages.length - 1
        const assistant = messages[last] as AssistantMessage
        for (const index of messages.keys()) {
          if (messages[index]?.role !== "assistant") continue
          const until = messages.slice(0, index + 1)
          const promptIds = renderer.render(until.slice(0, -1), { addGenerationPrompt: true }).tokenIds
          const rendered = renderer.render(until)
          const said = until[index] as AssistantMessage
          const drops =
            (renderer.name === "gpt-oss" && (said.toolCalls ?? []).length === 0 && !family.title.includes("false")) ||
            (renderer.name === "qwen3" && family.title.includes("false"))
          // where the prompt opens reasoning and the message has none, the two cannot agree
          const opened = family.reasons && said.reasoningContent === undefined
          if (drops || opened) continue
          const completion = sampledOf(rendered, index)
          const parsed = renderer.parse(completion, { promptIds, tools })
          expect(parsed.message.content ?? "").toBe(said.content ?? "")
          expect(parsed.message.reasoningContent).toBe(said.reasoningContent)
          expect(parsed.toolCalls.map(({ status }) => status)).toEqual((said.toolCalls ?? []).map(() => "ok"))
          expect(parsed.message.toolCalls?.map(({ arguments: text, name }) => [name, JSON.parse(text)])).toEqual(
            said.toolCalls?.map(({ arguments: text, name }) => [name, JSON.parse(text)])
          )
        }
        expect(assistant.role).toBe("assistant")
      }),
      runs
    )
  })

  it("token in, token out: a bridged prompt begins with what was sampled, and says the new messages once", () => {
    FastCheck.assert(
      FastCheck.property(conversations, FastCheck.boolean(), (messages, cutsTurns) => {
        let promptIds: Int32Array | undefined
        let completionIds = new Int32Array()
        let known = 0
        for (const [index, message] of messages.entries()) {
          if (message.role !== "assistant") continue
          const asked = messages.slice(0, index)
          const delta = asked.slice(known)
          const bridged =
            promptIds === undefined ? undefined : renderer.bridge(promptIds, completionIds, delta, { tools })
          const full = renderer.render(asked, { tools, addGenerationPrompt: true })
          if (bridged !== undefined && promptIds !== undefined) {
            const prior = promptIds.length + completionIds.length
            expect([...bridged.tokenIds.subarray(0, prior)]).toEqual([...promptIds, ...completionIds])
            expect(bridged.sampledMask.every((flag) => flag === 0)).toBe(true)
            expect(bridged.messageIndices.subarray(0, prior).every((of) => of === -1)).toBe(true)
            expect(bridged.isContent.subarray(0, prior).every((flag) => flag === 0)).toBe(true)
            delta.forEach((one, at) => {
              const own = textWhere(
                family,
                bridged,
                (token) => bridged.messageIndices[token] === at && bridged.isContent[token] === 1
              )
              const body = (one.content ?? "").trim()
              expect(own).toContain(
                renderer.name === "llama-3" && one.role === "tool" ? JSON.stringify(body).slice(1, -1) : body
              )
            })
            // the new messages read as they do in a full render
            const tail = tokenizer.decode(bridged.tokenIds.subarray(prior)).replace(/^\n/, "")
            const before = messages[known - 1] as AssistantMessage
            // without the reasoning that its prompt opened, the turn was cut
            const isWhole = !cutsTurns && !(family.reasons && before.reasoningContent === undefined)
            if (isWhole)
              expect(tokenizer.decode(full.tokenIds).endsWith(tail.replace(/^<\|endoftext\|>/, ""))).toBe(true)
          }
          const prompt = bridged ?? full
          const rendered = renderer.render(messages.slice(0, index + 1), { tools })
          const sampled = sampledOf(rendered, index)
          promptIds = prompt.tokenIds
          completionIds = Int32Array.from(
            cutsTurns && sampled.length > 1 ? sampled.subarray(0, sampled.length - 1) : sampled
          )
          known = index + 1
        }
      }),
      runs
    )
  })

  const question: ReadonlyArray<Message> = [{ role: "user", content: "hello" }]
  const prompt = renderer.render(question, { addGenerationPrompt: true }).tokenIds
  const result: ReadonlyArray<Message> = [
    { role: "tool", toolCallId: "functions.search:0", name: "search", content: "42" }
  ]

  it.each<[string, () => Rendered | undefined]>([
    ["no prompt", () => renderer.bridge(new Int32Array(), ids(`a${family.close}`), result)],
    ["no new messages", () => renderer.bridge(prompt, ids(`a${family.close}`), [])],
    [
      "an assistant among them",
      () => renderer.bridge(prompt, ids(`a${family.close}`), [...result, { role: "assistant", content: "b" }])
    ],
    [
      "an unknown role",
      () => renderer.bridge(prompt, ids(`a${family.close}`), [{ role: "critic", content: "b" } as never])
    ],
    ["tokens after the stop", () => renderer.bridge(prompt, ids(`a${family.close}b`), result)],
    ["a second stop", () => renderer.bridge(prompt, ids(`a${family.close}b${family.close}`), result)],
    ["nothing sampled after an open prompt", () => renderer.bridge(prompt, new Int32Array(), result)]
  ])("a bridge declines %s", (_name, bridge) => {
    expect(bridge()).toBeUndefined()
  })

  it("no messages are an error, and so is a role that nobody knows", () => {
    expect(() => renderer.render([])).toThrow("no messages")
    expect(() => renderer.render([{ role: "critic", content: "a" } as never])).toThrow(
      'message 0 has the unknown role "critic"'
    )
  })

  it("a picture is refused by the message that holds it, and never left out", () => {
    const content = [{ type: "text", text: "What is this?" }, { type: "image_url" }]
    const picture = { role: "user", content } as never
    expect(() => renderer.render([...question, picture])).toThrow(
      /message 1 \(user\) holds what is no text \(text, image_url\)/
    )
    expect(renderer.bridge(prompt, ids(`a${family.close}`), [picture])).toBeUndefined()
  })

  it("the first stop token ends a turn, and is no content", () => {
    for (const id of renderer.stopTokenIds) {
      const parsed = renderer.parse(Int32Array.from([...ids("hi"), id, ...ids("more"), id]))
      expect(parsed.message.content).toBe("hi")
      expect(parsed.terminatedBy).toBeDefined()
    }
    expect(renderer.parse(ids("hi")).terminatedBy).toBeUndefined()
    expect(renderer.parse(new Int32Array()).message).toEqual({ role: "assistant", content: "" })
    expect(renderer.parse(Int32Array.of(renderer.stopTokenIds[0]!)).message).toEqual({ role: "assistant", content: "" })
  })

  it("a call keeps its argument's text, ends the turn as a call, and is told while it arrives", () => {
    const json = '{"query": "007 </tool_call> is é\\n"}'
    const written = ids(`${family.call("search", '{"query": "007 is é"}')}${family.close}`)
    const parsed = renderer.parse(written, { tools })
    expect(parsed.message.content).toBeNull()
    expect(parsed.toolCalls.map(({ name, status }) => [name, status])).toEqual([["search", "ok"]])
    expect(JSON.parse(parsed.message.toolCalls![0]!.arguments)).toEqual({ query: "007 is é" })
    const message: AssistantMessage = {
      role: "assistant",
      content: null,
      toolCalls: [{ id: "functions.search:0", name: "search", arguments: json }]
    }
    const rendered = renderer.render([...question, message])
    const again = renderer.parse(sampledOf(rendered, 1), { promptIds: family.reasons ? undefined : prompt, tools })
    expect(JSON.parse(again.toolCalls[0]!.arguments!)).toEqual(JSON.parse(json))
  })

  it("numbers of arguments keep their digits", () => {
    const json = '{"a": 1.0, "b": 12345678901234567890, "c": 1e20, "2": [1.50, null, true], "1": {"x": -0.0}}'
    const schema: ReadonlyArray<ToolSpec> = [
      {
        name: "search",
        parameters: {
          properties: {
            a: { type: "number" },
            b: { type: "integer" },
            c: {},
            1: { type: "object" },
            2: { type: "array" }
          }
        }
      }
    ]
    const toolCalls = [{ id: "functions.search:0", name: "search", arguments: json }]
    const rendered = renderer.render([...question, { role: "assistant", content: null, toolCalls }])
    const parsed = renderer.parse(sampledOf(rendered, 1), {
      promptIds: family.reasons ? undefined : prompt,
      tools: schema
    })
    expect(parsed.toolCalls[0]!.arguments).toBe(json)
  })

  it("a call that is cut off is an attempt, and the content before it stays", () => {
    const whole = ids(family.call("search", '{"query": "007"}'))
    const before = family.contentWithCalls && renderer.name !== "gpt-oss" ? ids("Let me see.") : new Int32Array()
    const parsed = renderer.parse(Int32Array.from([...before, ...whole.subarray(0, whole.length - 3)]), { tools })
    expect(parsed.toolCalls.map(({ status }) => status)).toEqual(["unclosed_block"])
    expect(parsed.message.toolCalls).toBeUndefined()
    expect(parsed.message.content).toBe(before.length === 0 ? "" : "Let me see.")
  })

  it("streaming is parsing: whatever arrives, the events add up to what the batch says", () => {
    const call = FastCheck.constantFrom(family.call("search", '{"query": "a b"}'), family.call("now", "{}"))
    const piece = FastCheck.oneof(
      FastCheck.constantFrom(...specials),
      FastCheck.constantFrom(
        "\n",
        "\n\n",
        " ",
        "text",
        "é😀",
        '"',
        "\\",
        '{"name": "search", "arguments": {"a": "',
        '"}}'
      ),
      FastCheck.constantFrom(
        "<parameter=a>",
        "</parameter>",
        "<function=now>",
        "</function>",
        '<invoke name="now">',
        "```json\n"
      ),
      call
    )
    const prompts = FastCheck.constantFrom(undefined, prompt)
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(piece, { maxLength: 12 }),
        prompts,
        FastCheck.boolean(),
        (pieces, promptIds, typed) => {
          const options = { promptIds, tools: typed ? tools : undefined }
          const completion = Int32Array.from(pieces.flatMap((text) => [...ids(text)]))
          const parser = renderer.parser(options)
          const events = [...completion].flatMap((id) => [...parser.push(id)])
          const finished = parser.finish()
          const seen = collect([...events, ...finished.events])
          const parsed = renderer.parse(completion, options)
          expect(finished.parsed).toEqual(parsed)
          expect(seen.content).toBe(parsed.message.content ?? "")
          expect(seen.reasoning).toBe(parsed.message.reasoningContent ?? "")
          expect(seen.calls).toEqual(parsed.toolCalls)
          for (const [index, { arguments: text, id, name, span, status }] of parsed.toolCalls.entries()) {
            expect(span[0] >= 0 && span[0] <= span[1] && span[1] <= completion.length + 1).toBe(true)
            if (status !== "ok") continue
            expect(seen.told[index]).toEqual([id, name, text])
            expect(() => JSON.parse(text!)).not.toThrow()
          }
        }
      ),
      { numRuns: 40 }
    )
  })
})
