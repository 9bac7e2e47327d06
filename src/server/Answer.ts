/** What every answer says beside its choices. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"

/** Says which answer this is, and when it was begun (seconds since 1970). @category model */
export interface Identity {
  readonly id: string
  readonly created: number
}

/** @category constructors */
export const identity = (prefix: string): Effect.Effect<Identity> =>
  Effect.gen(function* () {
    const words = yield* Effect.replicateEffect(Random.nextIntBetween(0, 2 ** 32), 4)
    const id = words.map((word) => word.toString(16).padStart(8, "0")).join("")
    return { id: `${prefix}${id}`, created: Math.floor((yield* Clock.currentTimeMillis) / 1000) }
  })

/** Tokens that were read and sampled. @category conversions */
export const usage = (promptTokens: number, completionTokens: number) => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens
})
