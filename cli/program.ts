/** All commands as one program. */
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Span from "@effect/cli/HelpDoc/Span"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as algo from "./algo.ts"
import { plain } from "./display/Style.ts"
import * as doctor from "./doctor.ts"
import * as evaluate from "./eval.ts"
import { WrongCall } from "./exit.ts"
import * as Log from "./log.ts"
import * as merge from "./merge.ts"
import { Output, type OutputService } from "./Output.ts"
import * as plan from "./plan.ts"
import * as render from "./render.ts"
import * as serve from "./serve.ts"
import * as sft from "./sft.ts"
import * as trace from "./trace.ts"
import * as train from "./train.ts"
import { normalise, type Syntax } from "./usage.ts"

const configuration = "a configuration file (TOML)"

const syntax: Syntax = {
  train: { options: train.operands, files: configuration },
  sft: { options: sft.operands, files: configuration },
  eval: { options: evaluate.operands, files: configuration },
  plan: { options: plan.operands, files: configuration },
  serve: { options: serve.operands, files: "a model directory, such as examples/reverse-text/policy" },
  merge: { options: {}, files: "a model directory, an adapter's and one to be made" },
  "algo explain": {
    options: algo.explainOperands,
    files: "a file of rollouts, such as runs/NAME/rollouts/step_000001.jsonl"
  },
  "algo list": { options: {}, files: undefined },
  doctor: { options: {}, files: undefined },
  trace: { options: trace.operands, files: "a file of rollouts, such as runs/NAME/rollouts/step_000001.jsonl" },
  render: { options: render.operands, files: "a file with messages (JSON), or - for standard input" }
}

const root = Command.make("primerl").pipe(
  Command.withDescription("Trains language-model agents by reinforcement learning."),
  Command.withSubcommands([
    train.command,
    sft.command,
    evaluate.command,
    plan.command,
    serve.command,
    merge.command,
    algo.command,
    trace.command,
    render.command,
    doctor.command
  ])
)

const footer = HelpDoc.blocks([
  HelpDoc.h1("EXAMPLES"),
  HelpDoc.p("primerl plan examples/reverse-text/rl.toml"),
  HelpDoc.p("primerl train examples/reverse-text/rl.toml --set max_steps=20"),
  HelpDoc.p("primerl train examples/reverse-text/rl.toml --resume"),
  HelpDoc.p("primerl algo explain runs/reverse-text/rollouts/step_000001.jsonl"),
  HelpDoc.p("primerl trace runs/reverse-text/rollouts/step_000001.jsonl"),
  HelpDoc.p("primerl render conversation.json --model examples/reverse-text/policy"),
  HelpDoc.p("primerl serve examples/reverse-text/policy --port 8001"),
  HelpDoc.p("primerl merge examples/reverse-text/policy runs/NAME/checkpoints/step_40 merged"),
  HelpDoc.h1("ALSO"),
  HelpDoc.p("primerl COMMAND --help, primerl --version, primerl --completions bash (or zsh, fish, sh)")
])

/** A command's usage line begins with the name of the program, and that of the command's group. */
const named = (help: string, group: ReadonlyArray<string>): string =>
  help.replace(/^\$ (?!primerl\b)(?=\w)/m, `$ ${["primerl", ...group].join(" ")} `)

/** The word before a command of two words. */
const groupOf = ([first = "", second = ""]: ReadonlyArray<string>): ReadonlyArray<string> =>
  `${first} ${second}` in syntax ? [first] : []

/** Help goes where all output goes; the parser's own errors are said in one line elsewhere. */
const quiet = (
  console: Console.Console,
  { colour, write }: OutputService,
  group: ReadonlyArray<string>
): Console.Console => ({
  ...console,
  error: () => Effect.void,
  log: (...lines) => {
    const text = lines.join(" ")
    return write(`${named(colour ? text : plain(text), group)}\n`)
  }
})

/**
 * Runs the command that `args` name; `args` are without node and the script.
 *
 * @category running
 */
export const program = (args: ReadonlyArray<string>, version: string) => {
  const run = Command.run(root, {
    name: "primerl",
    version,
    executable: "primerl",
    summary: Span.text("reinforcement learning for language-model agents"),
    footer
  })
  return Effect.gen(function* () {
    const normal = yield* Either.mapLeft(normalise(args, syntax), (what) => new WrongCall({ what }))
    const console = yield* Console.consoleWith(Effect.succeed)
    const output = yield* Output
    yield* Effect.withConsole(run(["node", "primerl", ...normal]), quiet(console, output, groupOf(normal))).pipe(
      Effect.provide(Log.layer(output))
    )
  }).pipe(Effect.provide(CliConfig.layer({ showBuiltIns: false })))
}
