/**
 * State that must survive a restart: an algorithm's baselines, a sampler's position. A cell is created where it is used,
 * under a name; a checkpoint is the encoded value of every cell, a restore is where the next run's cells begin.
 * Invariant: no value that was restored or written is ever missing from a snapshot, whether or not its cell is open.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"

/** A cell that cannot be opened or written down. @category errors */
export class StateError extends Data.TaggedError("StateError")<{ readonly cell: string; readonly reason: string }> {
  override get message() {
    return `state cell "${this.cell}": ${this.reason}`
  }
}

/** A named value, how it is written down, and what it is at the start of a run. @category model */
export interface Cell<A, I> {
  readonly name: string
  readonly schema: Schema.Schema<A, I>
  readonly initial: A
}

/** Encoded values by the name of their cell: plain JSON. @category model */
export type Snapshot = Readonly<Record<string, unknown>>

/** Opens cells, and takes the value of all of them at once. @category model */
export interface StateService {
  /** Opens a cell for as long as the scope lives; fails when its name is taken or the restored value does not decode. */
  readonly cell: <A, I>(cell: Cell<A, I>) => Effect.Effect<Ref.Ref<A>, StateError, Scope.Scope>
  /** Every value at one instant; fails when a value does not fit the schema of its cell. */
  readonly snapshot: Effect.Effect<Snapshot, StateError>
}

/** The store of everything that must survive a restart. @category tags */
export class State extends Context.Tag("primerl/State")<State, StateService>() {}

/** A store that begins with the values of a snapshot. @category constructors */
export const make = (restored: Snapshot = {}): StateService => {
  const values = new Map(Object.entries(restored))
  const open = new Map<string, Effect.Effect<unknown, StateError>>()
  // Cells that were closed on a value that cannot be written down: what there is of them is older than they were.
  const lost = new Map<string, StateError>()
  const store = (name: string, encoded: Effect.Effect<unknown, StateError>) =>
    Effect.map(encoded, (value) => values.set(name, value))
  const noted = Effect.suspend(() => {
    for (const error of lost.values()) return Effect.fail(error)
    return Effect.forEach(open, ([name, encoded]) => store(name, encoded), { discard: true })
  })
  return State.of({
    cell: ({ initial, name, schema }) =>
      Effect.gen(function* () {
        if (open.has(name)) {
          return yield* new StateError({ cell: name, reason: "opened twice; give each its own name or source" })
        }
        const broken = lost.get(name)
        if (broken !== undefined) return yield* broken
        const value = values.has(name)
          ? yield* Effect.mapError(
              Schema.decodeUnknown(schema)(values.get(name)),
              ({ message }) => new StateError({ cell: name, reason: `the restored value does not decode: ${message}` })
            )
          : initial
        const ref = yield* Ref.make(value)
        const encoded = Effect.mapError(
          Effect.flatMap(ref, Schema.encode(schema)),
          ({ message }) => new StateError({ cell: name, reason: `its value does not encode: ${message}` })
        )
        const close = Effect.zipRight(
          Effect.catchAll(store(name, encoded), (error) => Effect.sync(() => lost.set(name, error))),
          Effect.sync(() => open.delete(name))
        )
        yield* Effect.acquireRelease(
          Effect.sync(() => open.set(name, encoded)),
          () => close
        )
        return ref
      }),
    // a fiber that does not yield sees all cells at one instant
    snapshot: Effect.map(noted, () => Object.fromEntries(values)).pipe(
      Effect.withMaxOpsBeforeYield(Number.MAX_SAFE_INTEGER)
    )
  })
}

/** A store that begins with the values of a snapshot. @category layers */
export const layer = (restored: Snapshot = {}): Layer.Layer<State> => Layer.sync(State, () => make(restored))

/** The same store, seen from inside `prefix`: every cell's name begins with it. @category combinators */
export const inside = (state: StateService, prefix: string): StateService => ({
  ...state,
  cell: (cell) => state.cell({ ...cell, name: `${prefix}/${cell.name}` })
})

/** Gives what is built with it the store inside `prefix`: a source's cells live under its name. @category layers */
export const within = (prefix: string): Layer.Layer<State, never, State> =>
  Layer.effect(
    State,
    Effect.map(State, (state) => inside(state, prefix))
  )
