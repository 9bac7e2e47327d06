/**
 * Loads modules that a config names: a file of the user's or an installed package. Node's own import comes first; jiti
 * reads TypeScript where this Node cannot. Invariant: a module runs once, and what it throws is told as its own error.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { pathToFileURL } from "node:url"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import { inWords } from "./internal/inWords.ts"
import { missingPackage, standIns } from "./internal/ownPackages.ts"

/** A module that could not be loaded, or that exports nothing to use. @category errors */
export class ModuleError extends Data.TaggedError("ModuleError")<{
  readonly specifier: string
  /** directory that the specifier is relative to */
  readonly base: string
  readonly kind: "not found" | "failed to load" | "no default export"
  readonly reason: string
}> {
  override get message() {
    return `module "${this.specifier}" (from ${this.base}): ${this.reason}`
  }
}

/** Time after which a module that is still loading is spoken of. */
const slowAfterMs = 10_000

/** Whether a specifier is a path, as opposed to the name of a package. @category guards */
export const isPath = (specifier: string): boolean => /^\.{0,2}[/\\]/.test(specifier) || path.isAbsolute(specifier)

/** What Node says when it cannot read TypeScript, or not the way that TypeScript writes its imports. */
const notForNode = new Set([
  "ERR_UNKNOWN_FILE_EXTENSION",
  "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX",
  "ERR_INVALID_TYPESCRIPT_SYNTAX",
  "ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING",
  "ERR_UNSUPPORTED_DIR_IMPORT",
  "ERR_MODULE_NOT_FOUND"
])
const isForJiti = (url: string, cause: unknown) =>
  Predicate.hasProperty(cause, "code") &&
  typeof cause.code === "string" &&
  (/\.[cm]?tsx?$/.test(url) ? notForNode.has(cause.code) : missing(cause) !== undefined)

const missing = (cause: unknown) => (cause instanceof Error ? missingPackage(cause.message) : undefined)

const words = (cause: unknown) => {
  const said = cause instanceof Error ? `${cause.name}: ${cause.message}` : inWords(cause)
  // Without the list of requires behind the first line.
  return missing(cause) === undefined ? said : `${said.split("\n")[0]}; install primerl beside it`
}

/** Says of an effect that takes long, once, that it is still at it. */
const sayingSlow =
  (what: string) =>
  <A, E, R>(self: Effect.Effect<A, E, R>) =>
    Effect.scoped(
      Effect.zipRight(Effect.forkScoped(Effect.delay(Effect.logWarning(`still ${what}`), slowAfterMs)), self)
    )

/**
 * The default export of a module. A path is relative to `base`, a directory; a package is looked up from there. What a
 * module needs of this package and of Effect, and does not find from its own place, are the copies of this run. Fails
 * with `ModuleError` when it is not found, throws while it loads, or has no default export.
 *
 * @category loading
 */
export const load = (specifier: string, base: string): Effect.Effect<unknown, ModuleError> =>
  Effect.gen(function* () {
    const error = (kind: ModuleError["kind"], reason: string) => new ModuleError({ specifier, base, kind, reason })
    const failed = (cause: unknown) => error("failed to load", words(cause))
    const jitiWith = (alias: Readonly<Record<string, string>>) =>
      Effect.tryPromise({
        try: () => import("jiti").then(({ createJiti }) => createJiti(path.join(base, "_"), { fsCache: false, alias })),
        catch: failed
      })

    const resolve = Effect.gen(function* () {
      if (isPath(specifier)) {
        const file = path.resolve(base, specifier)
        return fs.existsSync(file) ? pathToFileURL(file).href : yield* error("not found", `there is no file ${file}`)
      }
      const found = (yield* jitiWith({})).esmResolve(specifier, { try: true })
      return found ?? (yield* error("not found", "no package of that name is installed; a file's path begins with ./"))
    })
    const url = yield* resolve
    const loaded: unknown = yield* Effect.tryPromise({ try: () => import(url), catch: (cause) => cause }).pipe(
      Effect.catchAll((cause) =>
        isForJiti(url, cause)
          ? Effect.flatMap(jitiWith(standIns(url)), (jiti) =>
              Effect.tryPromise({ try: () => jiti.import(url), catch: failed })
            )
          : failed(cause)
      ),
      sayingSlow(`loading ${specifier}`)
    )
    if (Predicate.hasProperty(loaded, "default")) return loaded.default
    return yield* error("no default export", "it has no default export; write `export default …`")
  })
