/**
 * A run: from a resolved configuration to a stream of finished steps, with everything it did on disk. What is on disk is
 * enough to go on from: the steps that follow a resume are those that would have followed anyway.
 */

import * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import Echo from "./algorithms/Echo.ts"
import Grpo from "./algorithms/Grpo.ts"
import HierarchicalGrpo from "./algorithms/HierarchicalGrpo.ts"
import MaxRl from "./algorithms/MaxRl.ts"
import Opd from "./algorithms/Opd.ts"
import Opsd from "./algorithms/Opsd.ts"
import Rae from "./algorithms/Rae.ts"
import Sft from "./algorithms/Sft.ts"
import * as Checkpoint from "./Checkpoint.ts"
import * as Config from "./Config.ts"
import * as Evaluation from "./Evaluation.ts"
import * as FineTuning from "./FineTuning.ts"
import * as OpenAi from "./inference/OpenAi.ts"
import { cores } from "./internal/cores.ts"
import { didYouMean } from "./internal/Nearest.ts"
import * as Journal from "./Journal.ts"
import * as ModuleLoader from "./ModuleLoader.ts"
import * as Orchestrator from "./Orchestrator.ts"
import * as Permits from "./Permits.ts"
import * as Registry from "./Registry.ts"
import * as Renderers from "./renderers/Resolve.ts"
import * as Conversations from "./run/Conversations.ts"
import * as Directory from "./run/Directory.ts"
import * as Environments from "./run/Environments.ts"
import * as LastStep from "./run/LastStep.ts"
import * as Losses from "./run/Losses.ts"
import * as Metrics from "./run/Metrics.ts"
import * as MetricsFile from "./run/MetricsFile.ts"
import * as Policy from "./run/Policy.ts"
import * as Sources from "./run/Sources.ts"
import { open, type Started } from "./run/Started.ts"
import * as Summary from "./run/Summary.ts"
import * as State from "./State.ts"
import * as ModelConfig from "./Trainer/ModelConfig.ts"
import type { ModelError } from "./Trainer/ModelError.ts"
import type { MemoryPlan } from "./Trainer/Native.ts"
import type { NativeError } from "./Trainer/NativeError.ts"
import * as Peft from "./Trainer/Peft.ts"

export type { Started }

const engineOf = (engine: Config.TrainConfig["trainer"]["engine"]) => Policy.engine(engine, cores())

/** What a run knows by name, besides the modules that its config names. @category registries */
export const registry = Registry.make([Grpo, MaxRl, Rae, HierarchicalGrpo, Opd, Opsd, Sft, Echo], (specifier) =>
  ModuleLoader.load(specifier, process.cwd())
)

/** The state that a checkpoint holds; without the sampler's position the run would begin its data anew. */
const restore = (directory: string) =>
  Effect.filterOrFail(
    Checkpoint.read(directory),
    ({ state }) => Object.hasOwn(state, "sampler"),
    () =>
      new Checkpoint.CheckpointError({
        directory,
        reason:
          "checkpoint.json has no state.sampler, the place in the data; take this directory away to go on from the checkpoint before it"
      })
  )

/**
 * Opens a training run, new or resumed: it has its place only once everything that it needs is open. Nothing is trained
 * until its steps are pulled. What it holds is given back when the scope closes or the steps have ended.
 *
 * @category running
 */
export const train = (config: Config.TrainConfig, options: { readonly resume: boolean }) =>
  Effect.gen(function* () {
    const { maxSteps, model, orchestrator, run, seed, trainer } = config
    const resolved = yield* Effect.forEach(orchestrator.train.source, (source) =>
      Sources.resolve(registry, source, seed)
    )
    const loss = yield* Losses.resolve(trainer.loss)
    yield* ModelConfig.read(model.name)
    const evaluations = yield* evaluationsOf(config, {})
    const place = { outputDir: config.outputDir, name: run.name, config: Config.trainToml(config) }
    const past = options.resume ? yield* Directory.resume(place) : undefined
    const resumedFrom = past?.run.resumedFrom
    const weights =
      past === undefined || resumedFrom === undefined ? model.name : `${past.run.checkpoints}/step_${resumedFrom}`
    const restored = resumedFrom === undefined ? undefined : yield* restore(weights)
    // What was not finite is null in the file.
    const rewards = (past?.rows ?? []).map(({ reward }) => reward ?? Number.NaN)

    const engine = engineOf(trainer.engine)
    const { optim, scheduler } = trainer
    const { lora } = trainer.model
    const saved = resumedFrom === undefined ? undefined : weights
    const adapter = lora === undefined ? undefined : { lora, seed, saved }
    // Under an adapter a checkpoint holds the adapter alone, and the model stays where it is.
    const opened = adapter === undefined ? weights : model.name
    const policy = yield* Layer.mergeAll(
      Policy.layerInference(opened, {
        ...engine,
        adapter,
        version: resumedFrom ?? 0,
        maxSequenceLength: orchestrator.seqLen
      }),
      Policy.layerTrainer(opened, {
        ...engine,
        adapter,
        maxTokens: trainer.model.seqLen,
        training: Policy.training({ optim, scheduler, loss, steps: maxSteps }),
        optimizer: resumedFrom === undefined ? "fresh" : "saved"
      })
    ).pipe(Layer.provideMerge(Policy.layerText(model.name, orchestrator.renderer)), Layer.build)
    const firstStep = (resumedFrom ?? 0) + 1
    // Steps that are whole in the journal are not scored again: the state begins behind them.
    const behind =
      past === undefined ? Option.none() : yield* Journal.stateBehind({ credits: past.run.credits, from: firstStep })
    const scoring = yield* Layer.merge(
      State.layer(Option.getOrElse(behind, () => restored?.state)),
      OpenAi.layer()
    ).pipe(Layer.provideMerge(Layer.succeedContext(policy)), Layer.build)
    const sources = yield* Effect.provide(Effect.forEach(resolved, Sources.start), scoring)
    const directory = past?.run ?? (yield* Directory.create(place))
    const layer = yield* Layer.mergeAll(
      Checkpoint.layerDirectory({ directory: directory.checkpoints, ...config.ckpt }),
      Journal.layerFile({ directory: directory.rollouts, credits: directory.credits, from: firstStep }),
      Permits.layer(orchestrator.maxInflight)
    ).pipe(Layer.provideMerge(Layer.succeedContext(scoring)), Layer.build)
    if (past !== undefined) yield* Directory.rewind(past.run, past.rows, place.config)

    const evaluate = (step: number) =>
      Effect.forEach(
        evaluations.filter(({ interval }) => interval !== undefined && step % interval === 0),
        ({ options }) => Evaluation.run({ ...options, model: `step ${step}`, policyVersion: step })
      )

    const fs = yield* FileSystem.FileSystem
    const begun = yield* Clock.currentTimeMillis
    const seen = [...rewards]
    const steps = Orchestrator.steps({
      sources,
      steps: maxSteps,
      firstStep,
      fresh: restored !== undefined && !restored.ahead,
      previousReward: rewards.at(-1),
      batchSize: orchestrator.batchSize,
      maxSequenceLength: trainer.model.seqLen,
      lag: orchestrator.offPolicy.maxSteps === 0 ? 0 : 1,
      seed,
      maxErrorRate: orchestrator.maxErrorRate,
      evaluate,
      record: (report) =>
        Effect.provideService(MetricsFile.append(directory.metrics, Metrics.row(report)), FileSystem.FileSystem, fs)
    }).pipe(
      Stream.tap((report) => Effect.sync(() => seen.push(report.reward))),
      LastStep.check(directory.checkpoints),
      Stream.onDone(() =>
        Effect.catchAll(Summary.write(directory, seen, begun), ({ message }) =>
          Effect.logWarning(`the run is done, but its summary was not written: ${message}`)
        )
      ),
      Stream.provideSomeContext(layer)
    )
    return { directory, rewards, steps }
  }).pipe(open)

/**
 * Opens a run of supervised fine-tuning, as `train` does. Its last step writes the policy to the run's directory, and to
 * `save_to`.
 *
 * @category running
 */
export const sft = (config: Config.SftConfig) =>
  Effect.gen(function* () {
    const { data, engine, maxSteps, model, optim, renderer, run, saveTo, scheduler, seed } = config
    const conversations = yield* Conversations.of(data, seed)
    const tools = data.env === undefined ? undefined : yield* Environments.tools(data.env)
    yield* ModelConfig.read(model.name)
    const loss = yield* Losses.resolve({ type: "dppo" })
    const policy = yield* Policy.layerTrainer(model.name, {
      ...engineOf(engine),
      maxTokens: data.seqLen,
      randomInit: model.randomInit,
      adapter: model.lora === undefined ? undefined : { lora: model.lora, seed, saved: undefined },
      training: Policy.training({ optim, scheduler, loss, steps: maxSteps }),
      optimizer: "fresh"
    }).pipe(Layer.provideMerge(Policy.layerText(model.name, renderer)), Layer.build)
    const place = { outputDir: config.outputDir, name: run.name, config: Config.sftToml(config) }
    const directory = yield* Directory.create(place)
    const layer = yield* Checkpoint.layerDirectory({ directory: directory.checkpoints, ...config.ckpt }).pipe(
      Layer.provideMerge(Layer.succeedContext(policy)),
      Layer.build
    )
    const steps = Stream.unwrap(
      Effect.gen(function* () {
        const checkpoints = yield* Checkpoint.Checkpoints
        return FineTuning.steps({
          conversations,
          tools,
          steps: maxSteps,
          batchSize: data.batchSize,
          maxSequenceLength: data.seqLen,
          weights: data.lossWeights
        }).pipe(
          Stream.tap((report) => MetricsFile.append(directory.metrics, Metrics.sftRow(report))),
          Stream.tap(({ step }) => checkpoints.afterStep({ step, steps: maxSteps, ahead: false, state: {} })),
          Stream.tap(({ optimizerApplied, step }) =>
            step === maxSteps && optimizerApplied && saveTo !== undefined
              ? Checkpoint.copyModel(`${directory.checkpoints}/step_${step}`, saveTo)
              : Effect.void
          )
        )
      })
    ).pipe(LastStep.check(directory.checkpoints), Stream.provideSomeContext(layer))
    return { directory, rewards: [], steps }
  }).pipe(open)

/** Every evaluation source with its environment, and how many steps lie between its evaluations. */
const evaluationsOf = (config: Config.TrainConfig, { examples }: { readonly examples?: number | undefined }) =>
  Effect.forEach(config.orchestrator.eval.source, (source) =>
    Effect.gen(function* () {
      const environment = yield* Environments.resolve(source.env, config.seed)
      const options: Omit<Evaluation.Options, "model"> = {
        name: source.name,
        environment,
        seed: config.seed,
        examples: examples ?? source.numExamples ?? environment.examples.size("eval"),
        groupSize: source.groupSize,
        sampling: Sources.samplingOf(source.sampling)
      }
      return { interval: source.interval, options }
    })
  )

/**
 * Measures a policy on what its environments hold out: one report per evaluation source, as each is done. `model` may be
 * the directory of an adapter, which names the model that it is on.
 *
 * @category running
 */
export const evaluate = (
  config: Config.TrainConfig,
  options: { readonly model?: string | undefined; readonly examples?: number | undefined }
) => {
  const { orchestrator, trainer } = config
  const model = options.model ?? config.model.name
  const layerOf = (base: string, saved: string | undefined) =>
    Policy.layerInference(base, {
      ...engineOf(trainer.engine),
      maxSequenceLength: orchestrator.seqLen,
      saved
    }).pipe(
      Layer.provideMerge(Policy.layerText(base, orchestrator.renderer)),
      Layer.merge(Permits.layer(orchestrator.maxInflight))
    )
  const base = Effect.flatMap(Peft.isThere(model), (adapter) => (adapter ? Peft.baseOf(model) : Effect.succeed(model)))
  const layer = Layer.unwrapEffect(
    Effect.map(base, (directory) => layerOf(directory, directory === model ? undefined : model))
  )
  const reports = Stream.unwrap(Effect.map(evaluationsOf(config, options), Stream.fromIterable)).pipe(
    Stream.mapEffect((evaluation) => Evaluation.run({ ...evaluation.options, model })),
    Stream.provideSomeLayer(layer)
  )
  // A directory that holds no model is told as that, and not by the first of its files that is missed.
  return Stream.unwrap(Effect.as(Effect.flatMap(base, ModelConfig.read), reports))
}

/**
 * What only the parts that a configuration names can say of it: an algorithm or loss of its keys, an environment of its
 * options.
 *
 * @category checking
 */
export const check = (config: Config.TrainDraft): Effect.Effect<ReadonlyArray<Config.Finding>> =>
  Effect.gen(function* () {
    const findings: Array<Config.Finding> = []
    const loss = yield* Effect.either(Losses.resolve(config.trainer.loss))
    if (Either.isLeft(loss)) {
      for (const { message, path } of loss.left.problems) {
        findings.push({ keys: [["trainer", "loss", ...(path === "" ? ["type"] : path.split("."))]], what: message })
      }
    }
    const { renderer, train } = config.orchestrator
    if (renderer !== undefined && renderer.name !== "auto" && !Renderers.names.includes(renderer.name)) {
      const what = `there is no renderer "${renderer.name}". ${didYouMean(renderer.name, Renderers.names)}Choose auto, ${Renderers.names.join(", ")}`
      findings.push({ keys: [["orchestrator", "renderer", "name"]], what })
    }
    for (const [index, source] of train.source.entries()) {
      const at = ["orchestrator", "train", "source", String(index)]
      findings.push(...(yield* Sources.check(registry, source, { at, seed: config.seed })))
    }
    return findings
  })

/**
 * The bytes that training the model in `directory` takes, or an adapter on it, for micro-batches of up to `tokens` tokens.
 * Nothing is opened.
 *
 * @category checking
 */
export const memory = (
  directory: string,
  engine: Config.TrainConfig["trainer"]["engine"],
  options: { readonly tokens: number; readonly lora?: Config.LoraConfig | undefined }
): Effect.Effect<MemoryPlan, ModelError | NativeError, FileSystem.FileSystem> => {
  const { memoryLimit: _, randomInit: __, ...planned } = engineOf(engine)
  return Policy.memory(directory, { ...planned, ...options })
}

/**
 * Each training source in the words of a plan: its algorithm, what its credit waits for, and the models of others that it
 * names. Nothing is started or connected.
 *
 * @category checking
 */
export const plan = (config: Config.TrainDraft) =>
  Effect.forEach(config.orchestrator.train.source, (source) => Sources.plan(registry, source))
