/** The ids that end a model's text: `eos_token_id` of its generation_config.json, or else of its config.json. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { reasonInWords } from "../internal/FileWords.ts"
import { ModelError } from "../Trainer/ModelError.ts"

const Eos = Schema.parseJson(
  Schema.Struct({
    eos_token_id: Schema.optional(Schema.NullOr(Schema.Union(Schema.Int, Schema.Array(Schema.Int))))
  })
)
const parse = Schema.decodeUnknownEither(Eos)

/** Undefined where there is no such file, or none in it. A file that does not read as it should says nothing of ends. */
const readFrom = (path: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const text = yield* fs.readFileString(path).pipe(
      Effect.catchIf(
        (error) => error._tag === "SystemError" && error.reason === "NotFound",
        () => Effect.succeed("{}")
      ),
      Effect.mapError((error) => new ModelError({ path, reason: reasonInWords(error) }))
    )
    const { eos_token_id: ids } = yield* Either.mapLeft(parse(text), (error) => {
      const [issue] = ParseResult.ArrayFormatter.formatErrorSync(error)
      return new ModelError({ path, reason: `eos_token_id cannot be read: ${issue?.message ?? error.message}` })
    })
    return typeof ids === "number" ? [ids] : (ids ?? undefined)
  })

/** None where the files name none. @category constructors */
export const read = (directory: string): Effect.Effect<ReadonlyArray<number>, ModelError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const chosen = yield* readFrom(`${directory}/generation_config.json`)
    return chosen ?? (yield* readFrom(`${directory}/config.json`)) ?? []
  })
