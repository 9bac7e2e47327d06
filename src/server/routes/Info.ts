/** `GET /health`, `GET /load` and `GET /v1/models`. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { Gate } from "../Gate.ts"
import { type Model, Models } from "../Models.ts"

/** Open to everyone: the process is up. @category routes */
export const health = HttpRouter.empty.pipe(HttpRouter.get("/health", HttpServerResponse.unsafeJson({ status: "ok" })))

const entry = ({ created, format, id, parent, root }: Model) => ({
  id,
  object: "model",
  created,
  owned_by: "primerl",
  root,
  parent: parent ?? null,
  max_model_len: format.maxLength
})

const models = Effect.gen(function* () {
  const list = yield* Effect.flatMap(Models, (service) => service.list)
  return HttpServerResponse.unsafeJson({ object: "list", data: list.map(entry) })
})

/** Requests that are in the server now. */
const load = Effect.gen(function* () {
  const now = yield* Effect.flatMap(Gate, (gate) => gate.load)
  return HttpServerResponse.unsafeJson({ server_load: now })
})

/** @category routes */
export const routes = HttpRouter.empty.pipe(HttpRouter.get("/v1/models", models), HttpRouter.get("/load", load))
