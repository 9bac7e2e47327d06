import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { describe } from "vitest"
import { Renderer } from "../../src/Renderer.ts"
import * as ChatMl from "../../src/renderers/ChatMl.ts"
import * as Resolve from "../../src/renderers/Resolve.ts"
import { Tokenizer } from "../../src/Tokenizer.ts"
import * as HuggingFace from "../../src/tokenizer/HuggingFace.ts"
import { tokenizerConfig } from "../tokenizer/qwen3.ts"
import { tokenizer } from "./fixtures.ts"

describe("templates", () => {
  it.each<[string, string]>([
    ["ours", ChatMl.chatTemplate],
    [
      "a common spelling of ChatML",
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    ]
  ])("%s is chatml", (_, template) => {
    expect(Resolve.ofTemplate(template)).toBe("chatml")
  })

  it("the Qwen3 template is qwen3", () => {
    expect(Resolve.ofTemplate(tokenizerConfig.chat_template)).toBe("qwen3")
  })

  it.each<[string, string]>([
    ["trims", ChatMl.chatTemplate.replace("message.content or ''", "message.content | trim")],
    ["injects a system message", `{{- '<|im_start|>system\\nYou are kind.<|im_end|>\\n' }}${ChatMl.chatTemplate}`],
    ["has no line break after a turn", ChatMl.chatTemplate.replace("'<|im_end|>\\n'", "'<|im_end|>'")],
    ["is of another family", "{{ bos_token }}{% for m in messages %}[INST] {{ m.content }} [/INST]{% endfor %}"],
    ["calls tools in XML", `${tokenizerConfig.chat_template}{{ '<function=' }}`]
  ])("one that %s is not recognised", (_, template) => {
    expect(Resolve.ofTemplate(template)).toBeUndefined()
  })
})

describe("model directories", () => {
  const inDirectory = <A, E>(
    files: Readonly<Record<string, string>>,
    use: (directory: string) => Effect.Effect<A, E, Tokenizer>
  ) =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        const directory = mkdtempSync(join(tmpdir(), "renderer-"))
        for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text)
        return directory
      }),
      use,
      (directory) => Effect.sync(() => rmSync(directory, { recursive: true }))
    ).pipe(Effect.provideService(Tokenizer, tokenizer))

  const config = (template: unknown) => ({ "tokenizer_config.json": JSON.stringify({ chat_template: template }) })
  const nameOf = (files: Readonly<Record<string, string>>) =>
    inDirectory(files, (directory) => Effect.map(Resolve.fromDirectory(directory), ({ name }) => name))

  it.effect("a template in the config, among several by name, or in a file of its own, which comes first", () =>
    Effect.gen(function* () {
      const qwen3 = tokenizerConfig.chat_template
      expect(yield* nameOf(config(ChatMl.chatTemplate))).toBe("chatml")
      const several = [
        { name: "tool_use", template: "{{ 'x' }}" },
        { name: "default", template: qwen3 }
      ]
      expect(yield* nameOf(config(several))).toBe("qwen3")
      expect(yield* nameOf({ ...config(ChatMl.chatTemplate), "chat_template.jinja": qwen3 })).toBe("qwen3")
    })
  )

  it.effect("an explicit name decides, whatever the template is", () =>
    inDirectory(config("{{ 'x' }}"), (directory) =>
      Effect.gen(function* () {
        expect((yield* Resolve.fromDirectory(directory, "qwen3")).name).toBe("qwen3")
        const unknown = yield* Effect.flip(Resolve.fromDirectory(directory, "glm"))
        expect(unknown.message).toBe("renderer glm: there is no such renderer; choose chatml or qwen3")
      })
    )
  )

  it.effect("what is not recognised, missing or broken is an error that lists the names", () =>
    Effect.gen(function* () {
      const cases = [config("{{ 'x' }}"), config(undefined), {}, { "tokenizer_config.json": "{" }]
      const expected = ["no known format", "has no chat template", "cannot be read", "is not JSON"]
      for (const [index, files] of cases.entries()) {
        const error = yield* Effect.flip(nameOf(files))
        expect(error.message).toContain(expected[index])
        expect(error.message).toContain("chatml or qwen3")
        // What it advises is a file that is read, and no key of a configuration, which has none.
        expect(error.message).toMatch(/write that format's chat template to .*chat_template\.jinja/)
        expect(error.message).not.toContain("set renderer")
      }
    })
  )
})

const policy = "examples/reverse-text/policy"

layer(Resolve.layerFromDirectory(policy).pipe(Layer.provide(HuggingFace.layerFromDirectory(policy))))(
  "the policy of reverse-text",
  (it) => {
    it.effect("speaks ChatML, one token per byte", () =>
      Effect.gen(function* () {
        const renderer = yield* Renderer
        const { tokenIds } = renderer.render([{ role: "user", content: "abc" }], { addGenerationPrompt: true })
        expect(renderer.name).toBe("chatml")
        expect([...tokenIds]).toEqual([260, 257, 10, 97, 98, 99, 261, 10, 260, 258, 10])
        expect(renderer.stopTokenIds).toEqual([261, 259])
      })
    )
  }
)
