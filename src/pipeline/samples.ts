/** Credit becomes flat samples, and what would move nothing is left out of them. */
import * as Either from "effect/Either"
import * as Stream from "effect/Stream"
import type { Scored } from "../DependentSet.ts"
import type { Absent } from "../Rollout.ts"
import * as TrainingSample from "../TrainingSample.ts"
import { failed } from "./internal/failure.ts"
import type { Compiled } from "./items.ts"

/** One rollout of them. @category stages */
export const compile = (scored: Scored): Compiled | Absent =>
  Either.match(TrainingSample.make(scored), {
    onLeft: (error) => failed(scored.rollout, error),
    onRight: (branches) => {
      const samples: Array<TrainingSample.TrainingSample> = []
      for (const branch of branches) {
        const sample = TrainingSample.moving(branch)
        if (sample !== undefined) samples.push(sample)
      }
      return {
        _tag: "Compiled",
        rollout: scored.rollout,
        credit: scored.credit,
        samples,
        tokens: branches.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
        withoutSignal: branches.length - samples.length,
        signal: samples.length > 0
      }
    }
  })

/**
 * Lays credit out over tokens. Branches without signal in any component are dropped and counted, and so are `rl` tokens
 * with an advantage of 0; a rollout whose claims conflict or do not fit is `Absent` and the algorithm is to blame.
 *
 * @category stages
 */
export const samples = <E, R>(self: Stream.Stream<Scored | Absent, E, R>): Stream.Stream<Compiled | Absent, E, R> =>
  Stream.map(self, (item) => (item._tag === "Absent" ? item : compile(item)))
