import { assert, describe, it } from "@effect/vitest"
import { Effect, Ref, Schema } from "effect"
import * as State from "../src/State.ts"

const counter = (name: string) => ({ name, schema: Schema.Number, initial: 0 })
const seen = { name: "seen", schema: Schema.Set(Schema.String), initial: new Set<string>() }

describe("State", () => {
  it.scoped("a snapshot is the encoded value of every cell, and a restored store begins there", () =>
    Effect.gen(function* () {
      const before = State.make()
      const count = yield* before.cell(counter("count"))
      const names = yield* before.cell(seen)
      yield* Ref.set(count, 3)
      yield* Ref.set(names, new Set(["a", "b"]))
      const snapshot = yield* before.snapshot
      assert.deepStrictEqual(snapshot, { count: 3, seen: ["a", "b"] })

      const after = State.make(JSON.parse(JSON.stringify(snapshot)))
      assert.strictEqual(yield* Ref.get(yield* after.cell(counter("count"))), 3)
      assert.deepStrictEqual(yield* Ref.get(yield* after.cell(seen)), new Set(["a", "b"]))
    })
  )

  it.scoped("what was restored stays in the snapshot before its cell is opened and after it is closed", () =>
    Effect.gen(function* () {
      const state = State.make({ early: 7 })
      assert.deepStrictEqual(yield* state.snapshot, { early: 7 })
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* Ref.update(yield* state.cell(counter("early")), (n) => n + 1)
        })
      )
      assert.deepStrictEqual(yield* state.snapshot, { early: 8 })
      assert.strictEqual(yield* Ref.get(yield* state.cell(counter("early"))), 8)
    })
  )

  it.scoped("a cell that is closed on a value that does not encode fails every later snapshot", () =>
    Effect.gen(function* () {
      const state = State.make({ count: 1 })
      yield* Effect.scoped(
        Effect.gen(function* () {
          const count = yield* state.cell({ name: "count", schema: Schema.JsonNumber, initial: 0 })
          yield* Ref.set(count, Number.NaN)
        })
      )
      const inSnapshot = yield* Effect.flip(state.snapshot)
      const whenReopened = yield* Effect.flip(Effect.scoped(state.cell(counter("count"))))
      for (const { message } of [inSnapshot, whenReopened]) {
        assert.match(message, /state cell "count": its value does not encode/)
      }
    })
  )

  it.scoped("cells of two sources live under their names, and a name is taken while its cell is open", () =>
    Effect.gen(function* () {
      const cellOf = (prefix: string) =>
        Effect.flatMap(State.State, (state) => state.cell(counter("baseline"))).pipe(
          Effect.provide(State.within(prefix))
        )
      yield* Ref.set(yield* cellOf("math"), 1)
      yield* Ref.set(yield* cellOf("code"), 2)
      assert.deepStrictEqual(yield* Effect.flatMap(State.State, (state) => state.snapshot), {
        "math/baseline": 1,
        "code/baseline": 2
      })
      const error = yield* Effect.flip(cellOf("math"))
      assert.include(error.message, 'state cell "math/baseline": opened twice')
    }).pipe(Effect.provide(State.layer()))
  )

  it.scoped("a restored value that does not decode is an error that names the cell", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(State.make({ count: "three" }).cell(counter("count")))
      assert.strictEqual(error._tag, "StateError")
      assert.include(error.message, 'state cell "count": the restored value does not decode')
    })
  )

  it.scoped("a value that does not encode is an error, not a gap in the checkpoint", () =>
    Effect.gen(function* () {
      const state = State.make()
      const ref = yield* state.cell({ name: "rate", schema: Schema.Number.pipe(Schema.finite()), initial: 1 })
      yield* Ref.set(ref, Number.NaN)
      const error = yield* Effect.flip(state.snapshot)
      assert.include(error.message, 'state cell "rate": its value does not encode')
    })
  )
})
