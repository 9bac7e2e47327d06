/** An adapter made part of a model: a directory that any program reads which knows nothing of adapters. */
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import { reasonInWords } from "../internal/FileWords.ts"
import * as Engine from "../Trainer/Engine.ts"
import * as Lora from "../Trainer/Lora.ts"
import { ModelError } from "../Trainer/ModelError.ts"
import type { NativeError } from "../Trainer/NativeError.ts"

/** What is merged, and where it goes. @category model */
export interface Options {
  /** Hugging Face directory, which is only read */
  readonly model: string
  /** PEFT directory, which is only read */
  readonly adapter: string
  /** must not be there yet */
  readonly into: string
}

/**
 * Writes the model with W + s·B·A in the place of W, as F32, with config.json and the tokenizer's files. The directory is
 * whole when it has its name.
 *
 * @category running
 */
export const run = ({
  adapter,
  into,
  model
}: Options): Effect.Effect<void, ModelError | NativeError, FileSystem.FileSystem> =>
  Effect.scoped(
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const unwritable = (error: PlatformError) =>
        new ModelError({ path: into, reason: `cannot be written (${reasonInWords(error)})` })
      if (yield* Effect.mapError(fs.exists(into), unwritable)) {
        return yield* new ModelError({ path: into, reason: "is there already; name a directory that is not" })
      }
      const engine = yield* Engine.open(model, { threads: 1, trainable: false })
      yield* Lora.merge(engine, adapter)
      const partial = `${into.replace(/\/+$/, "")}.partial`
      yield* Effect.onError(engine.save(partial), () => Effect.ignore(fs.remove(partial, { recursive: true })))
      yield* Effect.mapError(fs.rename(partial, into), unwritable)
    })
  )
