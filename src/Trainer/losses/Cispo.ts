/**
 * CISPO, per token: −detach(clip(r, 1 − ε_low, 1 + ε_high))·A·ln p(trainer), where r is the trainer's over the sampler's
 * probability (MiniMax-M1, arXiv 2506.13585). What is clipped is the weight of a token's gradient, so that no token
 * loses its gradient, however far its ratio has moved.
 */
import * as Schema from "effect/Schema"
import * as RlLoss from "../RlLoss.ts"
import { nonNegative } from "./internal/nonNegative.ts"
import { shares } from "./internal/shares.ts"

const Config = Schema.Struct({
  /** ε_low: 1 is no lower bound, as in the paper */
  clip_low: nonNegative(1),
  /** ε_high: 4, a weight of at most 5; the paper tunes it and names none */
  clip_high: nonNegative(4)
})

/** Bounds the weight of a token and leaves none out. @category losses */
export default RlLoss.define({
  type: "cispo",
  Config,
  loss:
    ({ clip_high, clip_low }) =>
    ({ advantages, inference, trainer }) =>
      trainer
        .minus(inference)
        .exp()
        .clamp(1 - clip_low, 1 + clip_high)
        .detach()
        .times(advantages)
        .times(trainer)
        .negate(),
  metrics:
    ({ clip_high, clip_low }) =>
    ({ inference, trainer }) => {
      const ratio = (i: number) => Math.exp(trainer[i]! - inference[i]!)
      return shares(trainer.length, {
        is_clipped_low: (i) => ratio(i) < 1 - clip_low,
        is_clipped_high: (i) => ratio(i) > 1 + clip_high
      })
    },
  native: ({ clip_high, clip_low }) => ({ kernel: "cispo", clipLow: clip_low, clipHigh: clip_high })
})
