/**
 * From what a file says to what a run needs: every value that is inherited or derived is written out, so that reading
 * the result again changes nothing.
 */
import type { Endpoint } from "../Endpoints.ts"
import type { Schedule } from "../Trainer/Schedule.ts"
import type { SftFile } from "./SftFile.ts"
import type { TrainFile } from "./TrainFile.ts"

/** Which environment, with its own options beside the id. @category model */
export interface EnvironmentSpec {
  readonly id: string
  readonly [option: string]: unknown
}
/** Which algorithm or loss, with its own options beside the type. @category model */
export interface ModuleSpec {
  readonly type: string
  readonly [option: string]: unknown
}
/** @category model */
export interface SamplingConfig {
  readonly temperature: number
  readonly topP?: number
  readonly topK?: number
  readonly minP?: number
  /** tokens in one call */
  readonly maxCompletionTokens?: number
}
/** @category model */
export interface TrainSamplingConfig extends SamplingConfig {
  /** who samples */
  readonly source: "policy" | Endpoint
}
/** @category model */
export interface SourceConfig {
  readonly name: string
  readonly env: EnvironmentSpec
  readonly ratio: number
  readonly groupSize: number
  readonly sampling: TrainSamplingConfig
  readonly algo: ModuleSpec
}
/** @category model */
export interface EvalSourceConfig {
  readonly name: string
  readonly env: EnvironmentSpec
  readonly groupSize: number
  readonly sampling: SamplingConfig
  readonly numExamples?: number
  /** steps */
  readonly interval?: number
}
/** @category model */
export interface EvalConfig {
  readonly groupSize: number
  readonly sampling: SamplingConfig
  readonly source: ReadonlyArray<EvalSourceConfig>
  readonly numExamples?: number
  /** steps */
  readonly interval?: number
}
/** A low-rank adapter: its scale is alpha / rank. @category model */
export type LoraConfig = NonNullable<TrainFile["trainer"]["model"]["lora"]>
/** Which renderer writes conversations as tokens; the other keys are its own. @category model */
export interface RendererSpec {
  readonly name: string
  readonly [option: string]: unknown
}
/** @category model */
export interface OrchestratorConfig {
  /** rollouts per step */
  readonly batchSize: number
  readonly groupSize: number
  /** longest rollout, in tokens */
  readonly seqLen: number
  /** rollouts */
  readonly maxInflight: number
  readonly maxErrorRate: number
  readonly algo: ModuleSpec
  /** left out, as the files of the model call for */
  readonly renderer?: RendererSpec
  readonly offPolicy: TrainFile["orchestrator"]["offPolicy"]
  readonly train: { readonly sampling: TrainSamplingConfig; readonly source: ReadonlyArray<SourceConfig> }
  readonly eval: EvalConfig
}
/** @category model */
export interface TrainerConfig {
  readonly model: {
    /** longest micro-batch, in tokens */
    readonly seqLen: number
    /** the adapter that is trained in the place of the weights */
    readonly lora?: LoraConfig
  }
  readonly optim: TrainFile["trainer"]["optim"]
  readonly scheduler: Schedule
  readonly loss: ModuleSpec
  readonly engine: TrainFile["trainer"]["engine"]
}
/** A training run whose policy may still have to be named. @category model */
export interface TrainDraft {
  /** absolute */
  readonly outputDir: string
  readonly maxSteps: number
  readonly seqLen: number
  readonly seed: number
  readonly run: { readonly name: string }
  /** absolute directory */
  readonly model: { readonly name?: string }
  readonly orchestrator: OrchestratorConfig
  readonly trainer: TrainerConfig
  readonly ckpt: TrainFile["ckpt"]
}
/** A training run, complete. @category model */
export interface TrainConfig extends TrainDraft {
  readonly model: { readonly name: string }
}
/** Supervised fine-tuning, complete. @category model */
export interface SftConfig extends Omit<SftFile, "run" | "scheduler"> {
  readonly run: { readonly name: string }
  readonly scheduler: Schedule
}

/** Last part of a path or package name, without an extension. */
const baseName = (name: string): string => {
  const last =
    name
      .split(/[\\/]/)
      .filter((part) => part !== "")
      .at(-1) ?? name
  return last.replace(/\.(ts|mts|js|mjs|jsonl)$/, "")
}

const runName = (parts: ReadonlyArray<string>): string =>
  parts
    .join("--")
    .toLowerCase()
    .replace(/[^a-z0-9._+-]/g, "-")
    .replace(/^[.-]+/, "") || "run"

const schedule = ({ type, warmupSteps = 10, decaySteps = 10, minLr = 0 }: SftFile["scheduler"]): Schedule => {
  if (type === "constant") return { type }
  return type === "linear" ? { type, warmupSteps, decaySteps, minLr } : { type, warmupSteps, minLr }
}

/** @category conversions */
export const train = (file: TrainFile): TrainDraft => {
  const { orchestrator, trainer } = file
  const { sampling } = orchestrator.train
  const source = orchestrator.train.source.map(
    (source): SourceConfig => ({
      name: source.name ?? baseName(source.env.id),
      env: source.env,
      ratio: source.ratio,
      groupSize: source.groupSize ?? orchestrator.groupSize,
      sampling: { ...sampling, ...source.sampling },
      algo: source.algo ?? orchestrator.algo
    })
  )
  const { source: evaluated = source.map(({ name, env }) => ({ name, env })), ...shared } = orchestrator.eval
  // Evaluated is always the policy, whoever samples what it learns from.
  const { source: _, ...ofPolicy } = sampling
  const evalSampling = { ...ofPolicy, ...shared.sampling }
  const inherited = {
    groupSize: shared.groupSize,
    ...(shared.numExamples === undefined ? {} : { numExamples: shared.numExamples }),
    ...(shared.interval === undefined ? {} : { interval: shared.interval })
  }
  return {
    ...file,
    run: {
      name: file.run.name ?? runName([source.map(({ name }) => name).join("+"), baseName(file.model.name ?? "policy")])
    },
    orchestrator: {
      ...orchestrator,
      seqLen: orchestrator.seqLen ?? file.seqLen,
      maxInflight: orchestrator.maxInflight ?? orchestrator.batchSize,
      train: { sampling, source },
      eval: {
        ...shared,
        sampling: evalSampling,
        source: evaluated.map((source) => ({
          ...inherited,
          ...source,
          name: source.name ?? baseName(source.env.id),
          sampling: { ...evalSampling, ...("sampling" in source ? source.sampling : {}) }
        }))
      }
    },
    trainer: {
      ...trainer,
      model: { ...trainer.model, seqLen: trainer.model.seqLen ?? file.seqLen },
      scheduler: schedule(trainer.scheduler)
    }
  }
}

/** @category conversions */
export const sft = (file: SftFile): SftConfig => {
  const { env, path } = file.data
  const data = env === undefined ? baseName(path ?? "data") : baseName(env.id)
  return {
    ...file,
    run: { name: file.run.name ?? runName(["sft", data, baseName(file.model.name)]) },
    scheduler: schedule(file.scheduler)
  }
}
