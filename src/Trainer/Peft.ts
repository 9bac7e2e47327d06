/**
 * LoRA adapters as PEFT keeps them: `adapter_config.json`, and in `adapter_model.safetensors` two tensors for each matrix,
 * `base_model.model.MODULE.lora_A.weight` [r, in] and `….lora_B.weight` [out, r]. What the files say is checked against a
 * model before a value is read; whatever does not fit is told by the name of its tensor or setting.
 */
import { runInNewContext } from "node:vm"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { reasonInWords } from "../internal/FileWords.ts"
import { toFloat32 } from "./Halves.ts"
import { ModelError } from "./ModelError.ts"
import type { Tensor } from "./Native.ts"
import * as Safetensors from "./Safetensors.ts"

/** @category names */
export const configName = "adapter_config.json"
const weightsName = "adapter_model.safetensors"

const off = Schema.optional(Schema.Literal(false, null))
const none = Schema.optional(
  Schema.Unknown.pipe(
    Schema.filter(
      (value) => value == null || (typeof value === "object" && Object.keys(value).length === 0) || "is not supported"
    )
  )
)

/** Beginnings that take from the weights of the model what they give to the adapter: W is then another. */
const leavesTheModel = (value: unknown) =>
  typeof value !== "string" ||
  !/^(pissa|olora|corda|loftq|lora_ga)/.test(value) ||
  `"${value}" is not supported: it changed the model that the adapter is on`

const Config = Schema.parseJson(
  Schema.Struct({
    peft_type: Schema.Literal("LORA"),
    base_model_name_or_path: Schema.optional(Schema.NullOr(Schema.String)),
    r: Schema.Int.pipe(Schema.positive()),
    lora_alpha: Schema.Finite.pipe(Schema.positive()),
    lora_dropout: Schema.optional(Schema.Finite.pipe(Schema.between(0, 1))),
    target_modules: Schema.Union(Schema.String, Schema.Array(Schema.String)),
    use_rslora: Schema.optional(Schema.NullOr(Schema.Boolean)),
    layers_to_transform: Schema.optional(Schema.Null),
    // what would change the formula
    use_dora: off,
    lora_bias: off,
    fan_in_fan_out: off,
    bias: Schema.optional(Schema.Literal("none", null)),
    use_qalora: off,
    init_lora_weights: Schema.optional(Schema.Unknown.pipe(Schema.filter(leavesTheModel))),
    modules_to_save: none,
    exclude_modules: none,
    target_parameters: none,
    trainable_token_indices: none,
    layer_replication: none,
    rank_pattern: none,
    alpha_pattern: none
  })
)
type Config = typeof Config.Type

/** What an adapter is, in PEFT's words. @category model */
export interface Lora {
  /** `r` */
  readonly rank: number
  readonly alpha: number
  /** share of inputs that a training pass leaves out */
  readonly dropout: number
  /** names of modules, by their last parts; a pattern for the whole name; or "all-linear" */
  readonly targetModules: string | ReadonlyArray<string>
  /** scales by alpha / √r in the place of alpha / r (arXiv 2312.03732) */
  readonly rankStabilised: boolean
}

/** The factor of B·A: alpha / r (arXiv 2106.09685, §4.1), or alpha / √r. @category getters */
export const scaleOf = ({ alpha, rank, rankStabilised }: Lora): number =>
  alpha / (rankStabilised ? Math.sqrt(rank) : rank)
/** Values of A and B in the files. @category model */
export interface Pair {
  readonly A: string
  readonly B: string
}

/** An adapter's files, open and checked against a model. @category model */
export interface Files {
  readonly lora: Lora
  /** tensors of each module that is changed, by its name in the model: `model.layers.0.self_attn.q_proj` */
  readonly pairs: ReadonlyMap<string, Pair>
  readonly read: (name: string) => Effect.Effect<Float32Array, ModelError>
}

const readConfig = (directory: string): Effect.Effect<Config, ModelError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = `${directory}/${configName}`
    const text = yield* Effect.mapError(
      fs.readFileString(path),
      (error) => new ModelError({ path, reason: `cannot be read (${reasonInWords(error)})` })
    )
    return yield* Either.mapLeft(Schema.decodeUnknownEither(Config, { errors: "all" })(text), (error) => {
      const issues = ParseResult.ArrayFormatter.formatErrorSync(error)
      const reason = Arr.dedupeWith(issues, (a, b) => a.path.join() === b.path.join())
        .map(({ message, path }) => (path.length === 0 ? "it is no JSON object" : `${path.join(".")}: ${message}`))
        .join("; ")
      return new ModelError({ path, reason: `is no LoRA adapter that can be used: ${reason}` })
    })
  })

/** Whether a directory holds an adapter. @category getters */
export const isThere = (directory: string): Effect.Effect<boolean, never, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.orElseSucceed(fs.exists(`${directory}/${configName}`), () => false)
  )

/** The directory of the model that an adapter says it is on. @category getters */
export const baseOf = (directory: string): Effect.Effect<string, ModelError, FileSystem.FileSystem> =>
  Effect.flatMap(readConfig(directory), ({ base_model_name_or_path: base }) =>
    base == null || base === ""
      ? new ModelError({
          path: `${directory}/${configName}`,
          reason: "names no model: base_model_name_or_path is empty"
        })
      : Effect.succeed(base)
  )

/** `model.layers.0.self_attn.q_proj` of the adapter's name for one of its two matrices. */
const modulePattern = /^(?:base_model\.model\.)?(.+?)(?:\.base_layer)?\.lora_([AB])(?:\.default)?\.weight$/

const tensorName = (module: string, side: "A" | "B") => `base_model.model.${module}.lora_${side}.weight`

type Found = { readonly A: string | undefined; readonly B: string | undefined }

const found = (path: string, names: Iterable<string>): Either.Either<ReadonlyMap<string, Found>, ModelError> =>
  Either.gen(function* () {
    const pairs = new Map<string, Found>()
    for (const name of names) {
      const [, module, side] = modulePattern.exec(name) ?? []
      const fail = (reason: string) => Either.left(new ModelError({ path, reason: `tensor "${name}" ${reason}` }))
      if (module === undefined) return yield* fail("is no part of a LoRA adapter")
      const pair = pairs.get(module) ?? { A: undefined, B: undefined }
      const twin = pair[side as "A" | "B"]
      if (twin !== undefined) return yield* fail(`and "${twin}" are for the same matrix`)
      pairs.set(module, { ...pair, [side!]: name })
    }
    return pairs
  })

/** The modules that an adapter can change: those with a matrix, except the embeddings. @category getters */
export const modulesOf = (tensors: ReadonlyArray<Tensor>): ReadonlyMap<string, Tensor> =>
  new Map(
    tensors.flatMap(
      (tensor): ReadonlyArray<readonly [string, Tensor]> =>
        tensor.shape.length === 2 && tensor.name.endsWith(".weight") && !tensor.name.endsWith("embed_tokens.weight")
          ? [[tensor.name.slice(0, -".weight".length), tensor]]
          : []
    )
  )

/** A pattern that goes through all its ways would keep everyone waiting, for years. */
const patternMs = 1_000

const targets = (
  wanted: Lora["targetModules"],
  modules: ReadonlyArray<string>
): Either.Either<ReadonlyArray<string>, string> => {
  if (typeof wanted !== "string") {
    return Either.right(
      modules.filter((module) => wanted.some((name) => module === name || module.endsWith(`.${name}`)))
    )
  }
  if (wanted === "all-linear") return Either.right(modules.filter((module) => module !== "lm_head"))
  return Either.try({
    // only what runs in a context of its own can be stopped
    try: (): ReadonlyArray<string> => {
      const pattern = new RegExp(`^(?:${wanted})$`)
      const named = "modules.filter((module) => pattern.test(module))"
      return Array.from(runInNewContext(named, { modules, pattern }, { timeout: patternMs }))
    },
    // what is thrown in there is no Error of out here
    catch: (cause) => (cause instanceof Error ? cause.message : `the pattern takes longer than ${patternMs} ms`)
  })
}

/** Those of a model's modules that `targetModules` names, in the order of the network; `path` is for the error. @category getters */
export const targetsOf = (
  path: string,
  wanted: Lora["targetModules"],
  modules: Iterable<string>
): Either.Either<ReadonlyArray<string>, ModelError> =>
  targets(wanted, Array.from(modules)).pipe(
    Either.mapLeft((reason) => new ModelError({ path, reason: `target_modules: ${reason}` })),
    Either.filterOrLeft(
      (names) => names.length > 0,
      () => new ModelError({ path, reason: "target_modules names no module of the model" })
    )
  )

const problemOf = (
  checkpoint: Safetensors.Checkpoint,
  pairs: ReadonlyMap<string, Found>,
  modules: ReadonlyMap<string, Tensor>,
  rank: number,
  wanted: ReadonlyArray<string>
): string | undefined => {
  for (const [module, pair] of pairs) {
    const weight = modules.get(module)
    if (weight === undefined) return `tensor "${pair.A ?? pair.B}" is for ${module}, which the model does not have`
    for (const [side, shape] of [
      ["A", [rank, weight.shape[1]!]],
      ["B", [weight.shape[0]!, rank]]
    ] as const) {
      const name = pair[side]
      if (name === undefined) return `${module} has no lora_${side}: tensor "${tensorName(module, side)}" is missing`
      const { shape: own } = checkpoint.tensors.get(name)!
      if (own.join() !== shape.join()) {
        return `tensor "${name}" has shape [${own.join(", ")}]; r ${rank} and ${weight.name} ask for [${shape.join(", ")}]`
      }
    }
  }
  const absent = wanted.find((module) => !pairs.has(module))
  if (absent !== undefined) return `tensor "${tensorName(absent, "A")}" is missing: target_modules names ${absent}`
  const extra = Array.from(pairs.keys()).find((module) => !wanted.includes(module))
  return extra === undefined
    ? undefined
    : `tensor "${pairs.get(extra)!.A}" is for ${extra}, which target_modules does not name`
}

/** Opens an adapter for a model with these tensors. @category decoding */
export const open = (
  directory: string,
  tensors: ReadonlyArray<Tensor>
): Effect.Effect<Files, ModelError, FileSystem.FileSystem | Scope.Scope> =>
  Effect.gen(function* () {
    const config = yield* readConfig(directory)
    const modules = modulesOf(tensors)
    const wanted = yield* targetsOf(`${directory}/${configName}`, config.target_modules, modules.keys())
    const path = `${directory}/${weightsName}`
    const checkpoint = yield* Safetensors.openFile(directory, weightsName)
    const pairs = yield* found(path, checkpoint.tensors.keys())
    const problem = problemOf(checkpoint, pairs, modules, config.r, wanted)
    if (problem !== undefined) return yield* new ModelError({ path, reason: problem })
    return {
      lora: {
        rank: config.r,
        alpha: config.lora_alpha,
        dropout: config.lora_dropout ?? 0,
        targetModules: config.target_modules,
        rankStabilised: config.use_rslora === true
      },
      pairs: pairs as ReadonlyMap<string, Pair>,
      read: (name) =>
        Effect.flatMap(checkpoint.read(name), (bytes) => {
          const values = toFloat32(checkpoint.tensors.get(name)!.dtype, bytes)
          const wrong = values.find((value) => !Number.isFinite(value))
          return wrong === undefined
            ? Effect.succeed(values)
            : new ModelError({ path, reason: `tensor ${name} holds ${wrong}` })
        })
    }
  })

/** Writes an adapter on the model in the directory `base`. @category encoding */
export const write = <E, R>(
  directory: string,
  lora: Lora,
  base: string,
  tensors: ReadonlyArray<Safetensors.Source<E, R>>
): Effect.Effect<void, E | ModelError, R | FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    yield* Safetensors.writeSingle(directory, weightsName, tensors)
    const config = {
      peft_type: "LORA",
      task_type: "CAUSAL_LM",
      base_model_name_or_path: base,
      r: lora.rank,
      lora_alpha: lora.alpha,
      lora_dropout: lora.dropout,
      target_modules: lora.targetModules,
      use_rslora: lora.rankStabilised,
      use_dora: false,
      bias: "none",
      fan_in_fan_out: false,
      modules_to_save: null,
      rank_pattern: {},
      alpha_pattern: {},
      inference_mode: true
    }
    const path = `${directory}/${configName}`
    yield* Effect.mapError(
      fs.writeFileString(path, `${JSON.stringify(config, null, 2)}\n`),
      (error) => new ModelError({ path, reason: `cannot be written (${error.message})` })
    )
  })
