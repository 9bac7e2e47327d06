/** `primerl render`: a conversation as a model reads it, token by token. */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { WrongCall } from "./exit.ts"
import { Output } from "./Output.ts"
import { lazily } from "./options.ts"
import type { Operand } from "./usage.ts"

/** @category syntax */
export const operands: Readonly<Record<string, Operand>> = {
  "--model": "text",
  "--tokenizer": "text",
  "--renderer": "text",
  "--tools": "text",
  "--set": "text",
  "--json": "nothing"
}

const text = (name: string, pseudo: string, description: string) =>
  Options.text(name).pipe(Options.withPseudoName(pseudo), Options.withDescription(description), Options.optional)

const options = {
  file: Args.text({ name: "FILE" }).pipe(
    Args.withDescription("Messages as JSON, a list or {messages, tools}; - reads standard input.")
  ),
  model: text("model", "DIR", "Model directory: its tokenizer, its chat template and the renderer that fits them."),
  tokenizer: text("tokenizer", "DIR", "Directory of the tokenizer, where it is not the model's."),
  renderer: text("renderer", "NAME", "The renderer; the one that the model's files call for when left out."),
  tools: text("tools", "FILE", "Tools as JSON, in the shape of OpenAI, Anthropic or MCP."),
  set: Options.text("set").pipe(
    Options.withPseudoName("key=value"),
    Options.withDescription("Sets one key of the renderer, such as enableThinking=false. May be repeated."),
    Options.repeated
  ),
  json: Options.boolean("json").pipe(Options.withDescription("Prints one JSON document with every token apart."))
}

/** Values as JSON where they are JSON, else as text. */
const configOf = (given: ReadonlyArray<string>) =>
  Either.map(
    Either.all(
      given.map((one) => {
        const at = one.indexOf("=")
        const value = one.slice(at + 1)
        const json = Either.try((): unknown => JSON.parse(value))
        return at < 1
          ? Either.left(new WrongCall({ what: `--set takes key=value, got ${JSON.stringify(one)}` }))
          : Either.right([one.slice(0, at), Either.getOrElse(json, (): unknown => value)] as const)
      })
    ),
    (pairs): Readonly<Record<string, unknown>> => Object.fromEntries(pairs)
  )

/** @category commands */
export const command = Command.make("render", options, (given) =>
  Effect.gen(function* () {
    const model = Option.getOrUndefined(given.model)
    const tokenizer = Option.getOrUndefined(given.tokenizer)
    if (model === undefined && tokenizer === undefined) {
      const what = "render needs --model DIR, or --tokenizer DIR with --renderer NAME, to know what tokens there are"
      return yield* new WrongCall({ what })
    }
    const config = yield* configOf(given.set)
    const { colour, live, size, unicode, write, written } = yield* Output
    const { render } = yield* lazily(() => import("./rendering.ts"))
    const rendering = yield* render({
      file: given.file,
      ...{ model, tokenizer, config },
      renderer: Option.getOrElse(given.renderer, () => "auto"),
      tools: Option.getOrUndefined(given.tools)
    })
    const { documentOf, whole } = yield* lazily(() => import("./display/RenderText.ts"))
    const columns = live ? (yield* size).columns : Number.POSITIVE_INFINITY
    yield* write(
      given.json ? `${JSON.stringify(documentOf(rendering))}\n` : whole(rendering, { colour, unicode }, columns)
    )
    yield* written
  })
).pipe(
  Command.withDescription("Shows a conversation as a model reads it: its tokens by role, content and what is trained.")
)
