/** From an `env = { id = "…" }` to an environment: a built-in one by its name, a user's by the path or package of its module. */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Stream from "effect/Stream"
import type { EnvironmentSpec } from "../Config.ts"
import type { Environment } from "../Environment.ts"
import { didYouMean } from "../internal/Nearest.ts"
import type { Message, ToolSpec } from "../Message.ts"
import * as ModuleLoader from "../ModuleLoader.ts"
import * as Reward from "../Reward.ts"
import * as ReverseText from "../tasksets/ReverseText.ts"
import * as Terminal from "../tasksets/Terminal.ts"

/** @category errors */
export class EnvironmentNotFound extends Data.TaggedError("EnvironmentNotFound")<{
  readonly id: string
  readonly reason: string
  /** nothing goes by that name, as opposed to a module that is there and does not do */
  readonly missing?: boolean | undefined
}> {
  override get message() {
    const what = `environment "${this.id}": ${this.reason}`
    if (this.missing !== true || ModuleLoader.isPath(this.id)) return what
    const known = Object.keys(builtIn)
    return `${what}. ${didYouMean(this.id, known)}Built in: ${known.join(", ")}; one of your own is named by its path (./my-environment.ts) or its package`
  }
}

/** A conversation to learn from, messages in order. @category model */
export type Conversation = ReadonlyArray<Message>

interface Entry {
  readonly options: ReadonlyArray<string>
  readonly environment: (seed: number) => Effect.Effect<Environment, { readonly message: string }>
  readonly demonstrations: (seed: number) => Stream.Stream<Conversation, { readonly message: string }>
  /** what the model of a demonstration is told that it may call */
  readonly tools?: ReadonlyArray<ToolSpec> | undefined
}

const builtIn: Readonly<Record<string, Entry>> = {
  "reverse-text": {
    options: [],
    environment: (seed) => ReverseText.environment({ seed }),
    demonstrations: (seed) => ReverseText.demonstrations(seed)
  },
  terminal: {
    options: [],
    environment: (seed) => Effect.succeed(Terminal.environment({ seed })),
    demonstrations: (seed) => Terminal.demonstrations(seed),
    tools: [Terminal.spec]
  }
}

const known = ({ id, ...options }: EnvironmentSpec): Effect.Effect<Entry | undefined, EnvironmentNotFound> => {
  const entry = Object.hasOwn(builtIn, id) ? builtIn[id] : undefined
  const extra = entry && Object.keys(options).find((option) => !entry.options.includes(option))
  return extra === undefined
    ? Effect.succeed(entry)
    : Effect.fail(new EnvironmentNotFound({ id, reason: `it has no option "${extra}"` }))
}

const isEnvironment = (value: unknown): value is Environment =>
  Predicate.hasProperty(value, "run") && typeof value.run === "function" && Predicate.hasProperty(value, "examples")

/**
 * The environment that a config names. A user's module exports it as default, or a function from the options beside the
 * id to it (its promise, or an Effect of it).
 *
 * @category constructors
 */
export const resolve = (spec: EnvironmentSpec, seed: number): Effect.Effect<Environment, EnvironmentNotFound> =>
  Effect.gen(function* () {
    const { id, ...options } = spec
    const refused = (reason: string) => new EnvironmentNotFound({ id, reason })
    const entry = yield* known(spec)
    if (entry !== undefined) return yield* Effect.mapError(entry.environment(seed), (cause) => refused(cause.message))
    const found = yield* Effect.mapError(
      ModuleLoader.load(id, process.cwd()),
      ({ kind, reason }) => new EnvironmentNotFound({ id, reason, missing: kind === "not found" })
    )
    const made =
      typeof found === "function"
        ? yield* Effect.mapError(
            Reward.evaluate(() => (found as (options: unknown) => Reward.Value<unknown>)({ ...options, seed })),
            (reason) => refused(`its default export failed: ${reason}`)
          )
        : found
    return isEnvironment(made)
      ? made
      : yield* refused("its default export is neither Environment.make({ … }) nor a function that returns one")
  })

/** Endless conversations that show what an environment asks for. @category constructors */
export const demonstrations = (
  spec: EnvironmentSpec,
  seed: number
): Effect.Effect<Stream.Stream<Conversation, EnvironmentNotFound>, EnvironmentNotFound> =>
  Effect.flatMap(known(spec), (entry) =>
    entry === undefined
      ? Effect.fail(
          new EnvironmentNotFound({
            id: spec.id,
            reason: "it has no demonstrations; give data.path a JSONL file instead"
          })
        )
      : Effect.succeed(
          Stream.mapError(
            entry.demonstrations(seed),
            (cause) => new EnvironmentNotFound({ id: spec.id, reason: cause.message })
          )
        )
  )

/** The tools of a built-in environment's demonstrations; undefined when it has none. @category constructors */
export const tools = (spec: EnvironmentSpec): Effect.Effect<ReadonlyArray<ToolSpec> | undefined, EnvironmentNotFound> =>
  Effect.map(known(spec), (entry) => entry?.tools)
