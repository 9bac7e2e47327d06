/** What is done to a text before it is cut. What would change token ids and is not known is refused by name. */
import * as Either from "effect/Either"
import type { TokenizerError } from "../Tokenizer.ts"
import * as Json from "./Json.ts"

type Normalize = (text: string) => string

const forms: ReadonlyArray<string> = ["NFC", "NFD", "NFKC", "NFKD"]

/** From the `normalizer` of a tokenizer.json; an empty text stays empty. @category constructors */
export const fromJson = (at: Json.At): Either.Either<Normalize, TokenizerError> =>
  Either.gen(function* () {
    if (at.value === undefined || at.value === null) return (text: string) => text
    const node = yield* Json.object(at)
    const type = yield* Json.string(Json.key(node, "type"))
    if (forms.includes(type)) return (text: string) => text.normalize(type)
    switch (type) {
      case "Sequence": {
        const list = yield* Json.array(Json.key(node, "normalizers"))
        const steps = yield* Either.all(list.map(fromJson))
        return (text: string) => steps.reduce((result, step) => step(result), text)
      }
      case "Prepend": {
        const prefix = yield* Json.string(Json.key(node, "prepend"))
        return (text: string) => (text === "" ? text : prefix + text)
      }
      case "Replace": {
        const pattern = yield* Json.object(Json.key(node, "pattern"))
        const sought = yield* Json.string(Json.key(pattern, "String"))
        const content = yield* Json.string(Json.key(node, "content"))
        return (text: string) => text.replaceAll(sought, () => content)
      }
      default:
        return yield* Json.fail(
          Json.key(node, "type"),
          `normalizer "${type}" is not supported; ${forms.join(", ")}, Prepend, Replace, Sequence and none are`
        )
    }
  })
