/**
 * LoRA adapters as PEFT saves them (adapter_config.json, adapter_model.safetensors), merged into a copy of the weights:
 * W + s·B·A with s = alpha / r, or alpha / √r with rank stabilisation (arXiv 2106.09685, §4.1; arXiv 2312.03732).
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
import type { Engine, Tensor } from "../Trainer/Engine.ts"
import { toFloat32 } from "../Trainer/Halves.ts"
import { ModelError } from "../Trainer/ModelError.ts"
import type { NativeError } from "../Trainer/NativeError.ts"
import * as Safetensors from "../Trainer/Safetensors.ts"
import * as Weights from "./Weights.ts"

const configName = "adapter_config.json"
const weightsName = "adapter_model.safetensors"

const off = Schema.optional(Schema.Literal(false, null))
const none = Schema.optional(
  Schema.Unknown.pipe(
    Schema.filter(
      (value) => value == null || (typeof value === "object" && Object.keys(value).length === 0) || "is not supported"
    )
  )
)

const PeftConfig = Schema.parseJson(
  Schema.Struct({
    peft_type: Schema.Literal("LORA"),
    r: Schema.Int.pipe(Schema.positive()),
    lora_alpha: Schema.Finite.pipe(Schema.positive()),
    target_modules: Schema.Union(Schema.String, Schema.Array(Schema.String)),
    use_rslora: Schema.optional(Schema.NullOr(Schema.Boolean)),
    layers_to_transform: Schema.optional(Schema.Null),
    // what would change the formula
    use_dora: off,
    lora_bias: off,
    fan_in_fan_out: off,
    bias: Schema.optional(Schema.Literal("none", null)),
    modules_to_save: none,
    rank_pattern: none,
    alpha_pattern: none
  })
)
type PeftConfig = typeof PeftConfig.Type

const readConfig = (directory: string): Effect.Effect<PeftConfig, ModelError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = `${directory}/${configName}`
    const text = yield* Effect.mapError(
      fs.readFileString(path),
      (error) => new ModelError({ path, reason: `cannot be read (${reasonInWords(error)})` })
    )
    return yield* Either.mapLeft(Schema.decodeUnknownEither(PeftConfig, { errors: "all" })(text), (error) => {
      const issues = ParseResult.ArrayFormatter.formatErrorSync(error)
      const reason = Arr.dedupeWith(issues, (a, b) => a.path.join() === b.path.join())
        .map(({ message, path }) => (path.length === 0 ? "it is no JSON object" : `${path.join(".")}: ${message}`))
        .join("; ")
      return new ModelError({ path, reason: `is no LoRA adapter that can be served: ${reason}` })
    })
  })

/** `model.layers.0.self_attn.q_proj` of the adapter's name for one of its two matrices. */
const modulePattern = /^(?:base_model\.model\.)?(.+?)(?:\.base_layer)?\.lora_([AB])(?:\.default)?\.weight$/

interface Pair {
  readonly A: string | undefined
  readonly B: string | undefined
}

const pairsOf = (path: string, names: Iterable<string>): Either.Either<ReadonlyMap<string, Pair>, ModelError> =>
  Either.gen(function* () {
    const pairs = new Map<string, Pair>()
    for (const name of names) {
      const [, module, side] = modulePattern.exec(name) ?? []
      if (module === undefined) {
        return yield* Either.left(new ModelError({ path, reason: `tensor "${name}" is no part of a LoRA adapter` }))
      }
      pairs.set(module, { A: undefined, B: undefined, ...pairs.get(module), [side!]: name })
    }
    return pairs
  })

/** The layers that an adapter can change: those with a matrix, except the embeddings. */
const modulesOf = (tensors: ReadonlyArray<Tensor>): ReadonlyMap<string, Tensor> =>
  new Map(
    tensors.flatMap(
      (tensor): ReadonlyArray<readonly [string, Tensor]> =>
        tensor.shape.length === 2 && tensor.name.endsWith(".weight") && !tensor.name.endsWith("embed_tokens.weight")
          ? [[tensor.name.slice(0, -".weight".length), tensor]]
          : []
    )
  )

/** A pattern that goes through all its ways would keep every request waiting, for years. */
const patternMs = 1_000

/** The modules that `target_modules` names: by their last names, by a pattern for the whole, or by "all-linear". */
const targetsOf = (
  path: string,
  wanted: PeftConfig["target_modules"],
  modules: ReadonlyArray<string>
): Either.Either<ReadonlyArray<string>, ModelError> => {
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
    catch: (cause) => {
      const reason = cause instanceof Error ? cause.message : `the pattern takes longer than ${patternMs} ms`
      return new ModelError({ path, reason: `target_modules: ${reason}` })
    }
  })
}

const problemOf = (
  checkpoint: Safetensors.Checkpoint,
  pairs: ReadonlyMap<string, Pair>,
  modules: ReadonlyMap<string, Tensor>,
  config: PeftConfig,
  wanted: ReadonlyArray<string>
): string | undefined => {
  for (const [module, pair] of pairs) {
    const weight = modules.get(module)
    if (weight === undefined) return `tensor "${pair.A ?? pair.B}" is for ${module}, which the model does not have`
    for (const [side, shape] of [
      ["A", [config.r, weight.shape[1]!]],
      ["B", [weight.shape[0]!, config.r]]
    ] as const) {
      const name = pair[side]
      if (name === undefined)
        return `${module} has no lora_${side}: tensor "base_model.model.${module}.lora_${side}.weight" is missing`
      const found = checkpoint.tensors.get(name)!.shape
      if (found.join() !== shape.join()) {
        return `tensor "${name}" has shape [${found.join(", ")}]; r ${config.r} and ${weight.name} ask for [${shape.join(", ")}]`
      }
    }
  }
  if (wanted.length === 0) return "target_modules names no module of the model"
  const absent = wanted.find((module) => !pairs.has(module))
  return absent === undefined
    ? undefined
    : `tensor "base_model.model.${absent}.lora_A.weight" is missing: target_modules names ${absent}`
}

/** Adds s·B·A to `weight` (rows × columns), summed in float64 and rounded once. */
const addProduct = (
  weight: Float32Array,
  { A, B, r, scale }: { readonly A: Float32Array; readonly B: Float32Array; readonly r: number; readonly scale: number }
) => {
  const rows = B.length / r
  const columns = A.length / r
  const sum = new Float64Array(columns)
  for (let row = 0; row < rows; row++) {
    sum.set(weight.subarray(row * columns, (row + 1) * columns))
    for (let k = 0; k < r; k++) {
      const factor = scale * B[row * r + k]!
      for (let column = 0; column < columns; column++) sum[column]! += factor * A[k * columns + column]!
    }
    weight.set(sum, row * columns)
  }
}

/**
 * An engine with the weights of `base` as they are now and the adapter merged into them. Every name and shape is checked
 * before anything is computed; `base` is not changed.
 *
 * @category constructors
 */
export const open = (
  base: Engine,
  directory: string,
  options: { readonly threads: number }
): Effect.Effect<Engine, ModelError | NativeError, FileSystem.FileSystem | Scope.Scope> =>
  Effect.gen(function* () {
    const config = yield* readConfig(directory)
    const path = `${directory}/${weightsName}`
    const modules = modulesOf(base.tensors)
    const wanted = yield* targetsOf(`${directory}/${configName}`, config.target_modules, Array.from(modules.keys()))
    const scale = config.lora_alpha / (config.use_rslora === true ? Math.sqrt(config.r) : config.r)
    const engine = yield* Weights.blank(base, options.threads)
    yield* Effect.flatMap(base.snapshot, engine.adopt)
    yield* Effect.scoped(
      Effect.gen(function* () {
        const checkpoint = yield* Safetensors.openFile(directory, weightsName)
        const pairs = yield* pairsOf(path, checkpoint.tensors.keys())
        const problem = problemOf(checkpoint, pairs, modules, config, wanted)
        if (problem !== undefined) return yield* new ModelError({ path, reason: problem })
        const read = (name: string) =>
          Effect.map(checkpoint.read(name), (bytes) => toFloat32(checkpoint.tensors.get(name)!.dtype, bytes))
        for (const [module, pair] of pairs) {
          const A = yield* read(pair.A!)
          const B = yield* read(pair.B!)
          const { name } = modules.get(module)!
          const weight = yield* engine.readTensor(name)
          addProduct(weight, { A, B, r: config.r, scale })
          yield* engine.writeTensor(name, weight)
          yield* Weights.finite(engine, path, name)
        }
      })
    )
    return engine
  })
