/** Which observations ECHO trains on, and how much: a weight for each role, and a module of the user's that narrows. */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Keep } from "../../Credit.ts"
import * as ModuleLoader from "../../ModuleLoader.ts"
import type { Rollout } from "../../Rollout.ts"
import type { Node } from "../../Trace.ts"

/** `{ alpha = 0.1 }`, or the number alone. */
const Alpha = Schema.transform(
  Schema.Union(Schema.Number, Schema.Struct({ alpha: Schema.Number })).annotations({
    message: () => ({ message: "it must be a weight such as 0.1, or { alpha = 0.1 }", override: true })
  }),
  Schema.Number.pipe(
    Schema.filter(
      (weight) =>
        (Math.fround(weight) > 0 && Math.fround(weight) < Number.POSITIVE_INFINITY) ||
        "it must be a number above 0, as float32 holds it"
    )
  ),
  {
    strict: true,
    decode: (given) => (typeof given === "number" ? given : given.alpha),
    encode: (alpha) => alpha
  }
)

/** The weight of each role; a table that is given replaces the default. */
export const Roles = Schema.optionalWith(
  Schema.partialWith(Schema.Struct({ system: Alpha, user: Alpha, assistant: Alpha, tool: Alpha }), {
    exact: true
  }).pipe(
    Schema.annotations({
      // what is wrong inside a table is told by its keys
      message: ({ actual }) => ({
        message: "it must be a table of weights by role, such as { tool = 0.1 }",
        override: typeof actual !== "object" || actual === null || Array.isArray(actual)
      })
    }),
    Schema.filter((roles) => Object.keys(roles).length > 0 || "at least one role must have a weight")
  ),
  { exact: true, default: () => ({ tool: 0.1 }) }
)

/** Where the user's module is, and what it is given besides. */
export const Filter = Schema.Struct({
  import_path: Schema.NonEmptyString,
  kwargs: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.Unknown }), {
    exact: true,
    default: () => ({})
  })
}).annotations({
  // what is wrong inside a table is told by its keys
  message: ({ actual }) => ({
    message: 'it must be a table such as { import_path = "./filter.ts" }',
    override: typeof actual !== "object" || actual === null || Array.isArray(actual)
  })
})

/** A module that holds no filter. */
export class NoFilter extends Data.TaggedError("NoFilter")<{ readonly path: string }> {
  override get message() {
    return `the default export of filter ${this.path} is no function (message, rollout, kwargs) => true, false or a mask`
  }
}

type UserFilter = (message: Node, rollout: Rollout, kwargs: Readonly<Record<string, unknown>>) => ReturnType<Keep>

/** The filter of a config, for each rollout; undefined when none is named. */
export const loadFilter = (
  filter: typeof Filter.Type | undefined
): Effect.Effect<((rollout: Rollout) => Keep) | undefined, ModuleLoader.ModuleError | NoFilter> => {
  if (filter === undefined) return Effect.succeed(undefined)
  const { import_path: path, kwargs } = filter
  return Effect.flatMap(ModuleLoader.load(path, process.cwd()), (found) =>
    typeof found === "function"
      ? Effect.succeed((rollout) => (message) => (found as UserFilter)(message, rollout, kwargs))
      : new NoFilter({ path })
  )
}
