/** `primerl serve`: a model of this machine for programs that speak OpenAI's protocol. */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Config from "effect/Config"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { WrongCall } from "./exit.ts"
import { Output } from "./Output.ts"
import { Runs } from "./Runs.ts"
import type { Operand } from "./usage.ts"

/** @category syntax */
export const operands: Readonly<Record<string, Operand>> = {
  "--port": "whole",
  "--host": "text",
  "--name": "text",
  "--threads": "count",
  "--max-sequence-length": "count",
  "--api-key-var": "text",
  "--admin-key-var": "text"
}

/** A key that is asked for and not there; a server without it would be open to everyone. @category errors */
export class NoKey extends Data.TaggedError("NoKey")<{ readonly option: string; readonly variable: string }> {
  override get message() {
    return `${this.option}: the environment variable ${this.variable} is not set, or empty; it must hold the key`
  }
}

const keyFrom = (option: string, variable: Option.Option<string>) =>
  Option.match(variable, {
    onNone: () => Effect.succeed(undefined),
    onSome: (name) =>
      Config.redacted(name).pipe(
        Effect.filterOrFail((key) => Redacted.value(key) !== ""),
        Effect.mapError(() => new NoKey({ option, variable: name }))
      )
  })

const directory = Args.text({ name: "MODEL_DIR" }).pipe(
  Args.withDescription("Model directory in Hugging Face layout, such as a checkpoint of a run.")
)

const text = (name: string, pseudo: string, description: string) =>
  Options.text(name).pipe(Options.withPseudoName(pseudo), Options.withDescription(description), Options.optional)

const number = (name: string, description: string) =>
  Options.integer(name).pipe(Options.withPseudoName("N"), Options.withDescription(description))

const options = {
  directory,
  port: number("port", "Listens on this port; 0 takes a free one.").pipe(Options.withDefault(8000)),
  host: text("host", "ADDRESS", "Listens on this address; 127.0.0.1 when left out, which is this machine alone."),
  name: text("name", "NAME", "What clients call the model; the directory's own name when left out."),
  threads: number("threads", "Threads of each engine; all cores when left out.").pipe(Options.optional),
  maxSequenceLength: number(
    "max-sequence-length",
    "Longest prompt plus completion in tokens; as many as the model has positions when left out."
  ).pipe(Options.optional),
  apiKeyVar: text("api-key-var", "VAR", "Environment variable with the key that every request must bring."),
  adminKeyVar: text("admin-key-var", "VAR", "Environment variable with the key of the admin routes, else they are off.")
}

const isLoopback = (host: string) => host === "localhost" || host === "::1" || host.startsWith("127.")

/** @category commands */
export const command = Command.make("serve", options, (given) =>
  Effect.gen(function* () {
    const model = given.directory
    if (model.endsWith(".toml")) {
      const what = `serve takes a model directory, not a configuration (${JSON.stringify(model)}); a run's models are in runs/NAME/checkpoints`
      return yield* new WrongCall({ what })
    }
    if (given.port > 65_535) return yield* new WrongCall({ what: `--port goes up to 65535, got "${given.port}"` })
    const { write, writeError } = yield* Output
    const apiKey = yield* keyFrom("--api-key-var", given.apiKeyVar)
    const adminKey = yield* keyFrom("--admin-key-var", given.adminKeyVar)
    const runs = yield* Runs
    const at = yield* runs.serve({
      model,
      port: given.port,
      host: Option.getOrUndefined(given.host),
      name: Option.getOrUndefined(given.name),
      threads: Option.getOrUndefined(given.threads),
      maxSequenceLength: Option.getOrUndefined(given.maxSequenceLength),
      apiKey,
      adminKey
    })
    yield* write(
      `model: ${at.name} (${model}), sequences of up to ${at.maxSequenceLength} tokens, threads ${at.threads}\n` +
        `admin routes: ${adminKey === undefined ? "off (--admin-key-var opens them)" : "on"}\n` +
        `listening on ${at.url} (Ctrl-C ends it)\n`
    )
    if (at.withoutChat !== undefined) yield* writeError(`no chat, completions only: ${at.withoutChat}\n`)
    if (apiKey === undefined && !isLoopback(at.host)) {
      yield* writeError(`anyone who reaches ${at.host} may use it; --api-key-var asks for a key\n`)
    }
    yield* Effect.onInterrupt(Effect.never, () => writeError("no longer listening\n"))
  }).pipe(Effect.scoped)
).pipe(Command.withDescription("Serves a model over OpenAI's protocol, as a teacher or a judge of other runs."))
