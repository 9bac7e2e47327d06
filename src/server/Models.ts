/** The models of the server by their names: the one that it was started with, and adapters on it that come and go. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import type { RendererError, RendererService } from "../Renderer.ts"
import type { TokenizerService } from "../Tokenizer.ts"
import type { Engine } from "../Trainer/Engine.ts"
import { type ApiError, invalid } from "./ApiError.ts"

/** What reads and writes text for every model of the server. @category model */
export interface Format {
  readonly tokenizer: TokenizerService
  /** or why there is no chat */
  readonly renderer: Either.Either<RendererService, RendererError>
  /** ids that end any completion */
  readonly endIds: ReadonlyArray<number>
  /** longest prompt plus completion, in tokens */
  readonly maxLength: number
}

/** @category model */
export interface Model {
  readonly id: string
  /** where its weights come from */
  readonly root: string
  /** the model that it is an adapter of */
  readonly parent: string | undefined
  /** seconds since 1970 */
  readonly created: number
  readonly engine: Engine
  readonly format: Format
}

/** @category model */
export interface ModelsService {
  readonly base: Model
  readonly list: Effect.Effect<ReadonlyArray<Model>>
  /** The model of that name (the base without one), which stays until the scope closes. */
  readonly lease: (name: string | null | undefined) => Effect.Effect<Model, ApiError, Scope.Scope>
  /** Takes the place of an adapter of the same name, which ends with its last request. */
  readonly add: <E>(
    adapter: { readonly id: string; readonly root: string },
    open: Effect.Effect<Engine, E, Scope.Scope>
  ) => Effect.Effect<void, E | ApiError>
  readonly remove: (id: string) => Effect.Effect<void, ApiError>
}

/** @category tags */
export class Models extends Context.Tag("primerl/server/Models")<Models, ModelsService>() {}

interface Entry {
  readonly model: Model
  readonly close: Effect.Effect<void>
  users: number
  retired: boolean
}

const now = Effect.map(Clock.currentTimeMillis, (millis) => Math.floor(millis / 1000))

/** The engines of adapters are closed when the scope is. @category constructors */
export const make = (base: Omit<Model, "created" | "parent">): Effect.Effect<ModelsService, never, Scope.Scope> =>
  Effect.gen(function* () {
    const whole: Model = { ...base, parent: undefined, created: yield* now }
    const entries = new Map<string, Entry>([[whole.id, { model: whole, close: Effect.void, users: 0, retired: false }]])
    const closeUnused = (entry: Entry) => (entry.retired && entry.users === 0 ? entry.close : Effect.void)
    const retire = (entry: Entry | undefined) => {
      if (entry === undefined) return Effect.void
      entry.retired = true
      return closeUnused(entry)
    }
    yield* Effect.addFinalizer(() => Effect.forEach(entries.values(), ({ close }) => close, { discard: true }))

    const unknown = (name: string) =>
      invalid(
        `there is no model ${JSON.stringify(name)} on this server, which has: ${Array.from(entries.keys()).join(", ")}`,
        {
          status: 404,
          param: "model",
          code: "model_not_found"
        }
      )
    const protectedBase = (id: string) =>
      id === whole.id
        ? Effect.fail(
            invalid(`${JSON.stringify(id)} is the model that the server was started with`, { param: "lora_name" })
          )
        : Effect.void
    return {
      base: whole,
      list: Effect.sync(() => Array.from(entries.values(), ({ model }) => model)),
      lease: (name) =>
        Effect.acquireRelease(
          Effect.suspend(() => {
            const entry = entries.get(name ?? whole.id)
            if (entry === undefined) return unknown(name ?? whole.id)
            entry.users++
            return Effect.succeed(entry)
          }),
          (entry) =>
            Effect.suspend(() => {
              entry.users--
              return closeUnused(entry)
            })
        ).pipe(Effect.map(({ model }) => model)),
      add: (adapter, open) =>
        Effect.gen(function* () {
          yield* protectedBase(adapter.id)
          const created = yield* now
          // An engine that is open is in the list: a client that goes away in between must not leave one behind.
          yield* Effect.uninterruptibleMask((restore) =>
            Effect.gen(function* () {
              const scope = yield* Scope.make()
              const engine = yield* restore(Scope.extend(open, scope)).pipe(
                Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause)))
              )
              const model: Model = { ...adapter, parent: whole.id, created, engine, format: whole.format }
              const before = entries.get(adapter.id)
              entries.set(adapter.id, { model, close: Scope.close(scope, Exit.void), users: 0, retired: false })
              yield* retire(before)
            })
          )
        }),
      remove: (id) =>
        Effect.gen(function* () {
          yield* protectedBase(id)
          const entry = entries.get(id)
          if (entry === undefined) return yield* unknown(id)
          entries.delete(id)
          yield* retire(entry)
        })
    }
  })
