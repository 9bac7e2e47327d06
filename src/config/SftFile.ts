/** The file of supervised fine-tuning, section by section. */
import type * as Schema from "effect/Schema"
import {
  count,
  defaulted,
  length,
  many,
  optional,
  path,
  positiveFloat32,
  required,
  section,
  seed,
  share,
  table
} from "./Field.ts"
import * as Sections from "./Sections.ts"

const Model = section({
  name: required(path("file"), "Directory of the model: config.json and tokenizer; safetensors unless random_init."),
  randomInit: optional(
    section({
      seed: defaulted(seed, 0, "Where the random weights come from."),
      std: defaulted(positiveFloat32, 0.02, "Standard deviation of the random weights.")
    }),
    "Start from random weights: only config.json and tokenizer are read from the directory."
  ),
  lora: optional(Sections.Lora, "Train a low-rank adapter; the weights of the model stay as they are.")
})

const Data = section({
  env: optional(Sections.Environment, "Train on the demonstrations of an environment: its id and its own options."),
  path: optional(path("file"), "Train on a JSONL file with one {messages} per line."),
  batchSize: defaulted(many, 128, "Sequences per step."),
  seqLen: defaulted(length, 2048, "Longest sequence, in tokens."),
  lossWeights: table(
    section({
      system: defaulted(share, 0, "Weight of what system messages say."),
      user: defaulted(share, 0, "Weight of what users say."),
      tool: defaulted(share, 0, "Weight of what tools say.")
    }),
    "What is learned beside what the assistant says, which has weight 1."
  )
})

/** @category schemas */
export const SftFile = section({
  outputDir: defaulted(path("working"), "runs", "Folder that holds one folder per run."),
  maxSteps: defaulted(count, 100, "Optimiser steps of the run."),
  seed: defaulted(seed, 0, "Where all randomness of the run comes from."),
  saveTo: optional(path("file"), "Directory that the finished policy is also written to."),
  run: table(Sections.Run, "The run."),
  model: required(Model, "What is trained."),
  data: table(Data, "What it is trained on."),
  renderer: optional(
    Sections.Renderer,
    "How conversations become tokens. Left out, as the files of the model call for."
  ),
  optim: table(Sections.Optim, "The optimiser."),
  scheduler: table(Sections.Scheduler, "The learning rate over the run."),
  engine: table(Sections.Engine, "The engine."),
  ckpt: table(Sections.Checkpoints, "Checkpoints.")
})
/** As it is read: defaults filled in. @category model */
export type SftFile = Schema.Schema.Type<typeof SftFile>
