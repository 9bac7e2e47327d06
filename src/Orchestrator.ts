/**
 * The loop: step n trains on rollouts of the weights v(n−1−lag) and makes v(n). With a lag of 1 the rollouts of step n+1
 * are generated while step n trains; weights are handed to inference only between the two, so which weights a rollout
 * sees follows from its place in the plan, never from the clock, and two runs of one seed agree bit for bit.
 */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import type { Algorithm } from "./Algorithm.ts"
import { Checkpoints } from "./Checkpoint.ts"
import type { FrozenModel } from "./Endpoints.ts"
import * as Environment from "./Environment.ts"
import { Inference, type InferenceService } from "./Inference.ts"
import { Journal, type JournalError } from "./Journal.ts"
import * as MicroBatch from "./MicroBatch.ts"
import * as Dispatcher from "./orchestrator/Dispatcher.ts"
import * as StepSummary from "./orchestrator/StepSummary.ts"
import type { Permits } from "./Permits.ts"
import { compile } from "./pipeline/samples.ts"
import type { Renderer } from "./Renderer.ts"
import type { EvalReport, StepReport } from "./Report.ts"
import type * as Rollout from "./Rollout.ts"
import * as Sampler from "./Sampler.ts"
import * as Session from "./Session.ts"
import * as State from "./State.ts"
import { Trainer } from "./Trainer/Trainer.ts"

/** An environment and the algorithm that scores its rollouts. @category model */
export interface Source<E, R> {
  /** how reports and files name it; the environment's name unless given */
  readonly name?: string | undefined
  readonly environment: Environment.Environment
  readonly algorithm: Layer.Layer<Algorithm, E, R>
  /** rollouts of one example (8) */
  readonly groupSize?: number | undefined
  /** share of the groups, relative to the other sources (1) */
  readonly ratio?: number | undefined
  readonly sampling?: Environment.Sampling | undefined
  /** who samples its rollouts: a frozen model, or what connects to one; the policy unless given */
  readonly model?: FrozenModel | Effect.Effect<FrozenModel, E, R> | undefined
}

/** What is trained on, for how long, and when the run must stop. @category model */
export interface Options<E, R, E2 = never> {
  readonly sources: ReadonlyArray<Source<E, R>>
  /** optimiser steps in the whole run */
  readonly steps: number
  /** first step of this process: one more than the step it resumes from (1) */
  readonly firstStep?: number | undefined
  /** reward of the step before the first, where there was one */
  readonly previousReward?: number | undefined
  /** the first step's rollouts come from the weights that it starts from, as the older ones are gone (false) */
  readonly fresh?: boolean | undefined
  /** rollouts per step that count: groups are whole, so a step may hold a few more (128) */
  readonly batchSize?: number | undefined
  /** tokens of a micro-batch (2048) */
  readonly maxSequenceLength?: number | undefined
  /** 1 generates the next step's rollouts while a step trains, 0 waits for its weights (1) */
  readonly lag?: 0 | 1 | undefined
  readonly seed?: number | undefined
  /** share of failed rollouts of one source in a step above which the run stops (0.5) */
  readonly maxErrorRate?: number | undefined
  /** times a step plans more groups because too few rollouts counted (3) */
  readonly maxRefills?: number | undefined
  /** what is measured on the weights that a step made, before anything else is generated; none unless given */
  readonly evaluate?:
    | ((step: number) => Effect.Effect<ReadonlyArray<EvalReport>, never, Inference | Renderer | Permits>)
    | undefined
  /** what is done with a finished step before its checkpoint: one that has a checkpoint has been told */
  readonly record?: ((report: StepReport) => Effect.Effect<void, E2>) | undefined
  /** steps in a row without any signal after which the run stops (10) */
  readonly maxEmptyBatches?: number | undefined
}

/** A run that must stop, with the step and the reason. @category errors */
export class OrchestratorError extends Data.TaggedError("OrchestratorError")<{
  readonly step: number
  readonly reason: string
}> {
  override get message() {
    return `step ${this.step}: ${this.reason}`
  }
}

/** Weights that are the same on both sides give nearly the same log-probabilities; more than this is another distribution. */
const largestLogRatio = 0.05

const mismatch = (logRatio: number) =>
  `trainer and inference have the same weights and disagree by ${logRatio.toFixed(3)} nats per token (at most ${largestLogRatio} is rounding): the sampler's log-probabilities are not those of the distribution it samples from; they must be taken at the sampling temperature, over the whole vocabulary, on the published weights`

/** A frozen model in the policy's place. It takes no weights, and no rollout of it grows longer than one of the policy's. */
const inPlaceOf = (policy: InferenceService, model: FrozenModel): InferenceService => ({
  name: model.name,
  maxSequenceLength: Math.min(model.maxSequenceLength, policy.maxSequenceLength),
  generate: (promptIds, sampling) => model.generate(promptIds, sampling),
  score: (tokenIds, temperature) => model.score(tokenIds, temperature),
  adopt: () => Effect.void
})

/** A step's rollouts with their credit, and the state behind them. */
interface Filled {
  readonly items: ReadonlyArray<Dispatcher.Item>
  readonly state: State.Snapshot
}

/** Where the loop is between two steps. */
interface Position<E> {
  readonly step: number
  readonly emptyBatches: number
  /** mean reward of the step before */
  readonly reward: number | undefined
  /** brings the rollouts of `step` */
  readonly filling: Fiber.Fiber<
    Filled,
    OrchestratorError | JournalError | Dispatcher.OpenSetError | State.StateError | E
  >
}

type Model<S> = S extends { readonly model?: infer M } ? M : never
type ErrorOf<M> = M extends Effect.Effect<unknown, infer E, unknown> ? E : never
type ContextOf<M> = M extends Effect.Effect<unknown, unknown, infer R> ? R : never

/** What keeps any of the sources from starting. @category model */
export type SourcesError<S extends Source<unknown, unknown>> = Layer.Layer.Error<S["algorithm"]> | ErrorOf<Model<S>>

/** What the sources need together. @category model */
export type SourcesContext<S extends Source<unknown, unknown>> =
  | Layer.Layer.Context<S["algorithm"]>
  | ContextOf<Model<S>>

/**
 * Training as a stream: each element is one finished step; pulling it runs it. Sources of different algorithms share each
 * step; what their parts need and fail with adds up.
 *
 * @category constructors
 */
export const steps = <const Sources extends ReadonlyArray<Source<unknown, unknown>>, E2 = never>(
  options: Omit<Options<unknown, unknown, E2>, "sources"> & { readonly sources: Sources }
) =>
  training(
    options as Omit<typeof options, "sources"> & {
      readonly sources: ReadonlyArray<Source<SourcesError<Sources[number]>, SourcesContext<Sources[number]>>>
    }
  )

const training = <E, R, E2>(options: Options<E, R, E2>) =>
  Stream.unwrapScoped(
    Effect.gen(function* () {
      const {
        batchSize = 128,
        firstStep = 1,
        fresh = false,
        lag = 1,
        maxEmptyBatches = 10,
        maxErrorRate = 0.5,
        maxRefills = 3,
        maxSequenceLength = 2048,
        seed = 0,
        steps
      } = options
      const trainer = yield* Trainer
      const inference = yield* Inference
      const checkpoints = yield* Checkpoints
      const journal = yield* Journal
      const state = yield* State.State
      const scope = yield* Effect.scope
      const cursor = yield* state.cell({ name: "sampler", schema: Sampler.Cursor, initial: Sampler.start })
      const planned = yield* Ref.get(cursor)

      const sources = yield* Effect.forEach(options.sources, (source) =>
        Effect.gen(function* () {
          const name = source.name ?? source.environment.name
          const groupSize = source.groupSize ?? 8
          const model = Effect.isEffect(source.model) ? yield* source.model : source.model
          const sampler = model === undefined ? inference : inPlaceOf(inference, model)
          return {
            name,
            groupSize,
            model,
            frozen: model !== undefined,
            restrictions: source.sampling === undefined ? [] : Session.restrictions(source.sampling),
            labels: model === undefined ? {} : { model: model.name },
            ratio: source.ratio ?? 1,
            algorithm: source.algorithm,
            example: (index: number) => Environment.exampleKey(source.environment, index),
            firstSequence: (planned.sources[name] ?? 0) * groupSize,
            run: (one: Rollout.Planned) =>
              Environment.rollout(source.environment, one, { seed, sampling: source.sampling }).pipe(
                Effect.provideService(Inference, sampler)
              )
          }
        })
      )
      const serving = yield* Ref.make(firstStep - 1)
      const dispatcher = yield* Dispatcher.make(sources, Ref.get(serving))

      const policyVersionOf = (step: number) => (fresh && step === firstStep ? step - 1 : Math.max(0, step - 1 - lag))
      const plan = (rollouts: number, policyVersion: number) =>
        Ref.modify(cursor, (at) => {
          const next = Sampler.plan(sources, { seed, rollouts, policyVersion, cursor: at })
          return [next.planned, next.cursor] as const
        })

      /** What a step came to that was whole before this process began: nobody is asked for it again. */
      const found = (step: number) =>
        Effect.map(
          journal.sealed(step),
          Option.map(
            ({ items, state }): Filled => ({
              items: items.map((item) => (item._tag === "Absent" ? item : compile(item))),
              state
            })
          )
        )

      /** Dispatches groups until enough rollouts count; what one round brings decides the next, in plan order. */
      const fill = Effect.fn("Orchestrator.fill")(function* (step: number) {
        const before = yield* found(step)
        if (Option.isSome(before)) return before.value
        const policyVersion = policyVersionOf(step)
        const items: Array<Dispatcher.Item> = []
        const counted = () => items.filter(StepSummary.isCompiled).length
        for (let round = 0; round <= maxRefills && counted() < batchSize; round++) {
          items.push(...(yield* dispatcher.run(step, yield* plan(batchSize - counted(), policyVersion))))
          const failing = StepSummary.failing(items, maxErrorRate)
          const stop = failing ?? StepSummary.misused(items, sources)
          if (stop !== undefined) return yield* new OrchestratorError({ step, reason: stop })
        }
        if (counted() > 0) {
          const filled: Filled = { items, state: yield* state.snapshot }
          const scored = items.map((item) =>
            StepSummary.isCompiled(item)
              ? { _tag: "Scored" as const, rollout: item.rollout, credit: item.credit }
              : item
          )
          // A step is written down before it is used.
          yield* journal.seal(step, { items: scored, state: filled.state })
          return filled
        }
        return yield* new OrchestratorError({
          step,
          reason: `none of ${items.length} rollouts counts after ${maxRefills + 1} rounds (${StepSummary.absences(items)}); for example ${StepSummary.example(items)}`
        })
      })

      /**
       * One finished step, and the fiber that fills the next. Its span must not know `at`, as that of `Effect.fn` would: the
       * next fiber keeps this span, and through the fibers in between every rollout of the run.
       */
      const run = Effect.fnUntraced(function* (at: Position<E>) {
        const { step } = at
        const started = yield* Clock.currentTimeMillis
        // A resumed run starts from the state as it was before the next step's rollouts touched it.
        const { items, state: snapshot } = yield* Fiber.join(at.filling)
        const more = step < steps
        const ahead = more && lag > 0 ? yield* Effect.forkIn(fill(step + 1), scope) : undefined

        const packed = MicroBatch.pack(StepSummary.samples(items), { maxSequenceLength })
        const empty = packed.tokens === 0
        const trained = empty ? undefined : yield* trainer.step(packed, step)
        const sameWeights = step - 1 === policyVersionOf(step)
        if (sameWeights && trained !== undefined && trained.logRatio > largestLogRatio) {
          return yield* new OrchestratorError({ step, reason: mismatch(trained.logRatio) })
        }
        const emptyBatches = empty ? at.emptyBatches + 1 : 0
        if (emptyBatches >= maxEmptyBatches) {
          return yield* new OrchestratorError({
            step,
            reason: `${emptyBatches} steps in a row had nothing to train: ${StepSummary.idle(items, packed, maxSequenceLength)}`
          })
        }

        const aheadFailed = ahead !== undefined && Exit.isFailure(yield* Fiber.await(ahead))
        yield* inference.adopt(yield* trainer.publish(step))
        yield* Ref.set(serving, step)
        const evaluations = options.evaluate === undefined ? [] : yield* options.evaluate(step)
        const seconds = ((yield* Clock.currentTimeMillis) - started) / 1000
        const report = StepSummary.report({
          step,
          steps,
          items,
          sources,
          packed,
          trained,
          seconds,
          previous: at.reward,
          evaluations
        })
        // A run goes on behind its checkpoint, so what is told of the step must be there before it.
        if (options.record !== undefined) yield* options.record(report)
        // A checkpoint promises that the next step's rollouts are journaled.
        if (!aheadFailed) yield* checkpoints.afterStep({ step, steps, ahead: ahead !== undefined, state: snapshot })
        const next: Position<E> = {
          step: step + 1,
          emptyBatches,
          reward: report.reward,
          filling: ahead ?? (more ? yield* Effect.forkIn(fill(step + 1), scope) : at.filling)
        }
        return [report, next] as const
      })

      const traced = (at: Position<E>) =>
        Effect.withSpan(run(at), "Orchestrator.step", { attributes: { step: at.step }, captureStackTrace: false })

      if (firstStep > steps) return Stream.empty
      const begin = Effect.map(
        Effect.forkIn(fill(firstStep), scope),
        (filling): Position<E> => ({ step: firstStep, emptyBatches: 0, reward: options.previousReward, filling })
      )
      const next = (at: Position<E>) => (at.step > steps ? Effect.succeedNone : Effect.asSome(traced(at)))
      // A stream keeps its seed: a position would keep the first step's rollouts for as long as the run goes.
      return Stream.unfoldEffect(undefined as Position<E> | undefined, (at) =>
        at === undefined ? Effect.flatMap(begin, next) : next(at)
      )
    })
  )
