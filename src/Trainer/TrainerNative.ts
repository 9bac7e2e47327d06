/** The trainer on an engine: its weights, its gradients, its optimiser; what it saves is a Hugging Face model. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Engine } from "./Engine.ts"
import * as OptimizerState from "./OptimizerState.ts"
import { Trainer } from "./Trainer.ts"
import * as Training from "./Training.ts"

/** @category layers */
export const layer = (engine: Engine, options: Training.Options) =>
  Layer.effect(
    Trainer,
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const withFiles = Effect.provideService(FileSystem.FileSystem, fs)
      return yield* Training.make(
        {
          zeroGradients: engine.zeroGradients,
          optimizerStep: engine.optimizerStep,
          snapshot: engine.snapshot,
          save: (directory) =>
            engine.save(directory).pipe(Effect.zipRight(OptimizerState.save(engine, directory)), withFiles),
          restore: (directory) =>
            engine.load(directory).pipe(Effect.zipRight(OptimizerState.load(engine, directory)), withFiles)
        },
        options
      )
    })
  )
