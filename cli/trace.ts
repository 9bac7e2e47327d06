/** `primerl trace`: conversations that were recorded, as trees. */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { NoSuchRollout } from "./algo.ts"
import { Output } from "./Output.ts"
import { lazily } from "./options.ts"
import type { Entry } from "./traces.ts"
import type { Operand } from "./usage.ts"

/** @category syntax */
export const operands: Readonly<Record<string, Operand>> = { "--rollout": "text", "--json": "nothing" }

const options = {
  files: Args.text({ name: "FILE" }).pipe(
    Args.withDescription("Rollouts of a run, runs/NAME/rollouts/step_*.jsonl, or traces, one a line."),
    Args.atLeast(1)
  ),
  rollout: Options.text("rollout").pipe(
    Options.withPseudoName("ID"),
    Options.withDescription("Shows this one as a tree; without it several are listed, and one alone is shown."),
    Options.optional
  ),
  json: Options.boolean("json").pipe(Options.withDescription("Prints one JSON document with every message apart."))
}

const asText = (entries: ReadonlyArray<Entry>, isList: boolean) =>
  Effect.gen(function* () {
    const { colour, live, size, unicode, write } = yield* Output
    const Text = yield* lazily(() => import("./display/TraceText.ts"))
    const columns = live ? (yield* size).columns : 160
    for (const { absent, id, trace } of entries) {
      if (trace === undefined) yield* write(`${id}  does not count: ${absent}\n`)
      else if (isList) yield* write(`${id}  ${Text.summary(trace)}\n`)
      else yield* write(Text.whole(id, trace, { colour, unicode }, columns))
    }
    if (isList) yield* write(`\n${entries.length} traces; --rollout ID shows one as a tree\n`)
  })

const asJson = (entries: ReadonlyArray<Entry>) =>
  Effect.gen(function* () {
    const { write } = yield* Output
    const { documentOf } = yield* lazily(() => import("./display/TraceJson.ts"))
    yield* write("[")
    for (const [i, entry] of entries.entries()) {
      yield* write(`${i === 0 ? "" : ","}\n${JSON.stringify(documentOf(entry))}`)
    }
    yield* write("\n]\n")
  })

/** @category commands */
export const command = Command.make("trace", options, ({ files, json, rollout }) =>
  Effect.gen(function* () {
    const { read } = yield* lazily(() => import("./traces.ts"))
    const { writeError, written } = yield* Output
    const { entries, notes } = yield* read(files)
    const only = Option.getOrUndefined(rollout)
    const shown = entries.filter(({ id }) => only === undefined || id === only)
    if (only !== undefined && shown.length === 0) {
      return yield* new NoSuchRollout({ id: only, known: entries.map(({ id }) => id) })
    }
    yield* json ? asJson(shown) : asText(shown, only === undefined && shown.length > 1)
    for (const note of notes) yield* writeError(`primerl: ${note}\n`)
    yield* written
  })
).pipe(Command.withDescription("Shows a recorded conversation as a tree: messages, tokens, forks, and how it ended."))
