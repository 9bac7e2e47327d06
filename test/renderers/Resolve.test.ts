import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { describe } from "vitest"
import { Renderer } from "../../src/Renderer.ts"
import * as ChatMl from "../../src/renderers/ChatMl.ts"
import * as Detect from "../../src/renderers/Detect.ts"
import * as Registry from "../../src/renderers/Registry.ts"
import * as Resolve from "../../src/renderers/Resolve.ts"
import { Tokenizer } from "../../src/Tokenizer.ts"
import * as HuggingFace from "../../src/tokenizer/HuggingFace.ts"
import { tokenizerConfig } from "../tokenizer/qwen3.ts"
import { families } from "./families.ts"
import { tokenizer } from "./fixtures.ts"

describe("templates", () => {
  it.each<[string, string]>([
    ["ours", ChatMl.chatTemplate],
    [
      "a common spelling of ChatML",
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    ]
  ])("%s is chatml", (_, template) => {
    expect(Detect.ofTemplate(template)).toEqual({ name: "chatml", matchedBy: "template" })
  })

  it("the Qwen3 template is qwen3", () => {
    const template: string = tokenizerConfig.chat_template
    expect(Detect.ofTemplate(template)).toEqual({ name: "qwen3", matchedBy: "template hash" })
    expect(Detect.ofTemplate(`${template}\n`)).toMatchObject({ name: "qwen3", matchedBy: "template" })
  })

  it.each<[string, string]>([
    ["trims", ChatMl.chatTemplate.replace("message.content or ''", "message.content | trim")],
    ["injects a system message", `{{- '<|im_start|>system\\nYou are kind.<|im_end|>\\n' }}${ChatMl.chatTemplate}`],
    ["has no line break after a turn", ChatMl.chatTemplate.replace("'<|im_end|>\\n'", "'<|im_end|>'")],
    ["is of another family", "{{ bos_token }}{% for m in messages %}[INST] {{ m.content }} [/INST]{% endfor %}"],
    ["calls tools in XML", `${tokenizerConfig.chat_template}{{ '<function=' }}`]
  ])("one that %s is not recognised", (_, template) => {
    expect(Detect.ofTemplate(template)).toBeUndefined()
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
        expect(unknown.message).toMatch(
          /^renderer glm: there is no such renderer; choose chatml, qwen3, .* or default$/
        )
      })
    )
  )

  it.effect("any other template is rendered as it is, up to a token that ends a turn", () =>
    Effect.gen(function* () {
      const own = { chat_template: "{{ 'x' }}", eos_token: { content: "<|im_end|>" } }
      const found = yield* inDirectory({ "tokenizer_config.json": JSON.stringify(own) }, (directory) =>
        Resolve.resolve(directory)
      )
      expect([found.renderer.name, found.matchedBy]).toEqual(["default", "template of its own"])
      expect(found.renderer.stopTokenIds).toEqual([tokenizer.special("<|im_end|>")])
      const endless = yield* Effect.flip(nameOf(config("{{ 'x' }}")))
      expect(endless.message).toContain("no token that ends a turn is known")
      const generation = {
        ...config("{{ 'x' }}"),
        "generation_config.json": JSON.stringify({ eos_token_id: [tokenizer.special("<|im_end|>")] })
      }
      expect(yield* nameOf(generation)).toBe("default")
    })
  )

  it.effect("without a template the model's name decides, exactly or by its family", () =>
    Effect.gen(function* () {
      const named = (name: string) =>
        inDirectory({ "config.json": JSON.stringify({ _name_or_path: name }) }, (directory) =>
          Resolve.resolve(directory)
        )
      expect(yield* named("Qwen/Qwen3-8B")).toMatchObject({ renderer: { name: "qwen3" }, matchedBy: "model name" })
      expect(yield* named("me/Qwen3-4B-tuned")).toMatchObject({
        renderer: { name: "qwen3" },
        matchedBy: "family prefix"
      })
      const other = yield* Effect.flip(named("openai/gpt-oss-20b"))
      expect(other.message).toContain("renderer gpt-oss: the tokenizer has no special token <|start|>")
    })
  )

  it.effect("what is missing or broken is an error that says what to write where", () =>
    Effect.gen(function* () {
      const cases = [config(undefined), {}, { "tokenizer_config.json": "{" }, config("{% if %}")]
      const expected = ["has no chat template", "has no chat template", "is not JSON", "chat template cannot be read"]
      for (const [index, files] of cases.entries()) {
        const error = yield* Effect.flip(nameOf(files))
        expect(error.message).toContain(expected[index])
        if (index < 2) expect(error.message).toMatch(/write the model's template to .*chat_template\.jinja/)
      }
    })
  )

  it.effect("a configuration is refused with every key that is wrong in it", () =>
    inDirectory(config(ChatMl.chatTemplate), (directory) =>
      Effect.gen(function* () {
        const wrong = yield* Effect.flip(
          Resolve.fromDirectory(directory, "qwen3", { enableThinking: "no", enable_thinking: false })
        )
        expect(wrong.message).toContain("enableThinking")
        expect(wrong.message).toContain("enable_thinking")
      })
    )
  )
})

describe("families", () => {
  it.each<[string, string | undefined]>([
    ["Qwen/Qwen3.5-9B", "qwen3.5"],
    ["Qwen/Qwen3.6-35B-A3B", "qwen3.6"],
    ["Qwen/Qwen3-Coder-30B", undefined],
    ["Qwen/Qwen3-VL-4B-Instruct", undefined],
    ["zai-org/GLM-4.5-Air", "glm-4.5"],
    ["zai-org/GLM-4.6", "glm-4.5"],
    ["zai-org/GLM-5", "glm-5"],
    ["zai-org/GLM-4.7-Flash", "glm-5"],
    ["zai-org/GLM-5.1-FP8", "glm-5.1"],
    ["zai-org/GLM-5.3", undefined],
    ["deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"],
    ["deepseek-ai/DeepSeek-V3.1", undefined],
    ["deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", undefined],
    ["moonshotai/Kimi-K2-Instruct-0905", "kimi-k2"],
    ["moonshotai/Kimi-K2-Thinking", undefined],
    ["meta-llama/Llama-3.1-8B-Instruct", "llama-3"],
    ["MiniMaxAI/MiniMax-M2.1", "minimax-m2"],
    ["unsloth/gpt-oss-20b-BF16", "gpt-oss"],
    ["mistralai/Mistral-7B", undefined]
  ])("%s is of %s", (model, name) => {
    expect(Detect.ofName(model)?.name).toBe(name)
  })

  it.each(families.map((family) => [family.title, family] as const))(
    "%s is a renderer that can be named",
    (_, family) => {
      expect(Registry.names).toContain(family.renderer.name)
    }
  )

  it("special tokens that one family alone has are enough; those of several are no guess", () => {
    const found = (name: string) =>
      Detect.ofTokens(families.find(({ renderer }) => renderer.name === name)!.tokenizer)?.name
    for (const name of ["gpt-oss", "llama-3", "kimi-k2", "minimax-m2", "deepseek-v3"]) expect(found(name)).toBe(name)
    for (const name of ["chatml", "qwen3", "qwen3.5", "glm-5"]) expect(found(name)).toBeUndefined()
  })
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
