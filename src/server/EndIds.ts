/** The ids that end a model's text: `eos_token_id` of its generation_config.json, or else of its config.json. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

const Eos = Schema.parseJson(Schema.Struct({ eos_token_id: Schema.Union(Schema.Int, Schema.Array(Schema.Int)) }))
const parse = Schema.decodeUnknownOption(Eos)

const readFrom = (file: string): Effect.Effect<Option.Option<ReadonlyArray<number>>, never, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(file)).pipe(
    Effect.map((text) => Option.map(parse(text), ({ eos_token_id: ids }) => (typeof ids === "number" ? [ids] : ids))),
    Effect.orElseSucceed(Option.none)
  )

/** None where the files name none. @category constructors */
export const read = (directory: string): Effect.Effect<ReadonlyArray<number>, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const chosen = yield* readFrom(`${directory}/generation_config.json`)
    const found = Option.isSome(chosen) ? chosen : yield* readFrom(`${directory}/config.json`)
    return Option.getOrElse(found, () => [])
  })
