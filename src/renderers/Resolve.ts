/** The renderer of a model directory: the one that is named, or the one that its files call for. */
import { readFile } from "node:fs/promises"
import { resolve as absolute, basename, dirname, join } from "node:path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import { Renderer, RendererError, type RendererService } from "../Renderer.ts"
import { Tokenizer } from "../Tokenizer.ts"
import type * as Default from "./Default.ts"
import * as Detect from "./Detect.ts"
import * as Registry from "./Registry.ts"

export { names } from "./Registry.ts"

/** A renderer, why it is the one, and the model's own template, if it has one. @category model */
export interface Resolved {
  readonly renderer: RendererService
  readonly matchedBy: Detect.MatchedBy
  readonly source: Default.Source | undefined
}

type Json = Readonly<Record<string, unknown>>

const isRecord = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

const read = (file: string) => Effect.either(Effect.tryPromise(() => readFile(file, "utf8")))

/** A file that may be missing; what is there and no JSON is refused. */
const readJson = (file: string): Effect.Effect<Json, RendererError> =>
  Effect.flatMap(read(file), (text) => {
    if (Either.isLeft(text)) return Effect.succeed({})
    const parsed = Either.try((): unknown => JSON.parse(text.right))
    return Either.isRight(parsed) && isRecord(parsed.right)
      ? Effect.succeed(parsed.right)
      : Effect.fail(new RendererError({ renderer: "auto", reason: `${file} is not JSON` }))
  })

const templateOf = (config: Json): string | undefined => {
  const template = config.chat_template
  if (typeof template === "string") return template
  if (!Array.isArray(template)) return undefined
  // several templates by name, of which "default" is the one for chat
  const chosen: unknown = template.find((one: unknown) => isRecord(one) && one.name === "default")
  return isRecord(chosen) && typeof chosen.template === "string" ? chosen.template : undefined
}

const spelling = (token: unknown): string | undefined => {
  const content: unknown = isRecord(token) ? token.content : token
  return typeof content === "string" ? content : undefined
}

/** A template of its own goes before the one that the tokenizer's configuration holds. */
const readSource = (directory: string) =>
  Effect.gen(function* () {
    const separate = yield* read(join(directory, "chat_template.jinja"))
    const config = yield* readJson(join(directory, "tokenizer_config.json"))
    const template = Either.isRight(separate) ? separate.right : templateOf(config)
    if (template === undefined) return undefined
    const { decode } = yield* Tokenizer
    const generation = yield* readJson(join(directory, "generation_config.json"))
    const ends: ReadonlyArray<unknown> = [generation.eos_token_id].flat()
    const source: Default.Source = {
      template,
      bosToken: spelling(config.bos_token),
      eosToken: spelling(config.eos_token),
      stopTokens: ends.flatMap((id) => (typeof id === "number" ? [decode([id])] : []))
    }
    return source
  })

/** What a directory's model is called: as its configuration says, or by where it lies. */
const namesOf = (directory: string) =>
  Effect.map(readJson(join(directory, "config.json")), ({ _name_or_path: said }) => {
    const path = absolute(directory)
    const place = `${basename(dirname(path))}/${basename(path)}`
    return typeof said === "string" && said !== "" ? [said, place] : [place]
  })

const detect = (directory: string, source: Default.Source | undefined) =>
  Effect.gen(function* () {
    if (source !== undefined) {
      return Detect.ofTemplate(source.template) ?? { name: "default", matchedBy: "template of its own" as const }
    }
    for (const name of yield* namesOf(directory)) {
      const found = Detect.ofName(name)
      if (found !== undefined) return found
    }
    const found = Detect.ofTokens(yield* Tokenizer)
    if (found !== undefined) return found
    const reason =
      `${directory} has no chat template, and neither its name nor its tokens are of a known family; ` +
      `write the model's template to ${join(directory, "chat_template.jinja")}`
    return yield* new RendererError({ renderer: "auto", reason })
  })

/**
 * The renderer of a model directory: the given one, or for "auto" (the default) the one that its files call for. `config`
 * is that of the renderer.
 *
 * @category constructors
 */
export const resolve = (
  directory: string,
  name = "auto",
  config: Readonly<Record<string, unknown>> = {}
): Effect.Effect<Resolved, RendererError, Tokenizer> =>
  Effect.gen(function* () {
    const tokenizer = yield* Tokenizer
    const source = yield* readSource(directory)
    const found: Detect.Detected =
      name === "auto" ? yield* detect(directory, source) : { name, matchedBy: "given name" }
    const renderer = yield* Registry.make(found.name, { tokenizer, source }, { ...found.options, ...config })
    return { renderer, matchedBy: found.matchedBy, source }
  })

/** `resolve`, the renderer alone. @category constructors */
export const fromDirectory = (
  directory: string,
  name = "auto",
  config: Readonly<Record<string, unknown>> = {}
): Effect.Effect<RendererService, RendererError, Tokenizer> =>
  Effect.map(resolve(directory, name, config), ({ renderer }) => renderer)

/** The renderer of a model directory for the program. Fails with `RendererError`. @category layers */
export const layerFromDirectory = (
  directory: string,
  name = "auto",
  config: Readonly<Record<string, unknown>> = {}
): Layer.Layer<Renderer, RendererError, Tokenizer> => Layer.effect(Renderer, fromDirectory(directory, name, config))
