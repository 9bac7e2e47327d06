/** The sections that several kinds of run share. Every default and every meaning stands here and nowhere else. */
import * as Schema from "effect/Schema"
import { Endpoint } from "../Endpoints.ts"
import { projections } from "../Trainer/Projections.ts"
import {
  count,
  decay,
  defaulted,
  folderName,
  length,
  many,
  moduleName,
  norm,
  notNegative,
  notNegativeFloat32,
  open,
  optional,
  positive,
  positiveFloat32,
  positiveShare,
  required,
  section,
  share,
  text,
  threads,
  wholeNumber
} from "./Field.ts"

/** `[run]` @category sections */
export const Run = section({
  name: optional(
    folderName,
    "Name of the run and of its folder in output_dir. Left out, it is made from the environments and the model."
  )
})

/** An environment: `id` says which, the other keys are its own. @category sections */
export const Environment = open({
  id: required(moduleName, "Which environment: the name of a built-in one, a package, or a file.")
})

/** An algorithm: `type` says which, the other keys are its own. @category sections */
export const Algorithm = open({
  type: required(moduleName, "Which algorithm: the name of a built-in one, a package, or a file.")
})

/** A renderer: `name` says which, the other keys are its own. @category sections */
export const Renderer = open({
  name: defaulted(text, "auto", "Which renderer: auto is the one that the model's files call for.")
})

/** Who samples rollouts: the policy, or a model that the run does not train. */
const Source = Schema.Union(Schema.Literal("policy"), Endpoint)

const limits = {
  topP: optional(positiveShare, "Sample from the most likely tokens that together have this probability."),
  topK: optional(count, "Sample from this many of the most likely tokens."),
  minP: optional(share, "Sample from tokens at least this fraction as likely as the most likely one."),
  maxCompletionTokens: optional(length, "Most tokens to sample in one call. Left out, the sequence limit alone counts.")
}

/** `[orchestrator.train.sampling]` @category sections */
export const TrainSampling = section({
  source: defaulted(
    Source,
    "policy",
    'Who samples: "policy", or a frozen model { name, base_url }, which only an algorithm with ce can train on.'
  ),
  temperature: defaulted(positiveFloat32, 1, "Sampling temperature; log-probabilities are those at this temperature."),
  ...limits
})

/** What a single source changes in the sampling that it inherits. @category sections */
export const SourceSampling = section({
  source: optional(Source, 'Who samples the rollouts of this source: "policy", or a frozen model { name, base_url }.'),
  temperature: optional(positiveFloat32, "Sampling temperature of this source."),
  ...limits
})

/** What evaluation changes in the sampling that it inherits. @category sections */
export const EvalSampling = section({
  temperature: optional(
    notNegativeFloat32,
    "Sampling temperature of evaluation; 0 always takes the most likely token."
  ),
  ...limits
})

/** `[trainer.optim]`, `[optim]` @category sections */
export const Optim = section({
  type: defaulted(Schema.Literal("adamw"), "adamw", "Which optimiser."),
  lr: defaulted(notNegative, 1e-6, "Peak learning rate."),
  weightDecay: defaulted(notNegative, 0.01, "Decoupled weight decay."),
  betas1: defaulted(decay, 0.9, "Decay of the first moment."),
  betas2: defaulted(decay, 0.999, "Decay of the second moment."),
  eps: defaulted(positive, 1e-8, "Added to the root of the second moment."),
  maxNorm: defaulted(norm, 1, "Global norm that gradients are clipped to; inf does not clip.")
})

/** `[trainer.scheduler]`, `[scheduler]` @category sections */
export const Scheduler = section({
  type: defaulted(Schema.Literal("constant", "linear", "cosine"), "constant", "Shape of the learning rate over a run."),
  warmupSteps: optional(wholeNumber, "Steps from min_lr up to the peak. Default 10, for linear and cosine."),
  decaySteps: optional(wholeNumber, "Last steps, from the peak down to min_lr. Default 10, for linear alone."),
  minLr: optional(notNegative, "Learning rate at both ends. Default 0, for linear and cosine.")
})

/** `[trainer.engine]`, `[engine]` @category sections */
export const Engine = section({
  device: defaulted(
    Schema.Literal("cpu", "cuda"),
    "cpu",
    "Where the policy is trained; it is sampled on the processor."
  ),
  threads: optional(
    threads,
    "Threads of the engine. Left out, all cores that the process may use, by its affinity and the quota of its container."
  ),
  dtype: optional(
    Schema.Literal("float32", "bfloat16"),
    "What matrix products round their operands to; weights, gradients and the optimiser stay float32. Left out, float32."
  ),
  headDtype: optional(
    Schema.Literal("float32", "bfloat16", "bfloat16x3"),
    "The same for the output projection; bfloat16x3 is near float32, of three bfloat16 products. Left out, dtype."
  ),
  activationCheckpointing: optional(
    Schema.Boolean.annotations({ description: "true or false" }),
    "Keep only the inputs of layers for the backward pass: less memory, more time. Left out, false."
  ),
  maxMemoryGib: optional(
    positive,
    "Most GiB that training may take, as primerl plan counts it; more is an error before the first step."
  )
})

/** `[trainer.model.lora]`, `[model.lora]` @category sections */
export const Lora = section({
  rank: defaulted(many, 16, "Rank of the adapter: columns of B, rows of A."),
  alpha: defaulted(positiveFloat32, 32, "What the adapter adds is multiplied by alpha / rank."),
  dropout: defaulted(decay, 0, "Share of the adapter's inputs that a training pass leaves out."),
  targetModules: defaulted(
    Schema.NonEmptyArray(Schema.Literal(...projections)),
    projections,
    "Which matrices of each layer have an adapter."
  )
})

/** `[ckpt]` @category sections */
export const Checkpoints = section({
  interval: optional(count, "Steps between checkpoints. Left out, only the last step is saved."),
  keepLast: optional(count, "Keep this many of the newest checkpoints. Left out with keep_interval, all are kept."),
  keepInterval: optional(count, "Keep checkpoints of steps that this divides.")
})
