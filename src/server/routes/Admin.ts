/** Routes that change what is served: pause and resume, new weights, adapters. */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import type { ModelError } from "../../Trainer/ModelError.ts"
import type { NativeError } from "../../Trainer/NativeError.ts"
import * as Adapter from "../Adapter.ts"
import { type ApiError, internal, invalid } from "../ApiError.ts"
import * as Body from "../Body.ts"
import { Gate } from "../Gate.ts"
import { Models } from "../Models.ts"
import * as Weights from "../Weights.ts"
import { LoadAdapterRequest, UnloadAdapterRequest, UpdateWeightsRequest } from "../wire/AdminRequests.ts"

const done = (status: string) => Effect.succeed(HttpServerResponse.unsafeJson({ status }))

/** Files that do not fit are the caller's; what the engine cannot do is the server's. */
const refused =
  (param: string) =>
  <E extends ModelError | NativeError | ApiError>(error: E): ApiError => {
    switch (error._tag) {
      case "ApiError":
        return error
      case "ModelError":
        return invalid(error.message, { param })
      case "NativeError":
        return internal(error.message)
    }
  }

/**
 * Generations that run go on to their end, new ones wait. `threads` is for each engine.
 *
 * @category routes
 */
export const make = (options: { readonly threads: number }) =>
  Effect.gen(function* () {
    const context = yield* Effect.context<FileSystem.FileSystem>()
    // What an adapter is merged into must not change meanwhile.
    const turn = yield* Effect.makeSemaphore(1)
    const inTurn = <A, E, R>(effect: Effect.Effect<A, E, R>) => turn.withPermits(1)(effect)

    const pause = Effect.zipRight(
      Effect.flatMap(Gate, (gate) => gate.pause),
      done("paused")
    )
    const resume = Effect.zipRight(
      Effect.flatMap(Gate, (gate) => gate.resume),
      done("resumed")
    )
    const updateWeights = Effect.gen(function* () {
      const { weight_dir } = yield* Body.read(UpdateWeightsRequest)
      const { base } = yield* Models
      yield* Weights.update(base.engine, weight_dir).pipe(
        Effect.provide(context),
        Effect.mapError(refused("weight_dir")),
        inTurn
      )
      return yield* done("ok")
    })
    const load = Effect.gen(function* () {
      const { lora_name: id, lora_path: root } = yield* Body.read(LoadAdapterRequest)
      const models = yield* Models
      const open = Effect.provide(Adapter.open(models.base.engine, root, options), context)
      yield* models.add({ id, root }, open).pipe(Effect.mapError(refused("lora_path")), inTurn)
      return yield* done("ok")
    })
    const unload = Effect.gen(function* () {
      const { lora_name } = yield* Body.read(UnloadAdapterRequest)
      yield* Effect.flatMap(Models, (models) => models.remove(lora_name))
      return yield* done("ok")
    })
    return HttpRouter.empty.pipe(
      HttpRouter.post("/pause", pause),
      HttpRouter.post("/resume", resume),
      HttpRouter.post("/update_weights", updateWeights),
      HttpRouter.post("/v1/load_lora_adapter", load),
      HttpRouter.post("/load_lora_adapter", load),
      HttpRouter.post("/v1/unload_lora_adapter", unload),
      HttpRouter.post("/unload_lora_adapter", unload)
    )
  })
