/** From a `[trainer.loss]` to a loss: a built-in one by its name, a user's by the path or package of its module. */
import * as Arr from "effect/Array"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Predicate from "effect/Predicate"
import type { ModuleSpec } from "../Config.ts"
import { inWords } from "../internal/inWords.ts"
import { didYouMean } from "../internal/Nearest.ts"
import * as ModuleLoader from "../ModuleLoader.ts"
import Cispo from "../Trainer/losses/Cispo.ts"
import Dppo from "../Trainer/losses/Dppo.ts"
import Gspo from "../Trainer/losses/Gspo.ts"
import Icepop from "../Trainer/losses/Icepop.ts"
import ImportanceSampling from "../Trainer/losses/ImportanceSampling.ts"
import Ipo from "../Trainer/losses/Ipo.ts"
import PpoClip from "../Trainer/losses/PpoClip.ts"
import type { RlLoss } from "../Trainer/RlLoss.ts"

/** @category errors */
export class LossConfigError extends Data.TaggedError("LossConfigError")<{
  readonly type: string
  /** dotted keys inside the section; "" is the section itself */
  readonly problems: ReadonlyArray<{ readonly path: string; readonly message: string }>
}> {
  override get message() {
    return this.problems.map(({ message, path }) => `trainer.loss.${path || "type"}: ${message}`).join("\n")
  }
}

type Decoder = (config: unknown) => Either.Either<RlLoss, ParseResult.ParseError>

/** Reads the configuration of each built-in loss, by its name. @category registries */
export const builtIn: Readonly<Record<string, Decoder>> = {
  dppo: Dppo.decode,
  default: Dppo.decode,
  ipo: Ipo.decode,
  ppo_clip: PpoClip.decode,
  cispo: Cispo.decode,
  icepop: Icepop.decode,
  gspo: Gspo.decode,
  importance_sampling: ImportanceSampling.decode
}

const namesFor = (type: string) =>
  ModuleLoader.isPath(type)
    ? ""
    : `. ${didYouMean(type, Object.keys(builtIn))}Built in: ${Object.keys(builtIn).join(", ")}`

const isDefined = (value: unknown): value is { readonly decode: Decoder } =>
  Predicate.hasProperty(value, "decode") && typeof value.decode === "function" && Predicate.hasProperty(value, "loss")

/** @category constructors */
export const resolve = ({ type, ...config }: ModuleSpec): Effect.Effect<RlLoss, LossConfigError> =>
  Effect.gen(function* () {
    const problem = (message: string) => new LossConfigError({ type, problems: [{ path: "", message }] })
    if (type === "custom")
      return yield* problem('"custom" is the loss that import_path names: import_path = "./my-loss.ts"')
    let decode = Object.hasOwn(builtIn, type) ? builtIn[type] : undefined
    if (decode === undefined) {
      const found = yield* Effect.mapError(ModuleLoader.load(type, process.cwd()), ({ kind, reason }) =>
        problem(`loss "${type}": ${reason}${kind === "not found" ? namesFor(type) : ""}`)
      )
      if (!isDefined(found)) return yield* problem(`the default export of ${type} is not RlLoss.define({ … })`)
      decode = found.decode
    }
    const decoded = yield* Either.try({
      try: () => decode(config),
      catch: (cause) => problem(`loss "${type}" could not be made: ${inWords(cause)}`)
    })
    return yield* Either.mapLeft(
      decoded,
      (error) =>
        new LossConfigError({
          type,
          // a key that may be undefined is wrong in two ways, of which the first is meant
          problems: Arr.dedupeWith(
            ParseResult.ArrayFormatter.formatErrorSync(error).map(({ message, path }) => ({
              path: path.join("."),
              message
            })),
            (a, b) => a.path === b.path
          )
        })
    )
  })
