import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { RunsService } from "../../cli/Runs.ts"
import * as Config from "../../src/Config.ts"
import { files } from "../config/files.ts"
import { run, runs, stepReport } from "./kit.ts"

const rl = '[model]\nname = "policy"\n[[orchestrator.train.env]]\nid = "reverse-text"\n'
const sft = '[model]\nname = "base"\n[data]\nenv = { id = "reverse-text" }\n'

describe("primerl train", () => {
  it.effect("prints one line per step and ends with the reward's rise", () =>
    Effect.gen(function* () {
      const { code, out } = yield* run(["train", "rl.toml"], { "rl.toml": rl })
      const lines = out.trimEnd().split("\n")
      expect(code).toBe(0)
      expect(lines[0]).toBe("run folder: /runs/one")
      expect(lines).toHaveLength(1 + 1 + 8 + 3 + 1)
      expect(lines.at(-3)).toBe("evaluate: npx primerl eval /runs/one/config.toml --model /runs/one/checkpoints/step_8")
      expect(lines.at(-1)).toBe("reward: first 5 steps 0.300, last 5 steps 0.600")
      expect(out).not.toContain("\u001b")
    })
  )

  it.effect("takes options anywhere, and hands over what they say", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const train = (config: Config.TrainConfig, options: { readonly resume: boolean }) => {
        seen.push([config.maxSteps, config.run.name, options.resume])
        return Effect.succeed({ directory: "/r", done: 0, rewards: [], steps: Stream.empty })
      }
      yield* run(
        ["train", "--set", "max_steps=3", "rl.toml", "--resume", "--set=run.name=x"],
        { "rl.toml": rl },
        { train }
      )
      yield* run(["train", "--", "rl.toml"], { "rl.toml": rl }, { train })
      expect(seen).toEqual([
        [3, "x", true],
        [100, "reverse-text--policy", false]
      ])
    })
  )

  it.effect("counts the steps of before in the last line of a resumed run", () =>
    Effect.gen(function* () {
      const train = () =>
        Effect.succeed({
          directory: "/r",
          done: 6,
          rewards: [0, 0, 0, 0, 0, 0],
          steps: Stream.make(stepReport(7, { reward: 1 }))
        })
      const { out } = yield* run(["train", "rl.toml", "--resume"], { "rl.toml": rl }, { train })
      expect(out.trimEnd().split("\n").at(-1)).toBe("reward: first 5 steps 0.000, last 5 steps 0.200")
    })
  )

  it.effect("says that a finished run has nothing left to do", () =>
    Effect.gen(function* () {
      const train = () => Effect.succeed({ directory: "/r", done: 4, rewards: [0, 0, 0, 0], steps: Stream.empty })
      const { code, out } = yield* run(
        ["train", "rl.toml", "--resume", "--set", "max_steps=2"],
        { "rl.toml": rl },
        { train }
      )
      expect([code, out]).toEqual([0, "run folder: /r\nnothing left to do: 4 of 2 steps are done\n"])
    })
  )

  it.effect("says what went wrong in the run's own words, without a stack", () =>
    Effect.gen(function* () {
      const train = () => Effect.fail({ _tag: "X", message: "lost", toString: () => "lost" })
      const early = yield* run(["train", "rl.toml"], { "rl.toml": rl }, { train })
      expect([early.code, early.text]).toEqual([1, "primerl: lost\n"])
      const steps = Stream.concat(Stream.make(stepReport(1)), Stream.fail(new Config.ConfigError({ problems: [] })))
      const late = yield* run(
        ["train", "rl.toml"],
        { "rl.toml": rl },
        {
          train: () => Effect.succeed({ directory: "/r", done: 0, rewards: [], steps })
        }
      )
      expect(late.code).toBe(1)
      expect(late.text).not.toMatch(/\bat .*:\d+/)
      expect(late.out).toContain("1/8")
      expect(late.out).not.toContain("reward: first")
    })
  )

  it.effect("reports a wrong configuration, the algorithm's own keys included, before anything is opened", () =>
    Effect.gen(function* () {
      let opened = false
      const train = () =>
        Effect.sync(() => {
          opened = true
          return { directory: "/r", done: 0, rewards: [], steps: Stream.empty }
        })
      const wrong = yield* run(["train", "rl.toml"], { "rl.toml": `${rl}ratio = -1\n` }, { train })
      expect(wrong.code).toBe(1)
      expect(wrong.text).toContain("rl.toml:5  orchestrator.train.env[0].ratio: found -1")
      const check = () => Effect.succeed([{ keys: [["orchestrator", "algo", "x"]], what: "unknown" }])
      const own = yield* run(
        ["train", "rl.toml"],
        { "rl.toml": `${rl}[orchestrator.algo]\ntype = "grpo"\nx = 1\n` },
        { train, check }
      )
      expect(own.text).toContain("rl.toml:7  orchestrator.algo.x: unknown")
      expect(opened).toBe(false)
    })
  )
})

describe("primerl sft", () => {
  it.effect("shows the loss and where the policy went", () =>
    Effect.gen(function* () {
      const { code, out } = yield* run(["sft", "s.toml"], { "s.toml": `save_to = "/out"\n${sft}` })
      expect(code).toBe(0)
      expect(out).toContain("2/2")
      expect(out).toContain("  1 without an assistant's token\n")
      expect(out.trimEnd().split("\n").slice(-2)).toEqual(["loss: mean of 2 steps 0.7500", "policy: /out"])
    })
  )
})

describe("an interrupted command", () => {
  it.effect("says where its files are, and how training goes on", () =>
    Effect.gen(function* () {
      const started = () =>
        Effect.succeed({ directory: "/r", done: 0, rewards: [], steps: Stream.fromEffect(Effect.interrupt) })
      const sfted = yield* run(["sft", "s.toml"], { "s.toml": sft }, { sft: started })
      expect([sfted.code, sfted.error]).toEqual([
        130,
        "interrupted; its files, and the checkpoints that [ckpt] asked for, are in /r\n"
      ])
      const trained = yield* run(["train", "rl.toml"], { "rl.toml": rl }, { train: started })
      expect([trained.code, trained.error]).toEqual([
        130,
        "interrupted; the same command with --resume goes on from /r\n"
      ])
    })
  )
})

describe("primerl eval", () => {
  it.effect("evaluates the directory and the number of examples that it is given", () =>
    Effect.gen(function* () {
      const { code, out } = yield* run(["eval", "rl.toml", "--model", "/step_8", "--examples", "7"], { "rl.toml": rl })
      expect(code).toBe(0)
      expect(out).toBe(
        "reverse-text: reward 0.500 ± 0.010\n  7 examples, 7 rollouts, 0:04\n  exact: 0.2500\n  absent: Failed 1\n  policy: /step_8\n"
      )
    })
  )
})

describe("primerl merge", () => {
  it.effect("takes the model, the adapter and where they go, and says where they went", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const merge: RunsService["merge"] = (options) => Effect.sync(() => void seen.push(options))
      const { code, out } = yield* run(["merge", "policy", "step_8", "merged"], {}, { merge })
      expect([code, out]).toEqual([0, "model: merged\n"])
      expect(seen).toEqual([{ model: "policy", adapter: "step_8", into: "merged" }])
      const short = yield* run(["merge", "policy"], {}, { merge })
      expect([short.code, short.text]).toEqual([2, expect.stringMatching(/^primerl: .*ADAPTER_DIR/)])
    })
  )
})

describe("an evaluation of which nothing counts", () => {
  it.effect("ends with 1 and the last failure's reason", () =>
    Effect.gen(function* () {
      const evaluate: RunsService["evaluate"] = (config, options) =>
        Stream.map(runs.evaluate(config, options), (report) => ({
          ...report,
          rollouts: 0,
          reward: { mean: Number.NaN, standardError: Number.NaN }
        }))
      const { code, out, text } = yield* run(["eval", "rl.toml"], { "rl.toml": rl }, { evaluate })
      expect(out).toContain("no reward: none of its attempts counts; the last failure: provider failed: gone\n")
      expect([code, text]).toEqual([1, "primerl: no attempt of reverse-text counts, so there is no reward\n"])
    })
  )
})

describe("primerl plan", () => {
  it.effect("prints a configuration that reads back as the one that it plans, and starts nothing", () =>
    Effect.gen(function* () {
      const { code, out } = yield* run(["plan", "/a/rl.toml"], { "/a/rl.toml": rl })
      expect(code).toBe(0)
      expect(out.trimEnd().endsWith("nothing was started")).toBe(true)
      const load = (path: string, text: string) =>
        Config.loadTrain([path], []).pipe(Effect.provide(files({ [path]: text })))
      expect(yield* load("/b/again.toml", out)).toEqual(yield* load("/a/rl.toml", rl))
    })
  )

  it.effect("derives what a step and a run come to", () =>
    Effect.gen(function* () {
      const sets = [
        "orchestrator.batch_size=32",
        "max_steps=10",
        "seq_len=100",
        "trainer.model.seq_len=250",
        "ckpt.interval=4"
      ]
      const { out } = yield* run(["plan", "rl.toml", ...sets.flatMap((set) => ["--set", set])], { "rl.toml": rl })
      const rows = out
        .split("\n")
        .filter((line) => line.startsWith("#   "))
        .map((line) => line.slice(4).split(/ {2,}/).slice(0, 2))
      expect(Object.fromEntries(rows)).toMatchObject({
        "rollouts per step": "32",
        "groups per step": "4",
        "groups in all": "40",
        "rollouts in all": "320",
        "tokens per step": "at most 3200",
        "micro-batches per step": "at most 16",
        staleness: "at most 1 step",
        checkpoints: "3"
      })
    })
  )

  it.effect("plans where an environment is not installed and no policy is named, and says so", () =>
    Effect.gen(function* () {
      const text = '[[orchestrator.train.env]]\nid = "math-env"\n'
      const check = () =>
        Effect.succeed([
          { keys: [["orchestrator", "train", "source", 0, "env", "id"]], what: "math-env: not installed" }
        ])
      const { code, out } = yield* run(["plan", "rl.toml"], { "rl.toml": text }, { check })
      expect(code).toBe(0)
      expect(out).toContain('[[orchestrator.train.source]]\nname = "math-env"\nenv = { id = "math-env" }')
      expect(out).toContain("#   model.name is not set")
      expect(out).toContain("#   math-env: not installed")
    })
  )

  it.effect("plans supervised fine-tuning too", () =>
    Effect.gen(function* () {
      const { code, out } = yield* run(["plan", "s.toml"], { "s.toml": sft })
      expect(code).toBe(0)
      expect(out).toContain("sequences in all    12800")
    })
  )
})

describe("a wrong command line is one line and exit code 2", () => {
  const cases: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
    [["trian", "rl.toml"], 'unknown command "trian"; did you mean "train"?'],
    [["xyz"], 'unknown command "xyz"; commands are train, sft, eval, plan, serve, merge, algo, doctor, trace, render'],
    [["train"], "train needs a configuration file (TOML)"],
    [["algo"], "algo needs a word after it: explain, list"],
    [["algo", "lst"], 'unknown command "algo lst"; did you mean "algo list"?'],
    [["algo", "run"], 'unknown command "algo run"; commands are algo explain, algo list'],
    [["algo", "list", "x.jsonl"], 'algo list takes no files, got "x.jsonl"'],
    [["algo", "explain"], "algo explain needs a file of rollouts, such as runs/NAME/rollouts/step_000001.jsonl"],
    [["algo", "explain", "--jsn", "x.jsonl"], 'unknown option "--jsn" of algo explain; did you mean "--json"?'],
    [["train", "rl.toml", "--rsume"], 'unknown option "--rsume" of train; did you mean "--resume"?'],
    [["plan", "rl.toml", "--resume"], 'unknown option "--resume" of plan'],
    [["train", "rl.toml", "--set"], "--set needs a value after it"],
    [["train", "rl.toml", "--set", ""], '--set needs a value, got ""'],
    [
      ["--set", "a=1", "train", "rl.toml"],
      "--set is an option of train, sft, eval, plan, algo explain, render: put the command first"
    ],
    [["--completions", "tcsh"], '--completions knows the shells bash, zsh, fish, sh, not "tcsh"'],
    [["train", "rl.toml", "--resume=yes"], '--resume takes no value, got "yes"'],
    [["eval", "rl.toml", "--examples", "0"], '--examples needs a whole number, at least 1, got "0"'],
    [["eval", "rl.toml", "--examples=ten"], '--examples needs a whole number, at least 1, got "ten"']
  ]
  for (const [args, what] of cases) {
    it.effect(args.join(" "), () =>
      Effect.gen(function* () {
        const { code, text } = yield* run(args, { "rl.toml": rl })
        expect([code, text]).toEqual([2, `primerl: ${what}\n`])
      })
    )
  }

  it.effect("an interrupted command ends with 130", () =>
    Effect.gen(function* () {
      const { code, text } = yield* run(["train", "rl.toml"], { "rl.toml": rl }, { train: () => Effect.interrupt })
      expect([code, text]).toEqual([130, ""])
    })
  )

  it.effect("control characters of what went wrong are shown, not sent to the terminal", () =>
    Effect.gen(function* () {
      const train = () => Effect.fail({ _tag: "X", message: "", toString: () => "a\u001b[2Jb\tc\nd" })
      const { text } = yield* run(["train", "rl.toml"], { "rl.toml": rl }, { train })
      expect(text).toBe("primerl: a\\x1b[2Jb\tc\nd\n")
    })
  )

  it.effect("what is logged goes to standard error", () =>
    Effect.gen(function* () {
      const train = () =>
        Effect.zipRight(
          Effect.logWarning("odd", { a: 1 }),
          Effect.succeed({ directory: "/r", done: 0, rewards: [], steps: Stream.empty })
        )
      const { error, out } = yield* run(["train", "rl.toml"], { "rl.toml": rl }, { train })
      expect(error).toBe('primerl: warn: odd {"a":1}\n')
      expect(out).toBe("run folder: /r\n")
    })
  )

  it.effect("what nobody foresaw is shown whole", () =>
    Effect.gen(function* () {
      const { code, text } = yield* run(
        ["train", "rl.toml"],
        { "rl.toml": rl },
        { train: () => Effect.die(new Error("boom")) }
      )
      expect(code).toBe(1)
      expect(text).toContain("a defect; please report it")
      expect(text).toContain("boom")
    })
  )
})

describe("help", () => {
  it.effect("needs no file and has no colour where none is shown", () =>
    Effect.gen(function* () {
      for (const [args, expected] of [
        [["--help"], "- eval --set key=value..."],
        [[], "COMMANDS"],
        [["train", "--help"], "--resume"],
        [["algo", "--help"], "- explain"],
        [["algo", "explain", "--help"], "$ primerl algo explain"],
        [["train", "--help"], "$ primerl train --set key=value... [--resume] <FILE>..."],
        [["--version"], "1.2.3\n"],
        [["--completions", "bash"], "complete -F"]
      ] as const) {
        const { code, out } = yield* run(args, {})
        expect(code).toBe(0)
        expect(out).toContain(expected)
        expect(out).not.toContain("\u001b")
      }
    })
  )
})
