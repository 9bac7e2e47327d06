/**
 * A plan: the resolved configuration, and as comments below it what follows from it. The whole text is a configuration
 * file again.
 */
import * as Config from "../../src/Config.ts"
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

const rates = (schedule: Config.TrainDraft["trainer"]["scheduler"], peak: number, maxSteps: number): Derived => {
  const at = (completed: number) => String(Number(learningRate(schedule, { peak, maxSteps, completed }).toPrecision(3)))
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
  if (sizes.size === 1 && size !== undefined) {
    const perStep = batchSize / size
    return [
      derived("groups per step", perStep, `${batchSize} rollouts / ${size} in a group`),
      derived("groups in all", perStep * maxSteps, `${perStep} × ${maxSteps} steps`)
    ]
  }
  const ratios = train.source.reduce((sum, { ratio }) => sum + ratio, 0)
  return train.source.map(({ name, ratio, groupSize }) => {
    const rollouts = (batchSize * ratio) / ratios
    const share = `about ${rollouts.toFixed(1)} rollouts per step`
    return derived(
      `groups of ${name}`,
      `about ${(rollouts / groupSize).toFixed(1)}`,
      `${share} / ${groupSize} in a group`
    )
  })
}

const evaluations = (sources: Config.EvalConfig["source"]): ReadonlyArray<Derived> =>
  sources.flatMap(({ name, interval }) =>
    interval === undefined ? [] : [derived(`evaluation of ${name}`, `every ${interval} steps`)]
  )

/** @category derivations */
export const ofTrain = (config: Config.TrainDraft): ReadonlyArray<Derived> => {
  const { maxSteps, orchestrator, trainer } = config
  const { batchSize, seqLen } = orchestrator
  const together = Math.floor(trainer.model.seqLen / seqLen)
  const tokens = batchSize * seqLen
  return [
    derived("rollouts per step", batchSize),
    ...groups(orchestrator, maxSteps),
    derived("rollouts in all", batchSize * maxSteps, `${batchSize} × ${maxSteps} steps`),
    derived("tokens per step", `at most ${tokens}`, `${batchSize} rollouts × ${seqLen} tokens`),
    derived(
      "micro-batches per step",
      `at most ${Math.ceil(batchSize / together)}`,
      `${together} of the longest rollouts in ${trainer.model.seqLen} tokens, more of shorter ones`
    ),
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

/** `notes`: what a run would still need here. @category rendering */
export const text = (plan: Config.AnyConfig, notes: ReadonlyArray<string>): string => {
  const train = plan._tag === "Train"
  const toml = train ? Config.trainToml(plan.config) : Config.sftToml(plan.config)
  const rows = train ? ofTrain(plan.config) : ofSft(plan.config)
  const unnamed = plan.config.model.name === undefined
  const needed = [...(unnamed ? ["model.name is not set: give the directory of a policy"] : []), ...notes]
  const comments = needed.flatMap((note) => note.split("\n")).map((line) => `#   ${line}`)
  const wanting = needed.length === 0 ? [] : ["#", "# what a run would still need", ...comments]
  return [toml, "# what follows from it", ...table(rows), ...wanting, "#", "# nothing was started", ""].join("\n")
}
