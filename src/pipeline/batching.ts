/** Rollouts become batches, batches become what a trainer takes. Each rollout and each absence is in one batch. */
import * as Chunk from "effect/Chunk"
import * as Stream from "effect/Stream"
import * as MicroBatch from "../MicroBatch.ts"
import type { Absent } from "../Rollout.ts"
import type { Compiled } from "./items.ts"

/** Exactly so many rollouts, or the fewest that hold so many tokens. @category model */
export type BatchSize = { readonly rollouts: number } | { readonly tokens: number }

/** Rollouts that are trained together, and what ended without counting meanwhile. @category model */
export interface Batch {
  readonly rollouts: ReadonlyArray<Compiled>
  /** what ended without counting, since the batch before */
  readonly absent: ReadonlyArray<Absent>
}

/**
 * Cuts the stream into batches in the order of arrival; the last may be short. A rollout without signal counts, one with
 * nothing to train does not.
 *
 * @category stages
 */
export const batches =
  (size: BatchSize) =>
  <E, R>(self: Stream.Stream<Compiled | Absent, E, R>): Stream.Stream<Batch, E, R> => {
    const target = "rollouts" in size ? size.rollouts : size.tokens
    const weight = ({ tokens }: Compiled) => ("rollouts" in size ? 1 : tokens)
    return Stream.suspend(() => {
      let rollouts: Array<Compiled> = []
      let absent: Array<Absent> = []
      let held = 0
      const cut = (): Batch => {
        const batch = { rollouts, absent }
        rollouts = []
        absent = []
        held = 0
        return batch
      }
      const full = (chunk: Iterable<Compiled | Absent>) => {
        const out: Array<Batch> = []
        for (const item of chunk) {
          if (item._tag === "Absent") {
            absent.push(item)
            continue
          }
          rollouts.push(item)
          held += weight(item)
          if (held >= target) out.push(cut())
        }
        return Chunk.unsafeFromArray(out)
      }
      return Stream.concat(
        Stream.mapChunks(self, full),
        Stream.suspend(() => (rollouts.length + absent.length > 0 ? Stream.make(cut()) : Stream.empty))
      )
    })
  }

/**
 * Packs each batch for the trainer: `microBatches` by worker, with the global count of each component. A sample that was
 * made by hand and does not fit is a defect.
 *
 * @category stages
 */
export const pack =
  (options: MicroBatch.PackOptions) =>
  <E, R>(self: Stream.Stream<Batch, E, R>): Stream.Stream<MicroBatch.PackedBatch, E, R> =>
    Stream.map(self, ({ rollouts }) =>
      MicroBatch.pack(
        rollouts.flatMap(({ samples }) => samples),
        options
      )
    )
