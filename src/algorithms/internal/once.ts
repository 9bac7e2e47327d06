/** A warning that is given the first time, and not again for as long as what asked for it lives. */
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"

/** Makes a warning that is logged at most once. */
export const once: Effect.Effect<(warning: string) => Effect.Effect<void>> = Effect.map(
  Ref.make(false),
  (given) => (warning) =>
    Effect.flatMap(Ref.getAndSet(given, true), (before) => (before ? Effect.void : Effect.logWarning(warning)))
)
