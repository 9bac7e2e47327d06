import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { whole } from "../../cli/display/RenderText.ts"
import { plain } from "../../cli/display/Style.ts"
import { compare } from "../../cli/rendering.ts"
import type { Message } from "../../src/Message.ts"
import { chatml, tokenizer } from "../renderers/fixtures.ts"
import { run } from "./kit.ts"

const policy = "examples/reverse-text/policy"
const conversation = JSON.stringify([
  { role: "user", content: "ab\u001b[31m" },
  { role: "assistant", content: "ba", extra: 1 }
])
const files = { "c.json": conversation }

describe("primerl render", () => {
  it.effect(
    "lists the stretches of a conversation by message and part, and what the model's template makes of it",
    () =>
      Effect.gen(function* () {
        const { code, error, out } = yield* run(["render", "c.json", "--model", policy], files)
        expect([code, error]).toEqual([0, ""])
        expect(out).toBe(`\
 token msg role      part           count  text
     0   0 user      scaffold           3  "<|im_start|>user\\n"
     3   0 user      content            7  "ab\\u001b[31m"
    10   0 user      scaffold           2  "<|im_end|>\\n"
    12   1 assistant scaffold           3  "<|im_start|>assistant\\n"
    15   1 assistant sampled            3  "ba<|im_end|>"
    18   1 assistant scaffold           1  "\\n"

renderer chatml (by template)
19 tokens (user 12, assistant 7); content 10, sampled 3
drift: none, the tokens are those of the model's own template
`)
      })
  )

  it.effect("adds the prompt of the next turn, and is a document for programs", () =>
    Effect.gen(function* () {
      const asked = { "c.json": '{"messages": [{"role": "user", "content": "é"}]}' }
      const { out } = yield* run(["render", "--json", "c.json", "--model", policy], asked)
      const { drift, matchedBy, renderer, tokens } = JSON.parse(out)
      expect([renderer, matchedBy, drift]).toEqual(["chatml", "template", { kind: "none" }])
      expect(tokens.map(({ text }: { readonly text: string }) => text).join("")).toBe(
        "<|im_start|>user\né<|im_end|>\n<|im_start|>assistant\n"
      )
      expect(tokens.at(-1)).toMatchObject({ message: -1, role: "prompt", isContent: false, isSampled: false })
    })
  )

  it.effect("says in words what is wrong with a call, a file or a conversation", () =>
    Effect.gen(function* () {
      const cases: ReadonlyArray<readonly [ReadonlyArray<string>, number, string]> = [
        [["c.json"], 2, "render needs --model DIR"],
        [["none.json", "--model", policy], 1, "none.json: no such file"],
        [["bad.json", "--model", policy], 1, "bad.json: is not JSON"],
        [["five.json", "--model", policy], 1, "five.json: has no messages"],
        [["roles.json", "--model", policy], 1, "roles.json: messages[0].content: missing"],
        [["c.json", "--model", "nowhere"], 1, "tokenizer nowhere/tokenizer.json: cannot be read"],
        [["c.json", "--model", policy, "--renderer", "qwen4"], 1, "renderer qwen4: there is no such renderer"],
        [["c.json", "--model", policy, "--renderer", "qwen3"], 1, "has no special token <think>"],
        [["c.json", "--model", policy, "--set", "a"], 2, '--set takes key=value, got "a"'],
        [
          ["c.json", "--model", policy, "--set", "a=1"],
          1,
          "renderer chatml: its configuration is wrong: a: is unexpected"
        ],
        [["c.json", "--model", policy, "--tools", "tools.json"], 1, "tools.json: tools[0] has no name"],
        [["tools-in-it.json", "--model", policy], 1, "tools need the tokens <tool_call>"]
      ]
      const all = {
        ...files,
        ...{ "bad.json": '{"a":', "five.json": "5", "roles.json": '[{"role": "user"}]', "tools.json": "[{}]" },
        "tools-in-it.json": JSON.stringify({ messages: JSON.parse(conversation), tools: [{ name: "f" }] })
      }
      for (const [args, code, text] of cases) {
        const ended = yield* run(["render", ...args], all)
        expect([args, ended.code]).toEqual([args, code])
        expect(ended.text).toContain(text)
      }
    })
  )

  it("paints tokens in the colour of their role, and sends nothing that a terminal obeys but colours", () => {
    const messages: ReadonlyArray<Message> = [
      { role: "user", content: "a\u001b[2J" },
      { role: "assistant", content: "hi" }
    ]
    const rendering = {
      ...{ messages, tokenizer, rendered: chatml.render(messages), renderer: "chatml", matchedBy: "given name" },
      drift: compare(Int32Array.of(1, 2, 3, 4), Int32Array.of(1, 9, 4))
    }
    const text = whole(rendering, { colour: true, unicode: true }, 80)
    const [escape, red] = ["\u001b", "\\x1b"]
    expect(text).toContain(red)
    expect(text).toContain(`${escape}[36;2m<|im_start|>`)
    expect(text).toContain(`${escape}[32;1;4mhi`)
    expect(plain(text)).not.toContain(escape)
    expect(text).toContain("drift: from token 1 on, 2 tokens stand for 1 of the model's own template")
    expect(whole(rendering, { colour: false, unicode: false }, 40).split("\n")[1]!.length).toBeLessThanOrEqual(40)
  })

  it("counts what differs between two renderings, wherever it is", () => {
    const of = (...ids: ReadonlyArray<number>) => Int32Array.from(ids)
    expect(compare(of(1, 2), of(1, 2))).toEqual({ kind: "none" })
    expect(compare(of(1, 2), of(1, 2, 3))).toEqual({ kind: "drift", first: 2, here: [], template: [3] })
    expect(compare(of(1, 1), of(1))).toEqual({ kind: "drift", first: 1, here: [1], template: [] })
  })
})
