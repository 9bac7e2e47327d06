/**
 * AdamW's moments and step count beside a saved model, in `optimizer/`: two tensors per parameter, `first.NAME` and
 * `second.NAME`, shaped as the parameter. Without them a resumed step is another step.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Engine } from "./Engine.ts"
import * as Finite from "./Finite.ts"
import { ModelError } from "./ModelError.ts"
import type { Tensor } from "./Native.ts"
import * as Safetensors from "./Safetensors.ts"

const State = Schema.parseJson(Schema.Struct({ steps: Schema.NonNegativeInt }))

const placeOf = (directory: string) => `${directory}/optimizer`
const stateOf = (directory: string) => `${placeOf(directory)}/state.json`

/** @category encoding */
export const save = (engine: Engine, directory: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const moment = (which: "first" | "second", { name, shape }: Tensor) => {
      const own = `${which}.${name}`
      const values = Effect.flatMap(engine.readMoments(name), (moments) =>
        Finite.forSaving(placeOf(directory), own)(moments[which])
      )
      return { name: own, shape, values }
    }
    const tensors = engine.tensors.flatMap((tensor) => [moment("first", tensor), moment("second", tensor)])
    const files = [{ file: "model.safetensors", names: tensors.map(({ name }) => name) }]
    yield* Safetensors.write(placeOf(directory), files, tensors)
    const steps = yield* engine.optimizerSteps
    yield* fs.writeFileString(stateOf(directory), yield* Schema.encode(State)({ steps }))
  })

/** Bytes of an F32 tensor in a checkpoint, as numbers of their own. */
const floats = (bytes: Uint8Array) => new Float32Array(bytes.slice().buffer)

const wrongIn = (name: string, value: number | undefined) =>
  value === undefined
    ? undefined
    : `tensor "${name}" holds ${value}, which no step leaves; take this checkpoint away to go on from the one before it`

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
        const moments = { first: floats(yield* checkpoint.read(first)), second: floats(yield* checkpoint.read(second)) }
        const problem =
          wrongIn(first, Finite.notFinite(moments.first)) ??
          wrongIn(second, Finite.notFinite(moments.second) ?? moments.second.find((value) => value < 0))
        if (problem !== undefined) return yield* new ModelError({ path: placeOf(directory), reason: problem })
        yield* engine.writeMoments(name, moments)
      }
      const { steps } = yield* Effect.mapError(
        Effect.flatMap(fs.readFileString(stateOf(directory)), Schema.decode(State)),
        ({ message }) =>
          new ModelError({ path: stateOf(directory), reason: `is not {"steps": N} (${message.split("─ ").at(-1)})` })
      )
      yield* engine.setOptimizerSteps(steps)
    })
  )
