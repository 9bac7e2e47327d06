/**
 * Reads a Hugging Face `tokenizer.json`: byte-level BPE and BPE with byte fallback. What would change token ids and is
 * not supported is refused by name; encoding itself cannot fail, since every byte has a token.
 */
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import { Tokenizer, TokenizerError, type TokenizerService } from "../Tokenizer.ts"
import * as Cache from "./Cache.ts"
import type { Compiled } from "./Compiled.ts"
import * as Json from "./Json.ts"
import { makeTokenizer } from "./makeTokenizer.ts"
import * as PreTokenizer from "./PreTokenizer.ts"
import * as Spelling from "./Spelling.ts"
import * as Vocabulary from "./Vocabulary.ts"

// these add tokens to a whole text only where a program asks for it, which is the renderer's part here
const postProcessors: ReadonlyArray<unknown> = [
  "ByteLevel",
  "TemplateProcessing",
  "RobertaProcessing",
  "BertProcessing"
]

const checkPostProcessor = (at: Json.At): Either.Either<void, TokenizerError> =>
  Either.gen(function* () {
    if (at.value === undefined || at.value === null) return
    const node = yield* Json.object(at)
    const type = Json.key(node, "type")
    if (type.value === "Sequence") {
      for (const child of yield* Json.array(Json.key(node, "processors"))) yield* checkPostProcessor(child)
    } else if (!postProcessors.includes(type.value)) {
      yield* Json.fail(
        type,
        `post-processor ${JSON.stringify(type.value)} is not supported; ${postProcessors.join(", ")} are`
      )
    }
  })

/** The parsed content of a tokenizer.json, as flat arrays. */
const compile = (json: unknown, file: string): Either.Either<Compiled, TokenizerError> =>
  Either.gen(function* () {
    const root = yield* Json.object({ file, where: "", value: json })
    const model = yield* Json.object(Json.key(root, "model"))
    const type = Json.key(model, "type")
    if (type.value !== undefined && type.value !== "BPE") {
      return yield* Json.fail(type, `model ${JSON.stringify(type.value)} is not supported; "BPE" is`)
    }
    yield* checkPostProcessor(Json.key(root, "post_processor"))
    const { byteLevel } = yield* PreTokenizer.fromJson(Json.key(root, "pre_tokenizer"))
    yield* Spelling.fromJson(Json.key(root, "decoder"), byteLevel)
    const vocabulary = yield* Vocabulary.readVocabulary(model)
    const added = yield* Vocabulary.readAddedTokens(root, vocabulary)
    const size = yield* Vocabulary.readSize(root, vocabulary, added)
    const bpe = yield* Vocabulary.readBpe(model, { byteLevel, vocabulary, added: new Set(added.map(({ id }) => id)) })
    return {
      ...bpe,
      ...Vocabulary.readTokens({ size, byteLevel, vocabulary, added }),
      byteLevel,
      added,
      normalizer: root.value.normalizer,
      preTokenizer: root.value.pre_tokenizer,
      decoder: root.value.decoder
    }
  })

/**
 * From the parsed content of a tokenizer.json; `file` is its name in errors.
 *
 * @category constructors
 */
export const fromJson = (json: unknown, file = "tokenizer.json"): Either.Either<TokenizerService, TokenizerError> =>
  Either.flatMap(compile(json, file), (compiled) => makeTokenizer(compiled, file))

/**
 * Reads `tokenizer.json` of a model directory. What was read from a large one is kept for the next start: in
 * `PRIMERL_CACHE`, or `primerl` in `XDG_CACHE_HOME` or `~/.cache`; nowhere when `PRIMERL_CACHE` is empty.
 *
 * @category constructors
 */
export const fromDirectory = (directory: string): Effect.Effect<TokenizerService, TokenizerError> =>
  Effect.gen(function* () {
    const file = join(directory, "tokenizer.json")
    const content = yield* Effect.tryPromise({
      try: () => readFile(file),
      catch: (cause) => new TokenizerError({ file, where: "", reason: `cannot be read: ${String(cause)}` })
    })
    const compiled = yield* Cache.through(
      content,
      Effect.try({
        try: (): unknown => JSON.parse(content.toString("utf8")),
        catch: (cause) => new TokenizerError({ file, where: "", reason: `is not JSON: ${String(cause)}` })
      }).pipe(Effect.flatMap((json) => compile(json, file)))
    )
    return yield* makeTokenizer(compiled, file)
  })

/** The tokenizer in a Hugging Face directory. Fails with `TokenizerError`. @category layers */
export const layerFromDirectory = (directory: string): Layer.Layer<Tokenizer, TokenizerError> =>
  Layer.effect(Tokenizer, fromDirectory(directory))
