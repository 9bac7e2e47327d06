/**
 * The configuration of a run: TOML files laid over each other from left to right, then `--set` values. Loading either
 * gives a complete configuration, whose text reads back as an equal one, or reports everything that is wrong with it.
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { canonicalTrain, describesSft, type Rewritten } from "./config/Aliases.ts"
import * as Decode from "./config/Decode.ts"
import * as Load from "./config/Load.ts"
import { at, type KeyPath, type Located } from "./config/Located.ts"
import { absolute } from "./config/Paths.ts"
import { atPath, ConfigError, type Finding, ofFinding, type Problem } from "./config/Problem.ts"
import type { SftConfig, TrainConfig, TrainDraft } from "./config/Resolve.ts"
import * as Resolve from "./config/Resolve.ts"
import * as Rules from "./config/Rules.ts"
import { SftFile } from "./config/SftFile.ts"
import * as Shape from "./config/Shape.ts"
import * as Toml from "./config/Toml.ts"
import { TrainFile } from "./config/TrainFile.ts"

export type {
  EnvironmentSpec,
  EvalConfig,
  EvalSourceConfig,
  LoraConfig,
  ModuleSpec,
  OrchestratorConfig,
  RendererSpec,
  SamplingConfig,
  SftConfig,
  SourceConfig,
  TrainConfig,
  TrainDraft,
  TrainerConfig,
  TrainSamplingConfig
} from "./config/Resolve.ts"
export { ConfigError, type Finding, type Problem }

/**
 * A check of one's own, such as an algorithm's of its own keys: what it finds joins the one report. It sees a
 * configuration that is right in itself.
 *
 * @category model
 */
export type Check<C, R> = (config: C) => Effect.Effect<ReadonlyArray<Finding>, never, R>

type Loading<A, R> = Effect.Effect<A, ConfigError, FileSystem.FileSystem | Path.Path | R>

interface Kind<A, I, C> {
  readonly schema: Schema.Schema<A, I>
  readonly canonical: (tree: Located) => Rewritten
  readonly resolve: (file: A) => C
  readonly rules: (file: A, config: C) => ReadonlyArray<Finding>
}

const training: Kind<TrainFile, Readonly<Record<string, unknown>>, TrainDraft> = {
  schema: TrainFile,
  canonical: canonicalTrain,
  resolve: Resolve.train,
  rules: Rules.train
}

const tuning: Kind<SftFile, Readonly<Record<string, unknown>>, SftConfig> = {
  schema: SftFile,
  canonical: (tree) => ({ tree, problems: [] }),
  resolve: Resolve.sft,
  rules: Rules.sft
}

const startsWith = (path: KeyPath, start: KeyPath): boolean => start.every((key, index) => path[index] === key)

const load = <A, I, C, R>(
  documents: ReadonlyArray<Located>,
  kind: Kind<A, I, C>,
  check: Check<C, R>
): Effect.Effect<{ readonly config: C; readonly tree: Located }, ConfigError, Path.Path | R> =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const workingDirectory = path.resolve(".")
    const shape = Shape.make(kind.schema)
    const { tree, problems } = Load.compose(documents, (document) => {
      const rewritten = kind.canonical(document)
      return { ...rewritten, tree: absolute(rewritten.tree, shape, path, workingDirectory) }
    })
    const checked = Decode.check(kind.schema, tree)
    const all: Array<Problem> = [...problems, ...checked.problems]
    if (checked.value !== undefined) {
      const config = kind.resolve(checked.value)
      const sound = (finding: Finding) =>
        !finding.keys.some((key) => checked.wrong.some((wrong) => startsWith(key, wrong) || startsWith(wrong, key)))
      all.push(
        ...kind
          .rules(checked.value, config)
          .filter(sound)
          .map((finding) => ofFinding(tree, finding))
      )
      const own = (yield* check(config)).filter(sound).map((finding) => ofFinding(tree, finding))
      // A rule and an algorithm may object to the same key: once is enough.
      all.push(...own.filter((found) => !all.some(({ key, line }) => key === found.key && line === found.line)))
      if (all.length === 0) return { config, tree }
    }
    return yield* new ConfigError({ problems: all })
  })

const nothing = () => Effect.succeed([])

/** An output folder that no file names is still absolute in the result. */
const withOutput = <C extends { readonly outputDir: string }>(config: C): Effect.Effect<C, never, Path.Path> =>
  Effect.map(Path.Path, (path) => ({ ...config, outputDir: path.resolve(config.outputDir) }))

const loadDraft = <R>(documents: ReadonlyArray<Located>, check: Check<TrainDraft, R>) =>
  Effect.gen(function* () {
    if (describesSft(documents)) {
      const where = documents.find((document) => at(document, ["data"]) !== undefined) ?? documents[0]!
      const what = "this is supervised fine-tuning ([data], no [orchestrator]): run it with `primerl sft`"
      return yield* new ConfigError({ problems: [atPath(where, ["data"], what)] })
    }
    const loaded = yield* load(documents, training, check)
    return { ...loaded, config: yield* withOutput(loaded.config) }
  })

/**
 * Loads a training configuration. `check` adds findings of one's own to the report.
 *
 * @category loading
 */
export const loadTrain = <R = never>(
  files: ReadonlyArray<string>,
  sets: ReadonlyArray<string>,
  check: Check<TrainDraft, R> = nothing
): Loading<TrainConfig, R> =>
  Effect.gen(function* () {
    const { config, tree } = yield* loadDraft(yield* Load.documents(files, sets), check)
    const { name } = config.model
    if (name !== undefined) return { ...config, model: { name } }
    const what = 'missing: the directory of the policy to train, such as name = "./policy" under [model]'
    return yield* new ConfigError({ problems: [atPath(tree, ["model", "name"], what)] })
  })

/**
 * Loads the configuration of supervised fine-tuning.
 *
 * @category loading
 */
export const loadSft = <R = never>(
  files: ReadonlyArray<string>,
  sets: ReadonlyArray<string>,
  check: Check<SftConfig, R> = nothing
): Loading<SftConfig, R> =>
  Effect.gen(function* () {
    const { config } = yield* load(yield* Load.documents(files, sets), tuning, check)
    return yield* withOutput(config)
  })

/** What `plan` shows: a run that may still lack its policy, or supervised fine-tuning. @category model */
export type AnyConfig =
  | { readonly _tag: "Train"; readonly config: TrainDraft }
  | { readonly _tag: "Sft"; readonly config: SftConfig }

/**
 * Loads whichever kind of run the files describe.
 *
 * @category loading
 */
export const loadAny = <R = never>(
  files: ReadonlyArray<string>,
  sets: ReadonlyArray<string>,
  checks: { readonly train?: Check<TrainDraft, R> | undefined; readonly sft?: Check<SftConfig, R> | undefined } = {}
): Loading<AnyConfig, R> =>
  Effect.gen(function* () {
    const documents = yield* Load.documents(files, sets)
    if (describesSft(documents)) {
      const { config } = yield* load(documents, tuning, checks.sft ?? nothing)
      return { _tag: "Sft", config: yield* withOutput(config) }
    }
    const { config } = yield* loadDraft(documents, checks.train ?? nothing)
    return { _tag: "Train", config }
  })

/** The configuration as TOML text that reads back as an equal configuration. @category conversions */
export const trainToml = (config: TrainDraft): string => Toml.print(Schema.encodeSync(TrainFile)(config))

/** The same for supervised fine-tuning. @category conversions */
export const sftToml = (config: SftConfig): string => Toml.print(Schema.encodeSync(SftFile)(config))
