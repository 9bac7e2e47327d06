/** Commands with an engine side that is made up, and output that is kept. */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { ending } from "../../cli/exit.ts"
import { explaining } from "../../cli/explaining.ts"
import { Output, type OutputService } from "../../cli/Output.ts"
import { program } from "../../cli/program.ts"
import { Runs, type RunsService } from "../../cli/Runs.ts"
import type { StepReport } from "../../src/Report.ts"
import { registry } from "../../src/Run.ts"
import { files } from "../config/files.ts"

export const stepReport = (step: number, change: Partial<StepReport> = {}): StepReport => ({
  step,
  steps: 8,
  reward: step / 10,
  rewardChange: step === 1 ? 0 : 0.1,
  loss: { total: -0.0123, rl: -0.0123, ce: 0, refKl: 0 },
  lossMetrics: {},
  mismatchKl: 1.5e-6,
  entropy: 1.25,
  gradNorm: 0.5,
  learningRate: 1e-3,
  trainableShare: 0.43,
  staleness: { mean: 0.5, max: 1 },
  rollouts: 64,
  samples: 64,
  tokens: 4096,
  truncated: 0,
  dropped: 0,
  zeroSignal: 0,
  absent: {},
  firstAbsences: {},
  metrics: {},
  tokensPerSecond: 12_345,
  seconds: 1.25,
  optimizerApplied: true,
  evaluations: [],
  sources: [],
  ...change
})

export const runs: RunsService = {
  hardware: Effect.succeed({
    node: "v20.0.0",
    cpu: { isa: "avx2", amx: false, cores: 4 },
    cuda: {
      reason: "there is no NVIDIA driver (libcuda.so.1 cannot be loaded)",
      library: "/engine/primerl_cuda.so",
      built: false,
      driver: false,
      devices: [],
      cublas: "",
      cublasVersion: 0
    }
  }),
  algorithms: Effect.succeed(registry.builtIn),
  explain: (request) => Effect.provide(explaining(request), NodeContext.layer),
  check: () => Effect.succeed([]),
  plan: () => Effect.succeed([]),
  memory: () => Effect.fail({ _tag: "ModelError", message: "there is no model" }),
  train: () =>
    Effect.succeed({
      directory: "/runs/one",
      done: 0,
      rewards: [],
      steps: Stream.range(1, 8).pipe(Stream.map((step) => stepReport(step)))
    }),
  sft: () =>
    Effect.succeed({
      directory: "/runs/sft",
      done: 0,
      rewards: [],
      steps: Stream.range(1, 2).pipe(
        Stream.map((step) => ({
          step,
          steps: 2,
          loss: 1 / step,
          gradNorm: 1,
          learningRate: 1e-3,
          tokens: 100,
          untrained: step - 1,
          truncated: 0,
          tokensPerSecond: 50,
          seconds: 2,
          optimizerApplied: true
        }))
      )
    }),
  serve: ({ host = "127.0.0.1", model, name = model, port = 8000 }) =>
    Effect.succeed({
      host,
      port,
      url: `http://${host}:${port}`,
      name,
      threads: 2,
      maxSequenceLength: 512,
      withoutChat: undefined
    }),
  merge: () => Effect.void,
  evaluate: ({ model }, { examples = 3 }) =>
    Stream.succeed({
      name: "reverse-text",
      model: model.name,
      examples,
      rollouts: examples,
      reward: { mean: 0.5, standardError: 0.01 },
      metrics: { exact: 0.25 },
      absent: { Failed: 1 },
      lastFailure: "provider failed: gone",
      seconds: 4
    })
}

export interface Kept {
  out: string
  error: string
}

export const output = (kept: Kept, change: Partial<OutputService> = {}): OutputService => ({
  live: false,
  colour: false,
  unicode: true,
  size: Effect.succeed({ columns: 100, rows: 24 }),
  resized: Stream.empty,
  write: (text) =>
    Effect.sync(() => {
      kept.out += text
    }),
  written: Effect.void,
  writeError: (text) =>
    Effect.sync(() => {
      kept.error += text
    }),
  ...change
})

/** What a command prints and how it ends. */
export const run = (
  args: ReadonlyArray<string>,
  texts: Readonly<Record<string, string>>,
  change: Partial<RunsService> = {}
) =>
  Effect.gen(function* () {
    const kept: Kept = { out: "", error: "" }
    const layer = Layer.mergeAll(Layer.succeed(Output, output(kept)), Layer.succeed(Runs, { ...runs, ...change })).pipe(
      Layer.provideMerge(files(texts)),
      Layer.provideMerge(NodeContext.layer)
    )
    const exit = yield* Effect.exit(Effect.provide(program(args, "1.2.3"), layer))
    return { ...kept, ...ending(exit) }
  })
