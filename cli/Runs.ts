/** What the commands ask of the engine side. They know it by this service alone, so that they start without it. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { Finding, LoraConfig, SftConfig, TrainConfig, TrainDraft } from "../src/Config.ts"
import type { AlgorithmConfig, Facts } from "../src/Registry.ts"
import type { EvalReport, SftReport, StepReport } from "../src/Report.ts"
import type { Ended } from "../src/Rollout.ts"
import type { Options as MergeOptions } from "../src/run/Merge.ts"
import type { Plan as SourcePlan } from "../src/run/Sources.ts"
import type { Listening, Options as ServeOptions } from "../src/server/Serve.ts"
import type { CudaFound, MemoryPlan, NativeAddon } from "../src/Trainer/Native.ts"
import type { Explanation } from "../src/testing/Explanation.ts"

/** A failure that a command can show: its message is all that is printed. @category errors */
export interface RunFailure {
  readonly _tag: string
  readonly message: string
}

/** A run that has its place and its past. @category model */
export interface Started<A> {
  readonly directory: string
  /** steps that were done before */
  readonly done: number
  /** rewards of the steps before the one it goes on with */
  readonly rewards: ReadonlyArray<number>
  /** each element is one finished step */
  readonly steps: Stream.Stream<A, RunFailure>
}

/** Rollouts of one source, and what an algorithm over them may need. @category model */
export interface Explaining {
  readonly algorithm: AlgorithmConfig
  /** in the order of dispatch */
  readonly rollouts: ReadonlyArray<Ended>
  /** directory of the policy, for algorithms that ask it */
  readonly model: string | undefined
  /** directory whose tokenizer reads the tokens; the policy's when undefined */
  readonly tokenizer: string | undefined
  /** longest sequence of a micro-batch, in tokens */
  readonly maxSequenceLength: number | undefined
}

/** What became of an algorithm over rollouts, and what is worth saying about it. @category model */
export interface Explained {
  readonly explanation: Explanation
  readonly notes: ReadonlyArray<string>
}

/** What this machine has for the engine. @category model */
export interface Hardware {
  /** version of Node */
  readonly node: string
  readonly cpu: ReturnType<NativeAddon["cpu"]>
  readonly cuda: CudaFound
}

/** @category model */
export interface RunsService {
  readonly hardware: Effect.Effect<Hardware, RunFailure>
  /** Algorithms that a configuration names without a path. */
  readonly algorithms: Effect.Effect<ReadonlyArray<Facts>>
  readonly explain: (request: Explaining) => Effect.Effect<Explained, RunFailure>
  /** What only the parts that a configuration names can say of it: an algorithm, a loss, an environment. */
  readonly check: (config: TrainDraft) => Effect.Effect<ReadonlyArray<Finding>>
  /** Each training source in the words of a plan; starts and connects nothing. */
  readonly plan: (config: TrainDraft) => Effect.Effect<ReadonlyArray<SourcePlan>, RunFailure>
  /** The bytes that training takes, of an adapter or of all, for micro-batches of up to `tokens` tokens. */
  readonly memory: (
    directory: string,
    engine: TrainConfig["trainer"]["engine"],
    options: { readonly tokens: number; readonly lora?: LoraConfig | undefined }
  ) => Effect.Effect<MemoryPlan, RunFailure>
  readonly train: (
    config: TrainConfig,
    options: { readonly resume: boolean }
  ) => Effect.Effect<Started<StepReport>, RunFailure, Scope.Scope>
  readonly sft: (config: SftConfig) => Effect.Effect<Started<SftReport>, RunFailure, Scope.Scope>
  /** Listens until the scope closes. */
  readonly serve: (options: ServeOptions) => Effect.Effect<Listening, RunFailure, Scope.Scope>
  /** Writes a model directory with an adapter made part of it. */
  readonly merge: (options: MergeOptions) => Effect.Effect<void, RunFailure>
  /** One report for each evaluation source, when it is done. */
  readonly evaluate: (
    config: TrainConfig,
    options: { readonly examples: number | undefined }
  ) => Stream.Stream<EvalReport, RunFailure>
}

/** @category tags */
export class Runs extends Context.Tag("primerl/cli/Runs")<Runs, RunsService>() {}
