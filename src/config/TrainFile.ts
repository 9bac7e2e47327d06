/** The file of a training run, section by section. */
import * as Schema from "effect/Schema"
import {
  count,
  defaulted,
  length,
  many,
  moduleName,
  open,
  optional,
  path,
  ratio,
  required,
  section,
  seed,
  share,
  table,
  text,
  wholeNumber
} from "./Field.ts"
import * as Sections from "./Sections.ts"

const Source = section({
  name: optional(text, "Name of the source in metrics and files. Left out, the last part of its environment's id."),
  env: required(Sections.Environment, 'The environment: env = { id = "…" } with its own options beside the id.'),
  ratio: defaulted(ratio, 1, "Share of this source in the groups that are planned, relative to the other sources."),
  groupSize: optional(many, "Rollouts per example. Left out, orchestrator.group_size."),
  sampling: optional(Sections.SourceSampling, "What differs from [orchestrator.train.sampling]."),
  algo: optional(Sections.Algorithm, "The algorithm of this source. Left out, [orchestrator.algo].")
})

const EvalSource = section({
  name: optional(text, "Name of the source in metrics and files. Left out, the last part of its environment's id."),
  env: required(Sections.Environment, 'The environment: env = { id = "…" } with its own options beside the id.'),
  numExamples: optional(many, "Examples to evaluate. Left out, orchestrator.eval.num_examples."),
  groupSize: optional(many, "Rollouts per example. Left out, orchestrator.eval.group_size."),
  interval: optional(count, "Steps between evaluations. Left out, orchestrator.eval.interval."),
  sampling: optional(Sections.EvalSampling, "What differs from [orchestrator.eval.sampling].")
})

const Train = section({
  sampling: table(Sections.TrainSampling, "How rollouts are sampled."),
  source: defaulted(Schema.Array(Source), [], "What the policy is trained on: one [[orchestrator.train.source]] each.")
})

const Eval = section({
  interval: optional(count, "Steps between evaluations. Left out, training is not interrupted by any."),
  numExamples: optional(many, "Examples of each source. Left out, all that the environment holds out."),
  groupSize: defaulted(many, 1, "Rollouts per example."),
  sampling: table(Sections.EvalSampling, "What differs from [orchestrator.train.sampling]."),
  source: optional(Schema.Array(EvalSource), "What is evaluated. Left out, the environments of the training sources.")
})

const OffPolicy = section({
  policy: defaulted(
    Schema.Literal("pace", "drop", "strict"),
    "pace",
    "pace: start only what can still be trained in time; drop: discard what is too old; strict: the trainer waits."
  ),
  maxSteps: defaulted(wholeNumber, 1, "Most steps that a sample's weights may be behind the trainer's.")
})

const Orchestrator = section({
  batchSize: defaulted(many, 128, "Rollouts per step."),
  groupSize: defaulted(many, 8, "Rollouts per example."),
  seqLen: optional(length, "Longest rollout, prompt and completion together, in tokens. Left out, seq_len."),
  maxInflight: optional(many, "Most rollouts that run at the same time. Left out, batch_size."),
  maxErrorRate: defaulted(share, 0.5, "Share of a source's rollouts that may fail before the run stops."),
  algo: defaulted(Sections.Algorithm, { type: "grpo" }, "The algorithm of every source that names none."),
  offPolicy: table(OffPolicy, "How old samples may be, and what happens at the limit."),
  renderer: optional(
    Sections.Renderer,
    "How conversations become tokens. Left out, as the files of the model call for."
  ),
  train: table(Train, "Training sources and their sampling."),
  eval: table(Eval, "Evaluation, while training and by `primerl eval`.")
})

const Trainer = section({
  model: table(
    section({
      seqLen: optional(length, "Longest micro-batch, in tokens. Left out, seq_len."),
      lora: optional(Sections.Lora, "Train a low-rank adapter; the weights of the model stay as they are.")
    }),
    "What the trainer trains, and how it packs."
  ),
  optim: table(Sections.Optim, "The optimiser."),
  scheduler: table(Sections.Scheduler, "The learning rate over the run."),
  loss: defaulted(
    open({
      type: defaulted(moduleName, "dppo", "Which loss of sampled tokens: a built-in name, a package, or a file.")
    }),
    { type: "dppo" },
    "The loss of sampled tokens; the other keys are its own."
  ),
  engine: table(Sections.Engine, "The engine.")
})

/** @category schemas */
export const TrainFile = section({
  outputDir: defaulted(path("working"), "runs", "Folder that holds one folder per run."),
  maxSteps: defaulted(count, 100, "Optimiser steps of the run."),
  seqLen: defaulted(length, 2048, "Longest sequence in tokens, wherever a section does not set its own seq_len."),
  seed: defaulted(seed, 0, "Where all randomness of the run comes from."),
  run: table(Sections.Run, "The run."),
  model: table(
    section({ name: optional(path("file"), "Directory of the policy: config.json, safetensors, tokenizer.") }),
    "The policy."
  ),
  orchestrator: table(Orchestrator, "Rollouts: from environments to batches."),
  trainer: table(Trainer, "Batches to weights."),
  ckpt: table(Sections.Checkpoints, "Checkpoints.")
})
/** As it is read: defaults filled in, inheritance not yet. @category model */
export type TrainFile = Schema.Schema.Type<typeof TrainFile>
