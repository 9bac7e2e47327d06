/**
 * Chooses the renderer of a model directory. A name decides; without one the chat template must be one that a renderer
 * reproduces. What is not recognised is refused, since a wrong format trains silently on the wrong tokens.
 */
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import { Renderer, RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer, type TokenizerService } from "../Tokenizer.ts"
import * as ChatMl from "./ChatMl.ts"
import * as Qwen3 from "./Qwen3.ts"

const makers = {
  chatml: (tokenizer: TokenizerService) => ChatMl.make(tokenizer),
  qwen3: (tokenizer: TokenizerService) => Qwen3.make(tokenizer)
}

/** @category model */
export type Name = keyof typeof makers

/** @category model */
export const names: ReadonlyArray<Name> = ["chatml", "qwen3"]

const isName = (name: string): name is Name => Object.hasOwn(makers, name)

const fromName = (name: string, tokenizer: TokenizerService): Either.Either<RendererService, RendererError> =>
  isName(name)
    ? makers[name](tokenizer)
    : Either.left(
        new RendererError({ renderer: name, reason: `there is no such renderer; choose ${names.join(" or ")}` })
      )

/** the template's spoken parts: string literals, and text outside of tags */
const literals = (template: string): string => {
  const outside = template.replace(/\{%[\s\S]*?%\}|\{\{[\s\S]*?\}\}|\{#[\s\S]*?#\}/g, "")
  const quoted = template.match(/'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/g) ?? []
  return [...quoted.map((text) => text.slice(1, -1)), outside].join("\n")
}

const isQwen3 = (template: string): boolean =>
  ["reasoning_content", "enable_thinking", "last_query_index", "<tool_response>", "<args-json-object>"].every((part) =>
    template.includes(part)
  ) && !/<function=|You are (?!provided with function)/.test(template)

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

/** The renderer that reproduces a chat template, if there is one. @category detection */
export const ofTemplate = (template: string): Name | undefined => {
  if (isQwen3(template)) return "qwen3"
  return isChatMl(template) ? "chatml" : undefined
}

const templateOf = (config: unknown): string | undefined => {
  if (typeof config !== "object" || config === null || !("chat_template" in config)) return undefined
  const template = config.chat_template
  if (typeof template === "string") return template
  if (!Array.isArray(template)) return undefined
  // several templates by name, of which "default" is the one for chat
  const named: ReadonlyArray<{ readonly name?: unknown; readonly template?: unknown }> = template
  const chosen = named.find(({ name }) => name === "default")?.template
  return typeof chosen === "string" ? chosen : undefined
}

const read = (file: string) => Effect.either(Effect.tryPromise(() => readFile(file, "utf8")))

/** A template of its own goes before the one that the tokenizer's configuration holds. */
const adviceFor = (directory: string) =>
  `if the model speaks ${names.join(" or ")}, write that format's chat template to ${join(directory, "chat_template.jinja")}`

const readTemplate = (directory: string): Effect.Effect<string, RendererError> =>
  Effect.gen(function* () {
    const separate = yield* read(join(directory, "chat_template.jinja"))
    if (Either.isRight(separate)) return separate.right
    const file = join(directory, "tokenizer_config.json")
    const config = yield* read(file)
    const refuse = (reason: string) =>
      new RendererError({ renderer: "auto", reason: `${reason}; ${adviceFor(directory)}` })
    if (Either.isLeft(config)) return yield* refuse(`${file} cannot be read`)
    const parsed = Either.try((): unknown => JSON.parse(config.right))
    if (Either.isLeft(parsed)) return yield* refuse(`${file} is not JSON`)
    const template = templateOf(parsed.right)
    return template ?? (yield* refuse(`${file} has no chat template`))
  })

/**
 * The renderer of a model directory: the given one, or for "auto" (the default) the one of its chat template.
 *
 * @category constructors
 */
export const fromDirectory = (
  directory: string,
  name = "auto"
): Effect.Effect<RendererService, RendererError, Tokenizer> =>
  Effect.gen(function* () {
    const tokenizer = yield* Tokenizer
    if (name !== "auto") return yield* fromName(name, tokenizer)
    const found = ofTemplate(yield* readTemplate(directory))
    if (found !== undefined) return yield* fromName(found, tokenizer)
    const reason = `the chat template of ${directory} is of no known format; ${adviceFor(directory)}`
    return yield* new RendererError({ renderer: name, reason })
  })

/** @category layers */
export const layerFromDirectory = (directory: string, name = "auto"): Layer.Layer<Renderer, RendererError, Tokenizer> =>
  Layer.effect(Renderer, fromDirectory(directory, name))
