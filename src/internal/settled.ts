/** Effects whose outcome is known without a runtime, as that of a plain formula is: an Exit stays an Exit and costs no fiber. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"

/** The outcome of an effect that needs no runtime to know it: what a plain formula returns. */
export const settled = <A, E>(effect: Effect.Effect<A, E>): Exit.Exit<A, E> | undefined =>
  Exit.isExit(effect) ? (effect as Exit.Exit<A, E>) : undefined

/** Changes what an effect returns; what is settled stays settled. */
export const mapSettled = <A, E, B>(effect: Effect.Effect<A, E>, f: (a: A) => B): Effect.Effect<B, E> => {
  const known = settled(effect)
  return known === undefined ? Effect.map(effect, f) : Exit.map(known, f)
}
