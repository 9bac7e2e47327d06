/** The arguments that several commands take, and what each command takes: one list for parsing and for suggestions. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"

/** @category arguments */
export const files = Args.text({ name: "FILE" }).pipe(
  Args.withDescription("Configuration files (TOML), laid over each other from left to right."),
  Args.atLeast(1)
)

/** @category options */
export const set = Options.text("set").pipe(
  Options.withPseudoName("key=value"),
  Options.withDescription("Sets one key after all files, such as trainer.optim.lr=1e-3. May be repeated."),
  Options.repeated
)

/** @category options */
export const resume = Options.boolean("resume").pipe(
  Options.withDescription("Continues the run of this name from where it stopped.")
)

/** @category options */
export const model = Options.text("model").pipe(
  Options.withPseudoName("DIR"),
  Options.withDescription("Evaluates the policy in this directory, such as a checkpoint, in place of model.name."),
  Options.optional
)

/** @category options */
export const examples = Options.integer("examples").pipe(
  Options.withPseudoName("N"),
  Options.withDescription("Evaluates this many examples of each source."),
  Options.optional
)

/** Loads a part of the program when a command first needs it, so that help does not wait for it. @category loading */
export const lazily = <A>(load: () => Promise<A>): Effect.Effect<A> => Effect.promise(load)
