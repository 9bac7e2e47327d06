/**
 * A rollout's own tokens under a reference model. Invariant: the model reads what the policy read and wrote, id by id,
 * after nothing or after a hint; what it cannot read is an error of the rollout, never a log-probability of 0.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Credit from "../../Credit.ts"
import type { FrozenModel } from "../../Endpoints.ts"
import type { Rollout } from "../../Rollout.ts"
import * as Trace from "../../Trace.ts"

const join = (first: Int32Array, second: Int32Array): Int32Array => {
  const joined = new Int32Array(first.length + second.length)
  joined.set(first)
  joined.set(second, first.length)
  return joined
}

/** Branches of one rollout that are scored at a time. */
const concurrency = 4

/** A branch that the reference model cannot read whole. */
export class TooLong extends Data.TaggedError("TooLong")<{
  readonly model: string
  readonly branch: number
  readonly tokens: number
  /** tokens of the hint before it; 0 without one */
  readonly hint: number
  readonly limit: number
}> {
  override get message() {
    const { branch, hint, limit, model, tokens } = this
    const read =
      hint === 0
        ? `branch ${branch} has ${tokens} tokens`
        : `a hint of ${hint} tokens and branch ${branch} of ${tokens} make ${hint + tokens}`
    return `${read}, and ${model} reads at most ${limit}; let rollouts be shorter${hint === 0 ? "" : ", or demonstrations,"} or serve a model that reads more`
  }
}

/**
 * Log-probability of every token of every branch under `model`, at the temperature that the rollout was sampled at, so
 * that the two distributions are compared as the policy was sampled. A hint stands before each branch and is dropped.
 */
export const scoredBy = (
  model: Pick<FrozenModel, "name" | "maxSequenceLength" | "score">,
  rollout: Rollout,
  hint: Int32Array = new Int32Array(0)
): Effect.Effect<Credit.Credit, unknown> =>
  Effect.gen(function* () {
    const { maxSequenceLength: limit, name } = model
    const score = (branch: Trace.Branch, index: number) =>
      Effect.gen(function* () {
        const own = Trace.tokenIds(rollout.trace, branch)
        const tokenIds = join(hint, own)
        if (tokenIds.length > limit) {
          return yield* new TooLong({ model: name, branch: index, tokens: own.length, hint: hint.length, limit })
        }
        const logprobs = yield* model.score(tokenIds, rollout.temperature)
        return logprobs.subarray(hint.length)
      })
    const branches = Trace.branches(rollout.trace)
    // one branch needs no fiber of its own
    const logprobs = yield* Effect.forEach(branches, score, { concurrency: Math.min(concurrency, branches.length) })
    // it throws when the model gave another number of log-probabilities
    return yield* Effect.try({ try: () => Credit.reference(rollout, logprobs), catch: (cause) => cause })
  })
