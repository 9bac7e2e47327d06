/** The architecture named by a Hugging Face `config.json`; what the engine cannot compute exactly is an error, never ignored. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { inWords } from "../internal/inWords.ts"
import { ModelError } from "./ModelError.ts"
import type { ModelConfig, RopeScaling } from "./Native.ts"

type Family = "qwen3" | "qwen2" | "llama"

const families: Readonly<Record<string, Family>> = {
  Qwen3ForCausalLM: "qwen3",
  Qwen2ForCausalLM: "qwen2",
  LlamaForCausalLM: "llama",
  qwen3: "qwen3",
  qwen2: "qwen2",
  llama: "llama"
}
const supportedFamilies = "Qwen3ForCausalLM, Qwen2ForCausalLM and LlamaForCausalLM"

/** A value in few letters. */
const short = (value: unknown) => {
  const text = typeof value === "string" ? JSON.stringify(value) : inWords(value)
  return text.length > 40 ? `${text.slice(0, 40)}…` : text
}

/** In place of the schema's own words. */
const saying = (allowed: string) => (issue: ParseResult.ParseIssue) => ({
  message: `found ${short(issue.actual)}, allowed is ${allowed}`,
  override: true
})
const whole = (most: number) =>
  Schema.Int.pipe(Schema.between(1, most)).annotations({ message: saying(`a whole number from 1 to ${most}`) })

/** Larger than any of a model that is used, and small enough to be computed with. */
const Size = whole(2 ** 24 - 1)
const Layers = whole(1000)

/** May be left out, or null. */
const maybe = <A, I>(schema: Schema.Schema<A, I>, allowed: string) =>
  Schema.optional(Schema.NullOr(schema).annotations({ message: saying(allowed) }))
/** The same for what has parts, which say themselves what is wrong with them. */
const maybeParts = <A, I>(schema: Schema.Schema<A, I>) => Schema.optional(Schema.NullOr(schema))

const maybeText = maybe(Schema.String, "text")
const maybeFlag = maybe(Schema.Boolean, "true or false")
const maybeNumber = maybe(Schema.Finite, "a number")
const maybePositive = maybe(Schema.Finite.pipe(Schema.positive()), "a number above 0")
const maybeSize = maybe(Size, `a whole number from 1 to ${2 ** 24 - 1}`)
const Texts = Schema.Array(Schema.String.annotations({ message: saying("text") })).annotations({
  message: ({ actual }) => `found ${short(actual)}, allowed is a list of texts`
})

const Rope = Schema.Struct({
  rope_type: maybeText,
  type: maybeText,
  rope_theta: maybePositive,
  factor: maybePositive,
  low_freq_factor: maybePositive,
  high_freq_factor: maybePositive,
  original_max_position_embeddings: maybeSize
}).annotations({ message: ({ actual }) => `found ${short(actual)}, allowed is a table` })

/** The fields that decide what is computed; others (dropout, token ids, dtype) do not matter to it. */
const HuggingFaceConfig = Schema.Struct({
  architectures: maybeParts(Texts),
  model_type: maybeText,
  hidden_size: Size,
  intermediate_size: Size,
  num_hidden_layers: Layers,
  num_attention_heads: Size,
  num_key_value_heads: maybeSize,
  head_dim: maybeSize,
  vocab_size: Size,
  max_position_embeddings: Size,
  rms_norm_eps: maybePositive,
  rope_theta: maybePositive,
  rope_scaling: maybeParts(Rope),
  rope_parameters: maybeParts(Rope),
  partial_rotary_factor: maybeNumber,
  hidden_act: maybeText,
  tie_word_embeddings: maybeFlag,
  attention_bias: maybeFlag,
  mlp_bias: maybeFlag,
  use_sliding_window: maybeFlag,
  sliding_window: maybeNumber,
  max_window_layers: maybeNumber,
  layer_types: maybeParts(Texts),
  quantization_config: Schema.optional(Schema.Unknown)
})
type HuggingFaceConfig = typeof HuggingFaceConfig.Type

const parse = Schema.decodeUnknownEither(HuggingFaceConfig, { errors: "all" })

/** Of each field what is said deepest inside it: a part that is wrong, rather than the whole. */
const problemsOf = (error: ParseResult.ParseError): string => {
  const deepest = new Map<PropertyKey | undefined, ParseResult.ArrayFormatterIssue>()
  for (const issue of ParseResult.ArrayFormatter.formatErrorSync(error)) {
    const known = deepest.get(issue.path[0])
    if (known === undefined || known.path.length < issue.path.length) deepest.set(issue.path[0], issue)
  }
  return Array.from(deepest.values(), ({ message, path }) => `${path.map(String).join(".")}: ${message}`).join("; ")
}

const ropeScalingOf = (json: HuggingFaceConfig): Either.Either<RopeScaling | undefined, string> => {
  const field = json.rope_parameters != null ? "rope_parameters" : "rope_scaling"
  const rope = json.rope_parameters ?? json.rope_scaling
  const type = rope?.rope_type ?? rope?.type ?? "default"
  if (rope == null || type === "default") return Either.right(undefined)
  if (type !== "llama3")
    return Either.left(`${field}: rope_type "${type}" is not supported; "default" and "llama3" are`)
  const { factor, high_freq_factor, low_freq_factor, original_max_position_embeddings } = rope
  if (
    factor == null ||
    high_freq_factor == null ||
    low_freq_factor == null ||
    original_max_position_embeddings == null
  ) {
    return Either.left(
      `${field}: rope_type "llama3" needs factor, low_freq_factor, high_freq_factor and original_max_position_embeddings`
    )
  }
  if (high_freq_factor <= low_freq_factor) {
    return Either.left(
      `${field}: high_freq_factor ${high_freq_factor} must be above low_freq_factor ${low_freq_factor}`
    )
  }
  return Either.right({
    factor,
    lowFreqFactor: low_freq_factor,
    highFreqFactor: high_freq_factor,
    originalMaxPositionEmbeddings: original_max_position_embeddings
  })
}

const familyOf = (json: HuggingFaceConfig): Either.Either<Family, string> => {
  const named = json.architectures != null && json.architectures.length > 0
  const name = named ? json.architectures![0]! : json.model_type
  if (name == null) return Either.left(`architectures: missing, and no model_type; supported are ${supportedFamilies}`)
  const family = Object.hasOwn(families, name) ? families[name] : undefined
  return family === undefined
    ? Either.left(`${named ? "architectures" : "model_type"}: "${name}" is not supported; ${supportedFamilies} are`)
    : Either.right(family)
}

const windowProblem = (json: HuggingFaceConfig, family: Family): string | undefined => {
  const windowed = json.layer_types?.findIndex((type) => type !== "full_attention") ?? -1
  if (windowed >= 0) {
    return `layer_types[${windowed}]: "${json.layer_types![windowed]}" is not supported; "full_attention" is`
  }
  const used = family === "llama" ? json.sliding_window != null : json.use_sliding_window === true
  if (!used || json.sliding_window === null || json.layer_types != null) return undefined
  const first = json.max_window_layers ?? 0
  return first >= json.num_hidden_layers
    ? undefined
    : `${family === "llama" ? "sliding_window" : "use_sliding_window"}: sliding-window attention is not supported; every layer must attend to its whole context`
}

const problemOf = (json: HuggingFaceConfig, family: Family, headDim: number): string | undefined => {
  const heads = json.num_attention_heads
  const kvHeads = json.num_key_value_heads ?? heads
  const act = json.hidden_act ?? "silu"
  if (act !== "silu" && act !== "swish") return `hidden_act: "${act}" is not supported; "silu" is`
  if (heads % kvHeads !== 0) {
    return `num_key_value_heads: ${kvHeads} does not divide num_attention_heads ${heads}`
  }
  if (!Number.isInteger(headDim)) {
    return `head_dim: missing, and hidden_size ${json.hidden_size} is not a multiple of num_attention_heads ${heads}`
  }
  if (headDim % 2 !== 0) return `head_dim: ${headDim} is odd; rotary embeddings turn pairs`
  if (json.partial_rotary_factor != null && json.partial_rotary_factor !== 1) {
    return `partial_rotary_factor: ${json.partial_rotary_factor} is not supported; 1 is`
  }
  if (json.quantization_config != null) {
    return "quantization_config: quantised weights are not supported; F32, F16 and BF16 are"
  }
  return windowProblem(json, family)
}

const kindOf = (json: unknown) => (Array.isArray(json) ? "a list" : short(json))

/**
 * The engine's view of a parsed `config.json`. `path` is only named in errors.
 *
 * @category constructors
 */
export const decode = (path: string, json: unknown): Either.Either<ModelConfig, ModelError> =>
  Either.gen(function* () {
    const fail = (reason: string) => new ModelError({ path, reason })
    if (!Predicate.isReadonlyRecord(json))
      return yield* Either.left(fail(`it is ${kindOf(json)}, and no table of settings`))
    const parsed = yield* Either.mapLeft(parse(json), (error) => fail(problemsOf(error)))
    const family = yield* Either.mapLeft(familyOf(parsed), fail)
    const headDim = parsed.head_dim ?? parsed.hidden_size / parsed.num_attention_heads
    const problem = problemOf(parsed, family, headDim)
    if (problem !== undefined) return yield* Either.left(fail(problem))
    const ropeScaling = yield* Either.mapLeft(ropeScalingOf(parsed), fail)
    const attentionBias = parsed.attention_bias ?? false
    return {
      hiddenSize: parsed.hidden_size,
      intermediateSize: parsed.intermediate_size,
      layers: parsed.num_hidden_layers,
      heads: parsed.num_attention_heads,
      kvHeads: parsed.num_key_value_heads ?? parsed.num_attention_heads,
      headDim,
      vocabSize: parsed.vocab_size,
      maxPositionEmbeddings: parsed.max_position_embeddings,
      rmsNormEps: parsed.rms_norm_eps ?? 1e-6,
      ropeTheta: parsed.rope_parameters?.rope_theta ?? parsed.rope_theta ?? 10_000,
      ropeScaling,
      tieWordEmbeddings: parsed.tie_word_embeddings ?? false,
      qkNorm: family === "qwen3",
      qkvBias: family === "qwen2" || attentionBias,
      outputBias: family !== "qwen2" && attentionBias,
      mlpBias: family === "llama" && (parsed.mlp_bias ?? false)
    }
  })

/**
 * Reads `config.json` of a model directory; `text` is the file as it is, for a checkpoint that keeps it unchanged.
 *
 * @category constructors
 */
export const read = (
  directory: string
): Effect.Effect<{ readonly config: ModelConfig; readonly text: string }, ModelError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const file = `${directory}/config.json`
    const unreadable = (path: string) => (error: { readonly message: string }) =>
      new ModelError({ path, reason: `cannot be read (${error.message})` })
    const there = yield* Effect.mapError(fs.exists(directory), unreadable(directory))
    if (!there) {
      return yield* new ModelError({
        path: directory,
        reason: "there is no such directory; a model directory holds config.json and model.safetensors"
      })
    }
    const text = yield* Effect.mapError(fs.readFileString(file), unreadable(file))
    const json = yield* Either.try({
      try: (): unknown => JSON.parse(text),
      catch: (cause) => new ModelError({ path: file, reason: `is not JSON: ${inWords(cause)}` })
    })
    return { config: yield* decode(file, json), text }
  })
