/**
 * AdamW's moments and step count beside a saved model, in `optimizer/`: two tensors per parameter, `first.NAME` and
 * `second.NAME`, shaped as the parameter. Without them a resumed step is another step.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Engine } from "./Engine.ts"
import { ModelError } from "./ModelError.ts"
import * as Safetensors from "./Safetensors.ts"

const State = Schema.parseJson(Schema.Struct({ steps: Schema.NonNegativeInt }))

const placeOf = (directory: string) => `${directory}/optimizer`
const stateOf = (directory: string) => `${placeOf(directory)}/state.json`

/** @category encoding */
export const save = (engine: Engine, directory: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const tensors = engine.tensors.flatMap(({ name, shape }) => [
      { name: `first.${name}`, shape, values: Effect.map(engine.readMoments(name), ({ first }) => first) },
      { name: `second.${name}`, shape, values: Effect.map(engine.readMoments(name), ({ second }) => second) }
    ])
    const files = [{ file: "model.safetensors", names: tensors.map(({ name }) => name) }]
    yield* Safetensors.write(placeOf(directory), files, tensors)
    const steps = yield* engine.optimizerSteps
    yield* fs.writeFileString(stateOf(directory), yield* Schema.encode(State)({ steps }))
  })

/** Bytes of an F32 tensor in a checkpoint, as numbers of their own. */
const floats = (bytes: Uint8Array) => new Float32Array(bytes.slice().buffer)

/** @category decoding */
export const load = (engine: Engine, directory: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const checkpoint = yield* Safetensors.open(placeOf(directory))
      for (const { name, shape } of engine.tensors) {
        const [first, second] = [`first.${name}`, `second.${name}`]
        const wrong = [first, second].find((one) => checkpoint.tensors.get(one)?.shape.join() !== shape.join())
        if (wrong !== undefined) {
          return yield* new ModelError({
            path: placeOf(directory),
            reason: `tensor "${wrong}" is missing or not of shape [${shape.join(", ")}]`
          })
        }
        yield* engine.writeMoments(name, {
          first: floats(yield* checkpoint.read(first)),
          second: floats(yield* checkpoint.read(second))
        })
      }
      const { steps } = yield* Effect.mapError(
        Effect.flatMap(fs.readFileString(stateOf(directory)), Schema.decode(State)),
        ({ message }) =>
          new ModelError({ path: stateOf(directory), reason: `is not {"steps": N} (${message.split("─ ").at(-1)})` })
      )
      yield* engine.setOptimizerSteps(steps)
    })
  )
