/** Weights that hold a value that is no number are no weights: they are refused where they are written and where they are read. */
import * as Effect from "effect/Effect"
import { ModelError } from "./ModelError.ts"

/** The first value that is NaN or infinite. @category getters */
export const notFinite = (values: Float32Array): number | undefined => values.find((value) => !Number.isFinite(value))

/** Passes a tensor's values on when all are finite; `path` is the directory that they are to be written to. @category combinators */
export const forSaving =
  (path: string, name: string) =>
  (values: Float32Array): Effect.Effect<Float32Array, ModelError> => {
    const wrong = notFinite(values)
    return wrong === undefined
      ? Effect.succeed(values)
      : Effect.fail(
          new ModelError({ path, reason: `tensor ${name} holds ${wrong}: not saved; lower the learning rate` })
        )
  }
