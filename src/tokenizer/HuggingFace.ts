/**
 * Reads a Hugging Face `tokenizer.json`: byte-level BPE and BPE with byte fallback. What would change token ids and is
 * not supported is refused by name; encoding itself cannot fail, since every byte has a token.
 */
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import { type Encoding, Tokenizer, TokenizerError, type TokenizerService } from "../Tokenizer.ts"
import * as Bpe from "./Bpe.ts"
import * as Json from "./Json.ts"
import * as PreTokenizer from "./PreTokenizer.ts"
import * as TokenBytes from "./TokenBytes.ts"
import * as Vocabulary from "./Vocabulary.ts"

const readNormalizer = (at: Json.At): Either.Either<(text: string) => string, TokenizerError> =>
  Either.gen(function* () {
    if (at.value === undefined || at.value === null) return (text: string) => text
    const node = yield* Json.object(at)
    const type = yield* Json.string(Json.key(node, "type"))
    if (type === "Sequence") {
      const list = yield* Json.array(Json.key(node, "normalizers"))
      const steps = yield* Either.all(list.map(readNormalizer))
      return (text: string) => steps.reduce((result, step) => step(result), text)
    }
    if (type === "NFC") return (text: string) => text.normalize("NFC")
    return yield* Json.fail(Json.key(node, "type"), `normalizer "${type}" is not supported; NFC and none are`)
  })

/** Accepts a chain of parts of the given types, and an absent one. */
const checkTypes = (at: Json.At, options: { part: string; children: string; types: ReadonlyArray<string> }) => {
  const check = (here: Json.At): Either.Either<void, TokenizerError> =>
    Either.gen(function* () {
      if (here.value === undefined || here.value === null) return
      const node = yield* Json.object(here)
      const type = yield* Json.string(Json.key(node, "type"))
      if (type === "Sequence") {
        for (const child of yield* Json.array(Json.key(node, options.children))) yield* check(child)
      } else if (!options.types.includes(type)) {
        yield* Json.fail(
          Json.key(node, "type"),
          `${options.part} "${type}" is not supported; ${options.types.join(", ")} are`
        )
      }
    })
  return check(at)
}

const makeEncode = (options: {
  readonly normalize: (text: string) => string
  readonly split: PreTokenizer.PreTokenizer["split"]
  readonly idsOf: (piece: string) => Int32Array
  readonly lengthOf: (id: number) => number
}) => {
  const { idsOf, lengthOf, normalize, split } = options
  return (text: string): Encoding => {
    const pieces: Array<Int32Array> = []
    const prefixes: Array<boolean> = []
    let count = 0
    split(normalize(text), (piece, prefixed) => {
      const ids = idsOf(piece)
      pieces.push(ids)
      prefixes.push(prefixed)
      count += ids.length
    })
    const encoding = { ids: new Int32Array(count), starts: new Int32Array(count), ends: new Int32Array(count) }
    let at = 0
    let byte = 0
    for (let index = 0; index < pieces.length; index++) {
      // a space that the text does not have takes no byte of it
      let absent = prefixes[index] ? 1 : 0
      for (const id of pieces[index]!) {
        encoding.ids[at] = id
        encoding.starts[at] = byte
        byte += lengthOf(id) - absent
        encoding.ends[at] = byte
        absent = 0
        at++
      }
    }
    return encoding
  }
}

/**
 * From the parsed content of a tokenizer.json; `file` is its name in errors.
 *
 * @category constructors
 */
export const fromJson = (json: unknown, file = "tokenizer.json"): Either.Either<TokenizerService, TokenizerError> =>
  Either.gen(function* () {
    const root = yield* Json.object({ file, where: "", value: json })
    const model = yield* Json.object(Json.key(root, "model"))
    const type = Json.key(model, "type")
    if (type.value !== undefined && type.value !== "BPE") {
      return yield* Json.fail(type, `model ${JSON.stringify(type.value)} is not supported; "BPE" is`)
    }
    const { byteLevel, split } = yield* PreTokenizer.fromJson(Json.key(root, "pre_tokenizer"))
    const normalizer = yield* readNormalizer(Json.key(root, "normalizer"))
    // half a surrogate pair has no UTF-8; it reads as U+FFFD
    const normalize = (text: string) => normalizer(text).replace(/\p{Surrogate}/gu, "\ufffd")
    yield* checkTypes(Json.key(root, "decoder"), {
      part: "decoder",
      children: "decoders",
      types: byteLevel ? ["ByteLevel"] : ["ByteFallback", "Fuse"]
    })
    // these add tokens only to texts that are encoded with specials, which `encode` never does
    yield* checkTypes(Json.key(root, "post_processor"), {
      part: "post-processor",
      children: "processors",
      types: ["ByteLevel", "TemplateProcessing", "RobertaProcessing", "BertProcessing"]
    })
    const vocabulary = yield* Vocabulary.readVocabulary(model)
    const addedTokens = yield* Vocabulary.readAddedTokens(root, vocabulary)
    const size = yield* Vocabulary.readSize(root, [...vocabulary.values(), ...addedTokens.map(({ id }) => id)])
    const added = new Set(addedTokens.map(({ id }) => id))
    const skipped = new Set(addedTokens.filter(({ special }) => special).map(({ id }) => id))
    const idOfAdded = new Map(addedTokens.map(({ content, id }) => [content, id]))
    const parts = yield* Vocabulary.readBpe(model, { byteLevel, vocabulary, added })
    const bytes = TokenBytes.make(Vocabulary.bytesOfIds({ size, byteLevel, vocabulary, added: addedTokens }))
    return {
      vocabularySize: size,
      encode: makeEncode({ normalize, split, idsOf: Bpe.make(parts), lengthOf: bytes.lengthOf }),
      normalize,
      decode: (ids, options) =>
        bytes.decode(ids, options?.skipSpecialTokens === true ? (id) => skipped.has(id) : undefined),
      decoder: bytes.decoder,
      special: (content) => idOfAdded.get(content),
      isSpecial: (id) => added.has(id)
    } satisfies TokenizerService
  })

/**
 * Reads `tokenizer.json` of a model directory.
 *
 * @category constructors
 */
export const fromDirectory = (directory: string): Effect.Effect<TokenizerService, TokenizerError> =>
  Effect.gen(function* () {
    const file = join(directory, "tokenizer.json")
    const text = yield* Effect.tryPromise({
      try: () => readFile(file, "utf8"),
      catch: (cause) => new TokenizerError({ file, where: "", reason: `cannot be read: ${String(cause)}` })
    })
    const json = yield* Effect.try({
      try: (): unknown => JSON.parse(text),
      catch: (cause) => new TokenizerError({ file, where: "", reason: `is not JSON: ${String(cause)}` })
    })
    return yield* fromJson(json, file)
  })

/** The tokenizer in a Hugging Face directory. Fails with `TokenizerError`. @category layers */
export const layerFromDirectory = (directory: string): Layer.Layer<Tokenizer, TokenizerError> =>
  Layer.effect(Tokenizer, fromDirectory(directory))
