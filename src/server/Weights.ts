/** New weights for the model that is served. */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Engine from "../Trainer/Engine.ts"
import * as Finite from "../Trainer/Finite.ts"
import { ModelError } from "../Trainer/ModelError.ts"
import type { NativeError } from "../Trainer/NativeError.ts"

/** An engine of the same architecture that holds no weights of its own yet. @category constructors */
export const blank = (engine: Engine.Engine, threads: number) =>
  Engine.open(engine.directory, { threads, trainable: false, randomInit: { seed: 0, std: 0 } })

/** Fails when the tensor holds a value that is no number. @category checks */
export const finite = (
  engine: Engine.Engine,
  path: string,
  name: string
): Effect.Effect<void, ModelError | NativeError> =>
  Effect.flatMap(engine.readTensor(name), (values) => {
    const wrong = Finite.notFinite(values)
    return wrong === undefined ? Effect.void : new ModelError({ path, reason: `tensor ${name} holds ${wrong}` })
  })

/**
 * Reads the weights of a directory beside the running engine, and lets it adopt them when all are read and fit: a
 * directory that is wrong changes nothing, and generations that run end on the weights that they began with.
 *
 * @category running
 */
export const update = (
  engine: Engine.Engine,
  directory: string
): Effect.Effect<void, ModelError | NativeError, FileSystem.FileSystem> =>
  Effect.scoped(
    Effect.gen(function* () {
      const reader = yield* blank(engine, 1)
      yield* reader.load(directory)
      for (const { name } of reader.tensors) yield* finite(reader, directory, name)
      yield* Effect.flatMap(reader.snapshot, engine.adopt)
    })
  )
