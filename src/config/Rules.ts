/** What no single key can say: contradictions between keys, found before anything starts. Each names both values. */
import type { KeyPath } from "./Located.ts"
import type { Finding } from "./Problem.ts"
import type { EvalSourceConfig, SourceConfig, TrainDraft } from "./Resolve.ts"
import type { SftFile } from "./SftFile.ts"
import type { TrainFile } from "./TrainFile.ts"

/** Names that metrics use for sums over all sources. */
const reserved = ["all", "agg"]

const finding = (keys: ReadonlyArray<KeyPath>, what: string): Finding => ({ keys, what })

const schedulerFindings = (
  section: KeyPath,
  scheduler: TrainFile["trainer"]["scheduler"],
  options: { readonly lr: KeyPath; readonly peak: number; readonly maxSteps: number }
): ReadonlyArray<Finding> => {
  const { type, warmupSteps, decaySteps, minLr } = scheduler
  const key = (name: string): KeyPath => [...section, name]
  const found: Array<Finding> = []
  const useless = {
    constant: { warmup_steps: warmupSteps, decay_steps: decaySteps, min_lr: minLr },
    linear: {},
    cosine: { decay_steps: decaySteps }
  }[type]
  for (const [name, value] of Object.entries(useless)) {
    if (value !== undefined) found.push(finding([key(name), key("type")], `a ${type} scheduler has no ${name}`))
  }
  if (type === "constant") return found
  const warmup = warmupSteps ?? 10
  const decay = type === "linear" ? (decaySteps ?? 10) : 0
  if (type === "linear" && warmup + decay === 0) {
    found.push(
      finding([key("warmup_steps"), key("decay_steps")], "a linear scheduler needs a warm-up or a decay; both are 0")
    )
  }
  const steps = [key("warmup_steps"), key("decay_steps"), key("type"), ["max_steps"]]
  if (type === "linear" && warmup + decay > options.maxSteps) {
    const what = `warmup_steps ${warmup} + decay_steps ${decay} is more than max_steps ${options.maxSteps}`
    found.push(finding(steps, what))
  }
  if (type === "cosine" && warmup >= options.maxSteps) {
    found.push(finding(steps, `warmup_steps ${warmup} must be less than max_steps ${options.maxSteps}`))
  }
  if ((minLr ?? 0) > options.peak) {
    found.push(finding([key("min_lr"), options.lr], `min_lr ${minLr} is above lr ${options.peak}`))
  }
  return found
}

const adapterFindings = (lora: KeyPath, device: KeyPath, of: { readonly lora: boolean; readonly device: string }) =>
  of.lora && of.device === "cuda" ? [finding([device, lora], "LoRA on CUDA is not there yet; train on the cpu")] : []

const nameFindings = (list: KeyPath, sources: ReadonlyArray<SourceConfig | EvalSourceConfig>): ReadonlyArray<Finding> =>
  sources.flatMap(({ name }, index) => {
    const keys = [
      [...list, index, "name"],
      [...list, index, "env", "id"],
      [...list, index]
    ]
    const first = sources.findIndex((other) => other.name === name)
    if (reserved.includes(name)) return [finding(keys, `the name "${name}" is reserved; set another name`)]
    if (first === index) return []
    return [finding(keys, `the name "${name}" is taken by source ${first}; give each source a name of its own`)]
  })

const sourceFindings = (config: TrainDraft, source: SourceConfig, at: KeyPath): ReadonlyArray<Finding> => {
  const { batchSize, seqLen } = config.orchestrator
  const { groupSize, sampling } = source
  const found: Array<Finding> = []
  const groupKeys: ReadonlyArray<KeyPath> = [
    [...at, "group_size"],
    ["orchestrator", "group_size"]
  ]
  // Groups of one size fill a step exactly; where sizes differ, a step ends with the group that fills it.
  const sizes = new Set(config.orchestrator.train.source.map((source) => source.groupSize))
  if (sizes.size === 1 && batchSize % groupSize !== 0) {
    const what = `batch_size ${batchSize} is not a multiple of group_size ${groupSize}`
    found.push(finding([...groupKeys, ["orchestrator", "batch_size"]], what))
  }
  if (sizes.size > 1 && groupSize > batchSize) {
    const what = `batch_size ${batchSize} is less than one group of group_size ${groupSize}`
    found.push(finding([...groupKeys, ["orchestrator", "batch_size"]], what))
  }
  if (groupSize > config.orchestrator.maxInflight) {
    const what = `max_inflight ${config.orchestrator.maxInflight} has no room for a group of group_size ${groupSize}`
    found.push(finding([["orchestrator", "max_inflight"], ...groupKeys], what))
  }
  const { maxCompletionTokens } = sampling
  if (maxCompletionTokens !== undefined && maxCompletionTokens > seqLen) {
    found.push(completionFinding([...at, "sampling"], maxCompletionTokens, seqLen))
  }
  return found
}

const completionFinding = (sampling: KeyPath, tokens: number, seqLen: number): Finding => {
  const keys = [
    [...sampling, "max_completion_tokens"],
    ["orchestrator", sampling.includes("eval") ? "eval" : "train", "sampling", "max_completion_tokens"],
    ["orchestrator", "train", "sampling", "max_completion_tokens"],
    ["orchestrator", "seq_len"],
    ["seq_len"]
  ]
  return finding(keys, `max_completion_tokens ${tokens} is more than seq_len ${seqLen}`)
}

/** @category rules */
export const train = (file: TrainFile, config: TrainDraft): ReadonlyArray<Finding> => {
  const { orchestrator, trainer } = config
  const sources: KeyPath = ["orchestrator", "train", "source"]
  const evals: KeyPath = ["orchestrator", "eval", "source"]
  const found: Array<Finding> = []
  if (orchestrator.train.source.length === 0) {
    found.push(finding([sources], 'no source to train on; add [[orchestrator.train.source]] with env = { id = "…" }'))
  }
  if (file.orchestrator.eval.source?.length === 0) {
    found.push(finding([evals], "no source to evaluate; leave the list out to evaluate the training environments"))
  }
  found.push(...nameFindings(sources, orchestrator.train.source))
  if (file.orchestrator.eval.source !== undefined) found.push(...nameFindings(evals, orchestrator.eval.source))
  orchestrator.train.source.forEach((source, index) => {
    found.push(...sourceFindings(config, source, [...sources, index]))
  })
  orchestrator.eval.source.forEach(({ sampling }, index) => {
    const tokens = sampling.maxCompletionTokens
    const inherited = orchestrator.train.sampling.maxCompletionTokens === tokens
    if (tokens !== undefined && tokens > orchestrator.seqLen && !inherited) {
      found.push(completionFinding([...evals, index, "sampling"], tokens, orchestrator.seqLen))
    }
  })
  if (trainer.model.seqLen < orchestrator.seqLen) {
    const keys = [["trainer", "model", "seq_len"], ["orchestrator", "seq_len"], ["seq_len"]]
    const what = `trainer.model.seq_len ${trainer.model.seqLen} is less than orchestrator.seq_len ${orchestrator.seqLen}`
    found.push(finding(keys, `${what}: a rollout must fit into a micro-batch`))
  }
  found.push(
    ...adapterFindings(["trainer", "model", "lora"], ["trainer", "engine", "device"], {
      lora: trainer.model.lora !== undefined,
      device: trainer.engine.device
    })
  )
  const options = { lr: ["trainer", "optim", "lr"], peak: trainer.optim.lr, maxSteps: config.maxSteps }
  found.push(...schedulerFindings(["trainer", "scheduler"], file.trainer.scheduler, options))
  return found
}

/** @category rules */
export const sft = (file: SftFile): ReadonlyArray<Finding> => {
  const found: Array<Finding> = []
  const { env, path } = file.data
  if (env !== undefined && path !== undefined) {
    found.push(
      finding(
        [
          ["data", "path"],
          ["data", "env"]
        ],
        `data.env "${env.id}" and data.path both name the data; keep one`
      )
    )
  }
  if (env === undefined && path === undefined) {
    found.push(finding([["data"]], 'no data; set data.env = { id = "…" } or data.path = "….jsonl"'))
  }
  const { lora, randomInit } = file.model
  found.push(
    ...adapterFindings(["model", "lora"], ["engine", "device"], {
      lora: lora !== undefined,
      device: file.engine.device
    })
  )
  if (lora !== undefined && randomInit !== undefined) {
    const keys = [
      ["model", "random_init"],
      ["model", "lora"]
    ]
    found.push(finding(keys, "an adapter of random weights is of no model: random_init and lora exclude each other"))
  }
  const options = { lr: ["optim", "lr"], peak: file.optim.lr, maxSteps: file.maxSteps }
  found.push(...schedulerFindings(["scheduler"], file.scheduler, options))
  return found
}
