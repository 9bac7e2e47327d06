/** A trainer without weights: it computes real losses through `PackedLoss`, and a step only counts. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import Dppo from "./losses/Dppo.ts"
import type { PackedLoss } from "./PackedLoss.ts"
import * as RlLoss from "./RlLoss.ts"
import { Trainer } from "./Trainer.ts"
import * as Training from "./Training.ts"

const defaults: Training.Options = {
  loss: RlLoss.make(Dppo, {}),
  learningRate: 1e-3,
  schedule: { type: "constant" },
  steps: 1,
  beta1: 0.9,
  beta2: 0.999,
  eps: 1e-8,
  weightDecay: 0,
  maxGradNorm: 1
}

/**
 * Deterministic. `optimizerStep` says what a step comes to (a norm of 1, applied, unless given); what is saved is kept in
 * memory under its directory.
 *
 * @category layers
 */
export const layerMock = (
  options: Partial<Training.Options> & {
    readonly optimizerStep?: Training.Weights["optimizerStep"] | undefined
    readonly onSave?: ((directory: string) => void) | undefined
  } = {}
): Layer.Layer<Trainer, never, PackedLoss> => {
  const { onSave, optimizerStep, ...given } = options
  return Layer.effect(
    Trainer,
    Training.make(
      {
        zeroGradients: Effect.void,
        optimizerStep: optimizerStep ?? (() => Effect.succeed({ gradNorm: 1, applied: true })),
        snapshot: Effect.succeed({ bytes: 0 }),
        save: (directory) => Effect.sync(() => onSave?.(directory)),
        restore: () => Effect.void
      },
      { ...defaults, ...given }
    )
  )
}
