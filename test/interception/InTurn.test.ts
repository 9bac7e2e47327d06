import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as InTurn from "../../src/interception/InTurn.ts"

it.effect("work is done in its order, with a look at the network between any two pieces", () =>
  Effect.gen(function* () {
    const order: Array<string> = []
    const inTurn = InTurn.make()
    yield* Effect.async<void>((resume) => {
      inTurn(() => order.push("first"))
      inTurn(() => {
        order.push("second")
        inTurn(() => {
          order.push("third")
          resume(Effect.void)
        })
      })
      const look = () => {
        order.push("look")
        if (!order.includes("third")) setImmediate(look)
      }
      setImmediate(look)
    })
    expect(order).toEqual(["first", "look", "second", "look", "third"])
  })
)
