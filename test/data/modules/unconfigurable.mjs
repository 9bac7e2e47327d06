import * as Effect from "effect/Effect"

export default {
  [Symbol.for("primerl/Algorithm/Definition")]: { contract: 1, effect: Effect.void[Effect.EffectTypeId]._V },
  configure: () => {
    throw new Error("no shape for these keys")
  }
}
