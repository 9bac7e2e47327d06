/** Adapters as models of the server: on the base's own engine, which they share, or merged into a copy where it cannot run them. */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Engine } from "../Trainer/Engine.ts"
import * as Lora from "../Trainer/Lora.ts"
import type { ModelError } from "../Trainer/ModelError.ts"
import type { NativeError } from "../Trainer/NativeError.ts"
import * as Peft from "../Trainer/Peft.ts"
import * as Weights from "./Weights.ts"

/**
 * The adapter in a PEFT directory on `base`, which is not changed. Requests of several adapters are computed together. An
 * adapter of the head is merged into a copy of the weights as they are now.
 *
 * @category constructors
 */
export const open = (
  base: Engine,
  directory: string,
  options: { readonly threads: number }
): Effect.Effect<Engine, ModelError | NativeError, FileSystem.FileSystem | Scope.Scope> =>
  Effect.gen(function* () {
    const { pairs } = yield* Effect.scoped(Peft.open(directory, base.tensors))
    if (Array.from(pairs.keys()).every(Lora.runs)) return yield* Lora.open(base, directory, { trainable: false })
    const engine = yield* Weights.blank(base, options.threads)
    yield* Effect.flatMap(base.snapshot, engine.adopt)
    yield* Lora.merge(engine, directory)
    return engine
  })
