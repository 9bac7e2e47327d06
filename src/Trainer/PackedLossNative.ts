/**
 * The loss on an engine. A loss with a native kernel is computed within the forward and backward sweep; any other gets
 * the log-probabilities of a forward pass and gives its gradient to a backward pass, in float64 between the two. A kernel
 * whose loss is not finite says so by what the formula says: which rollout, and which token.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Engine } from "./Engine.ts"
import { ofBatch, PackedLoss, type PackedLossService } from "./PackedLoss.ts"

/** @category constructors */
export const make = (engine: Engine): PackedLossService => ({
  forwardBackward: (batch, counts, loss) =>
    loss.native !== undefined
      ? Effect.tap(engine.forwardBackward(batch, counts, loss.native), ({ ce, logprobs, refKl, rl }) =>
          Number.isFinite(Math.fround(rl + ce + refKl)) ? Effect.void : ofBatch(batch, logprobs, counts, loss)
        )
      : Effect.gen(function* () {
          const { entropy, logprobs } = yield* engine.forward(batch)
          const { components, gradient } = yield* ofBatch(batch, logprobs, counts, loss)
          yield* engine.backward(gradient)
          return { ...components, logprobs, entropy }
        })
})

/** @category layers */
export const layer = (engine: Engine): Layer.Layer<PackedLoss> => Layer.sync(PackedLoss, () => make(engine))
