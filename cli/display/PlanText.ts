/**
 * A plan: the resolved configuration, and as comments below it what follows from it. The whole text is a configuration
 * file again.
 */
import * as Config from "../../src/Config.ts"
import type { Plan as SourcePlan } from "../../src/run/Sources.ts"
import type { MemoryPlan } from "../../src/Trainer/Native.ts"
import { learningRate } from "../../src/Trainer/Schedule.ts"

/** A derived quantity, its value and how it comes about. @category model */
export interface Derived {
  readonly name: string
  readonly value: string
  readonly how: string
}

const number = (value: number): string => String(value)

const derived = (name: string, value: number | string, how = ""): Derived => ({
  name,
  value: typeof value === "number" ? number(value) : value,
  how
})

/** As the configuration above it writes a rate. */
const rate = (value: number): string => (value !== 0 && value < 1e-3 ? value.toExponential() : number(value))

const rates = (schedule: Config.TrainDraft["trainer"]["scheduler"], peak: number, maxSteps: number): Derived => {
  const at = (completed: number) => rate(Number(learningRate(schedule, { peak, maxSteps, completed }).toPrecision(3)))
  const middle = Math.floor(maxSteps / 2)
  return schedule.type === "constant"
    ? derived("learning rate", at(0), "constant")
    : derived(
        "learning rate",
        at(0),
        `at step 1, ${at(middle)} at step ${middle + 1}, ${at(maxSteps - 1)} at step ${maxSteps}`
      )
}

const checkpoints = ({ interval }: Config.TrainDraft["ckpt"], maxSteps: number): Derived =>
  interval === undefined || interval >= maxSteps
    ? derived("checkpoints", 1, "after the last step")
    : derived("checkpoints", Math.ceil(maxSteps / interval), `every ${interval} steps and after the last`)

const folder = ({ outputDir, run }: { readonly outputDir: string; readonly run: { readonly name: string } }): Derived =>
  derived("run folder", `${outputDir}/${run.name}`, "or with the next free number: a run never writes into another's")

/** Rollouts are never older than one step, however much older they might be. */
const staleness = ({ maxSteps }: Config.OrchestratorConfig["offPolicy"]): Derived =>
  maxSteps === 0
    ? derived("staleness", "0 steps", "a step's rollouts wait for the weights that it starts from")
    : derived("staleness", "at most 1 step", "the next step's rollouts are generated while a step trains")

const groups = ({ batchSize, train }: Config.OrchestratorConfig, maxSteps: number): ReadonlyArray<Derived> => {
  const sizes = new Set(train.source.map(({ groupSize }) => groupSize))
  const [size] = sizes
  const whole =
    sizes.size === 1 && size !== undefined
      ? [
          derived("groups per step", batchSize / size, `${batchSize} rollouts / ${size} in a group`),
          derived("groups in all", (batchSize / size) * maxSteps, `${batchSize / size} × ${maxSteps} steps`)
        ]
      : []
  if (train.source.length === 1) return whole
  // Each group is of one source, drawn by ratio.
  const ratios = train.source.reduce((sum, { ratio }) => sum + ratio, 0)
  const mean = train.source.reduce((sum, { groupSize, ratio }) => sum + (ratio / ratios) * groupSize, 0)
  const ofEach = train.source.map(({ groupSize, name, ratio }) => {
    const each = (batchSize / mean) * (ratio / ratios)
    return derived(
      `groups of ${name}`,
      `about ${each.toFixed(1)}`,
      `about ${(each * groupSize).toFixed(1)} rollouts per step, ${groupSize} in a group`
    )
  })
  return [...whole, ...ofEach]
}

const evaluations = (sources: Config.EvalConfig["source"]): ReadonlyArray<Derived> =>
  sources.flatMap(({ name, interval }) =>
    interval === undefined ? [] : [derived(`evaluation of ${name}`, `every ${interval} steps`)]
  )

const trained = (lora: Config.LoraConfig | undefined): ReadonlyArray<Derived> =>
  lora === undefined
    ? []
    : [
        derived(
          "what is trained",
          "an adapter",
          `scale ${number(lora.alpha / lora.rank)} = alpha ${number(lora.alpha)} / rank ${lora.rank}; the weights of the model stay as they are`
        )
      ]

/** @category derivations */
export const ofTrain = (config: Config.TrainDraft): ReadonlyArray<Derived> => {
  const { maxSteps, orchestrator, trainer } = config
  const { batchSize, seqLen } = orchestrator
  const together = Math.floor(trainer.model.seqLen / seqLen)
  const sizes = new Set(orchestrator.train.source.map(({ groupSize }) => groupSize))
  // Where sizes differ, the group that fills a step may be larger than what was missing.
  const most = sizes.size > 1 ? batchSize - 1 + Math.max(...sizes) : batchSize
  return [
    sizes.size > 1
      ? derived("rollouts per step", `${batchSize} to ${most}`, "a step ends with the whole group that fills it")
      : derived("rollouts per step", batchSize),
    ...groups(orchestrator, maxSteps),
    derived(
      "rollouts in all",
      sizes.size > 1 ? `at least ${batchSize * maxSteps}` : batchSize * maxSteps,
      `${batchSize} × ${maxSteps} steps`
    ),
    derived("tokens per step", `at most ${most * seqLen}`, `${most} rollouts × ${seqLen} tokens`),
    derived(
      "micro-batches per step",
      `at most ${Math.ceil(most / together)}`,
      `${together} of the longest rollouts in ${trainer.model.seqLen} tokens, more of shorter ones`
    ),
    ...trained(trainer.model.lora),
    staleness(orchestrator.offPolicy),
    rates(trainer.scheduler, trainer.optim.lr, maxSteps),
    ...evaluations(orchestrator.eval.source),
    checkpoints(config.ckpt, maxSteps),
    folder(config)
  ]
}

/** @category derivations */
export const ofSft = (config: Config.SftConfig): ReadonlyArray<Derived> => {
  const { data, maxSteps } = config
  return [
    derived("sequences per step", data.batchSize),
    derived("sequences in all", data.batchSize * maxSteps, `${data.batchSize} × ${maxSteps} steps`),
    derived(
      "tokens per step",
      `at most ${data.batchSize * data.seqLen}`,
      `${data.batchSize} sequences × ${data.seqLen} tokens`
    ),
    ...trained(config.model.lora),
    rates(config.scheduler, config.optim.lr, maxSteps),
    checkpoints(config.ckpt, maxSteps),
    folder(config)
  ]
}

const table = (rows: ReadonlyArray<Derived>): ReadonlyArray<string> => {
  const names = Math.max(...rows.map(({ name }) => name.length))
  const values = Math.max(...rows.map(({ value, how }) => (how === "" ? 0 : value.length)))
  return rows.map(({ name, value, how }) =>
    `#   ${name.padEnd(names)}  ${how === "" ? value : `${value.padEnd(values)}  ${how}`}`.trimEnd()
  )
}

const waits = (dependsOn: string, groupSize: number | undefined): string =>
  dependsOn === "self"
    ? "waits for no other rollout"
    : dependsOn === "group"
      ? `waits for its group of ${groupSize}`
      : `waits for its set (${dependsOn})`

/** What each source's rollouts become, and the models of others that take part. */
const ofSources = (config: Config.TrainDraft, sources: ReadonlyArray<SourcePlan>): ReadonlyArray<Derived> =>
  sources.flatMap(({ actionLoss, algorithm, dependsOn, models, name }, index) => {
    const size = config.orchestrator.train.source[index]?.groupSize
    const loss = { rl: "rl", ce: "ce", refKl: "ref_kl" }[actionLoss]
    return [
      derived(name, algorithm, `${loss} on actions; ${waits(dependsOn, size)}`),
      ...models.map((model) => derived("", model.role, `${model.name} at ${model.urls.join(", ")}`))
    ]
  })

const mebibytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(bytes < 10 * 2 ** 20 ? 1 : 0)} MiB`

/** What training takes, and what sampling from the same model takes beside it. */
const ofMemory = (plan: Config.AnyConfig, memory: MemoryPlan): ReadonlyArray<Derived> => {
  const trained =
    memory.adapters > 0
      ? [`adapter with its gradients and optimiser ${mebibytes(memory.adapters)}`]
      : [`gradients ${mebibytes(memory.gradients)}`, `optimiser ${mebibytes(memory.optimizer)}`]
  const parts = [
    `weights ${mebibytes(memory.weights)}`,
    ...trained,
    `activations ${mebibytes(memory.activations)}`,
    `workspace ${mebibytes(memory.workspace)}`
  ]
  const sampling = derived(
    "memory to sample",
    `about ${mebibytes(memory.weights + memory.decoder)}`,
    `weights and a packed copy; ${(memory.cachePerToken / 1024).toFixed(1)} KiB more for each token of a running sequence`
  )
  return [
    derived("memory to train", `about ${mebibytes(memory.total)}`, parts.join(", ")),
    ...(plan._tag === "Train" ? [sampling] : [])
  ]
}

/** `notes`: what a run would still need here; `memory`: what training takes. @category rendering */
export const text = (
  plan: Config.AnyConfig,
  sources: ReadonlyArray<SourcePlan>,
  notes: ReadonlyArray<string>,
  memory?: MemoryPlan | undefined
): string => {
  const train = plan._tag === "Train"
  const toml = train ? Config.trainToml(plan.config) : Config.sftToml(plan.config)
  const known = memory === undefined ? [] : ofMemory(plan, memory)
  const rows = [...(train ? ofTrain(plan.config) : ofSft(plan.config)), ...known]
  const unnamed = plan.config.model.name === undefined
  const needed = [...(unnamed ? ["model.name is not set: give the directory of a policy"] : []), ...notes]
  const comments = needed.flatMap((note) => note.split("\n")).map((line) => `#   ${line}`)
  const wanting = needed.length === 0 ? [] : ["#", "# what a run would still need", ...comments]
  const parts = train ? ofSources(plan.config, sources) : []
  const trained = parts.length === 0 ? [] : ["#", "# what is trained on", ...table(parts)]
  const all = [toml, "# what follows from it", ...table(rows), ...trained, ...wanting, "#", "# nothing was started", ""]
  return all.join("\n")
}
