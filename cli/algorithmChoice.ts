/** Which algorithm explains which rollouts: the one that is named, or the one that made them in their run. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { loadAny } from "../src/Config.ts"
import * as Load from "../src/config/Load.ts"
import { isRecord, toPlain } from "../src/config/Located.ts"
import { isPath } from "../src/ModuleLoader.ts"
import type { AlgorithmConfig } from "../src/Registry.ts"

/** No algorithm, or keys that are none. @category errors */
export class AlgorithmChoiceError extends Data.TaggedError("AlgorithmChoiceError")<{ readonly reason: string }> {
  override get message() {
    return this.reason
  }
}

/** What was asked for. @category model */
export interface Asked {
  readonly files: ReadonlyArray<string>
  readonly algo: string | undefined
  readonly config: string | undefined
  readonly set: ReadonlyArray<string>
}

/** What was found. @category model */
export interface Choice {
  /** by the name of a source */
  readonly algorithmOf: (source: string) => AlgorithmConfig
  readonly model: string | undefined
  readonly maxSequenceLength: number | undefined
}

const refused = (reason: string) => new AlgorithmChoiceError({ reason })

const plainOf = (files: ReadonlyArray<string>, sets: ReadonlyArray<string>) =>
  Effect.map(Load.documents(files, sets), (documents) => {
    const tree = toPlain(Load.compose(documents, (tree) => ({ tree, problems: [] })).tree)
    return isRecord(tree) ? tree : {}
  })

/** The keys of every `--set algo.KEY=VALUE`. */
const keysOf = (sets: ReadonlyArray<string>) =>
  Effect.filterOrFail(
    Effect.map(plainOf([], sets), ({ algo = {}, ...others }) => ({ algo, others: Object.keys(others) })),
    (set): set is { algo: Readonly<Record<string, unknown>>; others: Array<string> } =>
      isRecord(set.algo) && set.others.length === 0,
    ({ others }) =>
      refused(
        `--set takes the algorithm's own keys, as in algo.length_penalty.type=linear${others[0] === undefined ? "" : `, not ${others[0]}`}`
      )
  )

/** A whole configuration of a run: each source has its own algorithm. */
const ofRun = (file: string) =>
  Effect.map(loadAny([file], []), ({ _tag, config }): Option.Option<Choice> => {
    if (_tag === "Sft") return Option.none()
    const { algo, train } = config.orchestrator
    return Option.some({
      algorithmOf: (name) => train.source.find((source) => source.name === name)?.algo ?? algo,
      model: config.model.name,
      maxSequenceLength: config.trainer.model.seqLen
    })
  })

/** A file that says what an algorithm is and no more, or a whole configuration. */
const ofConfig = (file: string) =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const plain = yield* plainOf([file], [])
    if (plain.orchestrator !== undefined) return Option.getOrThrow(yield* ofRun(file))
    const found = isRecord(plain.algo) ? plain.algo : plain
    if (typeof found.type !== "string") {
      return yield* refused(
        `${file}: there is no algorithm in it; write type = "grpo" and its keys, or give the configuration of a run`
      )
    }
    const type = isPath(found.type) ? path.resolve(path.dirname(file), found.type) : found.type
    return { algorithmOf: () => ({ ...found, type }), model: undefined, maxSequenceLength: undefined }
  })

/** The configuration of the run whose folder a file of rollouts lies in. */
const beside = (file: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const directory = path.dirname(path.resolve(file))
    const places = [path.join(path.dirname(directory), "config.toml"), path.join(directory, "config.toml")]
    for (const place of places) {
      if (yield* Effect.orElseSucceed(fs.exists(place), () => false)) return yield* ofRun(place)
    }
    return Option.none<Choice>()
  })

/** Fails when nothing says which algorithm. @category reading */
export const choose = ({ algo, config, files, set }: Asked) =>
  Effect.gen(function* () {
    const run = Option.getOrUndefined(yield* beside(files[0]!))
    const given = config === undefined ? run : yield* ofConfig(config)
    const keys = (yield* keysOf(set)).algo
    if (algo === undefined && given === undefined) {
      return yield* refused(
        `${files[0]} does not lie in the folder of a run, so nothing says which algorithm: give --algo grpo, or --config`
      )
    }
    const algorithmOf = (source: string): AlgorithmConfig => {
      const configured = given?.algorithmOf(source)
      const same = algo === undefined || configured?.type === algo
      const { type = algo!, ...own } = same ? (configured ?? {}) : {}
      return { ...own, ...keys, type }
    }
    return {
      algorithmOf,
      model: given?.model ?? run?.model,
      maxSequenceLength: given?.maxSequenceLength ?? run?.maxSequenceLength
    } satisfies Choice
  })
