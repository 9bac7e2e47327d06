/** `primerl algo`: what algorithms there are, and what one does with rollouts that were made, token by token. */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { didYouMean } from "../src/internal/Nearest.ts"
import { type Ended, plannedOf } from "../src/Rollout.ts"
import { componentName, type Explanation } from "../src/testing/Explanation.ts"
import { Output } from "./Output.ts"
import { lazily } from "./options.ts"
import { Runs } from "./Runs.ts"
import type { Operand } from "./usage.ts"

/** @category syntax */
export const explainOperands: Readonly<Record<string, Operand>> = {
  "--algo": "text",
  "--config": "text",
  "--set": "text",
  "--rollout": "text",
  "--tokenizer": "text",
  "--json": "nothing"
}

/** A rollout that is in none of the files. @category errors */
export class NoSuchRollout extends Data.TaggedError("NoSuchRollout")<{
  readonly id: string
  readonly known: ReadonlyArray<string>
}> {
  override get message() {
    const { id, known } = this
    const first = known.slice(0, 5).join(", ")
    const all = known.length > 5 ? `${first}, … (${known.length} in all)` : first
    return `there is no rollout "${id}". ${didYouMean(id, known)}There are: ${all}`
  }
}

/** Sources whose rollouts could not be explained, where those of others were. @category errors */
export class PartlyExplained extends Data.TaggedError("PartlyExplained")<{
  readonly of: number
  readonly failed: ReadonlyArray<{ readonly source: string; readonly message: string }>
}> {
  override get message() {
    const { failed, of } = this
    return [
      `${failed.length} of ${of} sources could not be explained`,
      ...failed.map(({ message, source }) => `  ${source}: ${message}`)
    ].join("\n")
  }
}

const files = Args.text({ name: "TRACE" }).pipe(
  Args.withDescription("Rollouts that a run wrote down: runs/NAME/rollouts/step_*.jsonl."),
  Args.atLeast(1)
)

const text = (name: string, pseudo: string, description: string) =>
  Options.text(name).pipe(Options.withPseudoName(pseudo), Options.withDescription(description), Options.optional)

const options = {
  files,
  algo: text("algo", "TYPE", "A built-in algorithm, a file (./mine.ts) or a package; the run's own when left out."),
  config: text("config", "FILE", "The algorithm's keys as TOML, or the configuration of a run."),
  set: Options.text("set").pipe(
    Options.withPseudoName("algo.key=value"),
    Options.withDescription("Sets one key of the algorithm, such as algo.length_penalty.type=linear. May be repeated."),
    Options.repeated
  ),
  rollout: text("rollout", "ID", "Shows this rollout alone; the others of its group are still scored with it."),
  tokenizer: text(
    "tokenizer",
    "DIR",
    "Reads the tokens with the tokenizer in this directory; the run's model when left out."
  ),
  json: Options.boolean("json").pipe(Options.withDescription("Prints one JSON document with every token apart."))
}

/** Rollouts by source, in the order in which the sources are first met. */
const bySource = (rollouts: ReadonlyArray<Ended>): ReadonlyMap<string, ReadonlyArray<Ended>> => {
  const groups = new Map<string, Array<Ended>>()
  for (const ended of rollouts) {
    const { source } = plannedOf(ended)
    const group = groups.get(source) ?? []
    groups.set(source, group)
    group.push(ended)
  }
  return groups
}

const asText = (explanations: ReadonlyArray<Explanation>, only: string | undefined) =>
  Effect.gen(function* () {
    const { colour, live, size, unicode, write } = yield* Output
    const Text = yield* lazily(() => import("./display/ExplanationText.ts"))
    const columns = live ? (yield* size).columns : 160
    for (const explanation of explanations) {
      for (const one of explanation.rollouts) {
        if (only === undefined || one.id === only) yield* write(Text.rollout(one, { colour, unicode }, columns))
      }
      if (only === undefined) yield* write(Text.totals(explanation))
    }
  })

/** Written piece by piece: a step's tokens together can be longer than a text may be. */
const asJson = (explanations: ReadonlyArray<Explanation>, only: string | undefined) =>
  Effect.gen(function* () {
    const { write } = yield* Output
    yield* write("[")
    for (const [index, { rollouts, ...rest }] of explanations.entries()) {
      yield* write(`${index === 0 ? "" : ","}\n${JSON.stringify(rest).slice(0, -1)},"rollouts":[`)
      const shown = rollouts.filter(({ id }) => only === undefined || id === only)
      for (const [at, one] of shown.entries()) yield* write(`${at === 0 ? "" : ","}\n${JSON.stringify(one)}`)
      yield* write("\n]}")
    }
    yield* write("\n]\n")
  })

const explain = Command.make("explain", options, ({ algo, config, files, json, rollout, set, tokenizer }) =>
  Effect.gen(function* () {
    const runs = yield* Runs
    const { read } = yield* lazily(() => import("./rollouts.ts"))
    const { choose } = yield* lazily(() => import("./algorithmChoice.ts"))
    const { writeError, written } = yield* Output
    const { notes, rollouts } = yield* read(files)
    const only = Option.getOrUndefined(rollout)
    const known = rollouts.map((ended) => plannedOf(ended).id)
    if (only !== undefined && !known.includes(only)) return yield* new NoSuchRollout({ id: only, known })
    const { algorithmOf, maxSequenceLength, model } = yield* choose({
      files,
      algo: Option.getOrUndefined(algo),
      config: Option.getOrUndefined(config),
      set
    })
    const asked = Array.from(bySource(rollouts)).filter(
      ([, rollouts]) => only === undefined || rollouts.some((ended) => plannedOf(ended).id === only)
    )
    // A teacher that is gone is no reason to say nothing of the sources that never ask it.
    const [failed, explained] = yield* Effect.partition(asked, ([source, rollouts]) =>
      runs
        .explain({
          algorithm: algorithmOf(source),
          rollouts,
          model,
          tokenizer: Option.getOrUndefined(tokenizer),
          maxSequenceLength
        })
        .pipe(Effect.mapError((error) => ({ error, source })))
    )
    if (explained.length === 0 && failed[0] !== undefined) return yield* Effect.fail(failed[0].error)
    const explanations = explained.map(({ explanation }) => explanation)
    yield* json ? asJson(explanations, only) : asText(explanations, only)
    const all = new Set([...notes, ...explained.flatMap(({ notes }) => notes)])
    for (const note of all) yield* writeError(`primerl: ${note}\n`)
    yield* written
    if (failed.length > 0) {
      return yield* new PartlyExplained({
        of: asked.length,
        failed: failed.map(({ error, source }) => ({ source, message: error.message }))
      })
    }
  })
).pipe(Command.withDescription("Says of every token of a run's rollouts what the algorithm does with it, and why."))

/** What each built-in algorithm is, in a line. @category texts */
export const about: Readonly<Record<string, string>> = {
  grpo: "reward less the mean reward of the group",
  max_rl: "reward less the mean reward of the group, over that mean",
  rae: "reward less what the seat has earned so far",
  hierarchical_grpo: "reward less the mean reward of the seat's peers, in the episode or across the group",
  opd: "a teacher's log-probability of what was sampled",
  opsd: "the policy's own log-probability of it after a demonstration",
  sft: "cross-entropy on what a frozen model sampled, whatever the reward",
  echo: "as grpo, and cross-entropy on what the environment answered"
}

const list = Command.make("list", {}, () =>
  Effect.gen(function* () {
    const { write, written } = yield* Output
    const algorithms = yield* (yield* Runs).algorithms
    const rows = [
      ["type", "loss on actions", "waits for", "what it goes by"],
      ...algorithms.map(({ actionLoss, dependsOn, type }) => [
        type,
        componentName(actionLoss),
        dependsOn.name === "self" ? "nothing" : `its ${dependsOn.name}`,
        about[type] ?? ""
      ])
    ]
    const widths = [0, 1, 2].map((column) => Math.max(...rows.map((row) => row[column]!.length)))
    for (const row of rows) {
      yield* write(
        `${row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join("  ")
          .trimEnd()}\n`
      )
    }
    yield* write("\nOne of your own is named by its path (./mine.ts) or its package.\n")
    yield* written
  })
).pipe(Command.withDescription("Prints the built-in algorithms."))

/** @category commands */
export const command = Command.make("algo").pipe(
  Command.withDescription("Shows algorithms, and what they do with rollouts."),
  Command.withSubcommands([explain, list])
)
