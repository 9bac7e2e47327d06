/** New weights for the model that is served. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Engine from "../Trainer/Engine.ts"
import * as Finite from "../Trainer/Finite.ts"
import * as ModelConfig from "../Trainer/ModelConfig.ts"
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

/** Tensors of one shape can be of models that compute otherwise; a directory with no config.json says nothing of that. */
const sameModel = (engine: Engine.Engine, directory: string): Effect.Effect<void, ModelError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = `${directory}/config.json`
    if (!(yield* Effect.orElseSucceed(fs.exists(path), () => false))) return
    const { config } = yield* ModelConfig.read(directory)
    const [theirs, ours] = [config, engine.config].map((one) => new Map(Object.entries(one)))
    for (const [key, value] of ours!) {
      const [found, served] = [JSON.stringify(theirs!.get(key)), JSON.stringify(value)]
      if (found === served) continue
      const reason = `is of another model: ${key} is ${found}, and the model that is served has ${served}`
      return yield* new ModelError({ path, reason })
    }
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
      yield* sameModel(engine, directory)
      const reader = yield* blank(engine, 1)
      yield* reader.load(directory)
      for (const { name } of reader.tensors) yield* finite(reader, directory, name)
      yield* Effect.flatMap(reader.snapshot, engine.adopt)
    })
  )
