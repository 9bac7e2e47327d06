/** The embedded engine as an OpenAI-compatible server: opens a model, listens, and answers until its scope closes. */
import { createServer } from "node:http"
import { basename } from "node:path"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { cores } from "../internal/cores.ts"
import * as Resolve from "../renderers/Resolve.ts"
import { Tokenizer, type TokenizerError } from "../Tokenizer.ts"
import * as Engine from "../Trainer/Engine.ts"
import { ModelError } from "../Trainer/ModelError.ts"
import type { NativeError } from "../Trainer/NativeError.ts"
import * as HuggingFace from "../tokenizer/HuggingFace.ts"
import { ListenError } from "../wire/ListenError.ts"
import * as ApiError from "./ApiError.ts"
import * as EndIds from "./EndIds.ts"
import * as Gate from "./Gate.ts"
import * as Keys from "./Keys.ts"
import * as Models from "./Models.ts"
import * as Admin from "./routes/Admin.ts"
import * as Chat from "./routes/Chat.ts"
import * as Completions from "./routes/Completions.ts"
import * as Generate from "./routes/Generate.ts"
import * as Info from "./routes/Info.ts"
import * as Tokens from "./routes/Tokens.ts"

/** What is served, where, and to whom. @category model */
export interface Options {
  /** Hugging Face directory: config.json, safetensors, tokenizer */
  readonly model: string
  /** what clients call it; the directory's own name unless given */
  readonly name?: string | undefined
  /** 127.0.0.1 */
  readonly host?: string | undefined
  /** 8000; 0 takes a free one */
  readonly port?: number | undefined
  /** of each engine (all cores) */
  readonly threads?: number | undefined
  /** longest prompt plus completion, in tokens (as far as the model's positions go) */
  readonly maxSequenceLength?: number | undefined
  /** asked of every request but /health; without it everyone may ask */
  readonly apiKey?: Redacted.Redacted | undefined
  /** opens the admin routes to those who have it */
  readonly adminKey?: Redacted.Redacted | undefined
  readonly limits?: Partial<Gate.Limits> | undefined
}

/** A server that answers. @category model */
export interface Listening {
  readonly host: string
  readonly port: number
  readonly url: string
  readonly name: string
  readonly threads: number
  readonly maxSequenceLength: number
  /** why there is no chat, if there is none */
  readonly withoutChat: string | undefined
}

const openModel = (options: Options, threads: number) =>
  Effect.gen(function* () {
    const engine = yield* Engine.open(options.model, { threads, trainable: false })
    const tokenizer = yield* HuggingFace.fromDirectory(options.model)
    yield* engine.checkVocabulary(tokenizer.vocabularySize)
    const positions = engine.config.maxPositionEmbeddings
    const maxLength = options.maxSequenceLength ?? positions
    if (maxLength > positions) {
      return yield* new ModelError({
        path: options.model,
        reason: `has ${positions} positions: a sequence of ${maxLength} tokens does not fit`
      })
    }
    const renderer = yield* Effect.either(
      Effect.provideService(Resolve.fromDirectory(options.model), Tokenizer, tokenizer)
    )
    const named = yield* EndIds.read(options.model)
    const endIds = named.length > 0 || Either.isLeft(renderer) ? named : renderer.right.stopTokenIds
    const id = options.name ?? basename(options.model.replace(/\/+$/, ""))
    return { id, root: options.model, engine, format: { tokenizer, renderer, endIds, maxLength } }
  })

const answered = <E extends ApiError.ApiError, R>(
  app: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
): Effect.Effect<HttpServerResponse.HttpServerResponse, never, R> =>
  app.pipe(
    Effect.catchAll((error) => Effect.succeed(ApiError.response(error))),
    Effect.catchAllDefect((defect) =>
      Effect.as(
        Effect.logError(Cause.pretty(Cause.die(defect))),
        ApiError.response(ApiError.internal("a defect of the server; it is in its log"))
      )
    )
  )

/** A path that is there is not to be had by every method. */
const noRoute = <E, R>({ routes }: HttpRouter.HttpRouter<E, R>) =>
  Effect.map(HttpServerRequest.HttpServerRequest, ({ method, url }) => {
    const [path] = url.split("?")
    const allowed = Array.from(routes).flatMap((route) => (route.path === path ? route.method : []))
    return allowed.length === 0
      ? ApiError.response(ApiError.invalid(`there is no ${method} ${path}`, { status: 404 }))
      : HttpServerResponse.setHeader(
          ApiError.response(ApiError.invalid(`${path} takes ${allowed.join(", ")}, not ${method}`, { status: 405 })),
          "allow",
          allowed.join(", ")
        )
  })

/** One line for each request, for those who ask for it. */
const logged = <A extends { readonly status: number }, E, R>(app: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const { method, url } = yield* HttpServerRequest.HttpServerRequest
    const [elapsed, response] = yield* Effect.timed(app).pipe(
      Effect.onInterrupt(() => Effect.logDebug(`${method} ${url}: the client went away`))
    )
    yield* Effect.logDebug(`${method} ${url} ${response.status} ${Math.round(Duration.toMillis(elapsed))} ms`)
    return response
  })

const listen = (host: string, port: number) => {
  const server = createServer()
  return NodeHttpServer.make(() => server, { host, port }).pipe(
    Effect.mapError(({ cause }) => {
      const code = (cause as NodeJS.ErrnoException | undefined)?.code ?? String(cause)
      return new ListenError({ host, port, code })
    }),
    // Runs before the server waits for its connections: what is still being answered ends here.
    Effect.tap(() => Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections())))
  )
}

/**
 * Serves a model until the scope closes; returns when it listens. Requests that run then are cut off.
 *
 * @category running
 */
export const start = (
  options: Options
): Effect.Effect<
  Listening,
  ModelError | NativeError | TokenizerError | ListenError,
  FileSystem.FileSystem | Scope.Scope
> =>
  Effect.gen(function* () {
    const threads = options.threads ?? cores()
    const host = options.host ?? "127.0.0.1"
    const model = yield* openModel(options, threads)
    const models = yield* Models.make(model)
    const gate = yield* Gate.make({ ...Gate.defaults, ...options.limits })
    const http = yield* listen(host, options.port ?? 8000)
    const { apiKey } = options
    const everyone = apiKey === undefined ? Effect.void : Keys.bearer(apiKey)
    const admin = yield* Admin.make({ threads })
    const router = HttpRouter.concatAll(
      Info.health,
      HttpRouter.concatAll(Info.routes, Completions.routes, Chat.routes, Generate.routes, Tokens.routes).pipe(
        HttpRouter.use((handler) => Effect.zipRight(everyone, handler))
      ),
      HttpRouter.use(admin, (handler) => Effect.zipRight(Keys.admin(options.adminKey), handler))
    )
    const app = router.pipe(
      Effect.catchTag("RouteNotFound", () => noRoute(router)),
      answered,
      logged,
      Effect.provideService(Models.Models, models),
      Effect.provideService(Gate.Gate, gate)
    )
    // A client that goes away ends its fiber, which is nothing to report.
    yield* Effect.withUnhandledErrorLogLevel(http.serve(app), Option.none())
    const port = http.address._tag === "TcpAddress" ? http.address.port : 0
    const { maxLength, renderer } = model.format
    return {
      host,
      port,
      url: `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
      name: model.id,
      threads,
      maxSequenceLength: maxLength,
      withoutChat: Either.isLeft(renderer) ? renderer.left.reason : undefined
    }
  })
