/**
 * Rollouts to batches, as Streams; every stage is an operator of its own, usable alone in a program and in a test.
 * Invariant: everything planned comes out once, as `Compiled` or as `Absent` with a reason, whatever fails on the way.
 *
 * ```ts
 * const math = Pipeline.source({ name: "math", rollouts, algorithm: Grpo.layer() })
 * const terminal = Pipeline.source({ name: "terminal", rollouts: others, algorithm: Sft.layer() })
 *
 * Pipeline.merge(math, terminal).pipe(Pipeline.batches({ rollouts: 128 }), Pipeline.pack({ maxSequenceLength: 4096 }))
 * ```
 */
export type { Scored } from "./DependentSet.ts"
export { admit, type Gate } from "./pipeline/admission.ts"
export { type Batch, type BatchSize, batches, pack } from "./pipeline/batching.ts"
export type { Compiled } from "./pipeline/items.ts"
export { inDispatchOrder } from "./pipeline/order.ts"
export { samples } from "./pipeline/samples.ts"
export { admissible, dependentSets, score } from "./pipeline/scoring.ts"
export { merge, type Source, sampled, source } from "./pipeline/sources.ts"
