/** A hook that failed costs its rollouts, never the stream: the cause becomes a reason in words. */
import * as Cause from "effect/Cause"
import { inWords } from "../../internal/inWords.ts"
import { type Absent, absent, type Planned } from "../../Rollout.ts"

const why = (failure: unknown): string => {
  if (!Cause.isCause(failure)) return inWords(failure)
  if (Cause.isInterruptedOnly(failure)) return "interrupted"
  const squashed = Cause.squash(failure)
  const defect = Cause.isDie(failure) && !Cause.isFailure(failure)
  return `${defect ? "defect: " : ""}${inWords(squashed)}`
}

/** An absence that blames the algorithm. */
export const failed = (planned: Planned, failure: unknown): Absent =>
  absent(planned, { _tag: "Failed", blame: "algorithm", message: why(failure) })
