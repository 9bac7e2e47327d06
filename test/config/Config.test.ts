import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Config from "../../src/Config.ts"
import * as Run from "../../src/Run.ts"
import { files } from "./files.ts"

const minimal = `
[model]
name = "policy"
[[orchestrator.train.source]]
env = { id = "reverse-text" }
`

const load = (texts: Readonly<Record<string, string>>, sets: ReadonlyArray<string> = []) =>
  Config.loadTrain(Object.keys(texts), sets).pipe(Effect.provide(files(texts)))

/** The report's lines without its heading. */
const problems = (text: string, sets: ReadonlyArray<string> = []) =>
  load({ "rl.toml": text }, sets).pipe(
    Effect.flip,
    Effect.map((error) =>
      error.message
        .split("\n")
        .slice(1)
        .map((line) => line.trim())
    )
  )

describe("defaults and inheritance", () => {
  it.effect("fills what a minimal file leaves out", () =>
    Effect.gen(function* () {
      const config = yield* load({ "/a/rl.toml": minimal })
      expect(config.model.name).toBe("/a/policy")
      expect(config.run.name).toBe("reverse-text--policy")
      expect(config.orchestrator).toMatchObject({ batchSize: 128, groupSize: 8, seqLen: 2048, maxErrorRate: 0.5 })
      expect(config.orchestrator.offPolicy).toEqual({ policy: "pace", maxSteps: 1 })
      expect(config.trainer.optim).toMatchObject({ type: "adamw", lr: 1e-6, weightDecay: 0.01, maxNorm: 1 })
      expect(config.trainer.scheduler).toEqual({ type: "constant" })
      expect(config.trainer.loss).toEqual({ type: "dppo" })
    })
  )

  it.effect("a source inherits group size, sampling and algorithm, field by field", () =>
    Effect.gen(function* () {
      const config = yield* load({
        "rl.toml": `${minimal}group_size = 16
sampling = { top_p = 0.5 }
[[orchestrator.train.source]]
env = { id = "other" }
algo = { type = "echo", roles = { tool = 0.2 } }
[orchestrator.train.sampling]
temperature = 0.7
[orchestrator.eval]
num_examples = 10
sampling = { temperature = 0 }
[[orchestrator.eval.source]]
env = { id = "held-out" }
sampling = { max_completion_tokens = 5 }`
      })
      const [first, second] = config.orchestrator.train.source
      expect(first).toMatchObject({ groupSize: 16, sampling: { temperature: 0.7, topP: 0.5 }, algo: { type: "grpo" } })
      expect(second).toMatchObject({ groupSize: 8, algo: { type: "echo", roles: { tool: 0.2 } } })
      expect(config.orchestrator.eval.source).toEqual([
        {
          name: "held-out",
          env: { id: "held-out" },
          groupSize: 1,
          numExamples: 10,
          sampling: { temperature: 0, maxCompletionTokens: 5 }
        }
      ])
    })
  )

  it.effect("CFG-02: a shared value from the command line reaches every section that sets none of its own", () =>
    Effect.gen(function* () {
      const text = `seq_len = 16384\n${minimal}[trainer.model]\nseq_len = 4096\n`
      const config = yield* load({ "rl.toml": text }, ["seq_len=1024", "model.name=/B"])
      expect(config.seqLen).toBe(1024)
      expect(config.orchestrator.seqLen).toBe(1024)
      expect(config.trainer.model.seqLen).toBe(4096)
      expect(config.model.name).toBe("/B")
    })
  )
})

describe("an adapter", () => {
  it.effect("is asked for by one key, and its other keys have PEFT's names", () =>
    Effect.gen(function* () {
      const { trainer } = yield* load({ "rl.toml": minimal }, ["trainer.model.lora.rank=8"])
      expect(trainer.model.lora).toEqual({
        rank: 8,
        alpha: 32,
        dropout: 0,
        targetModules: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
      })
      expect((yield* load({ "rl.toml": minimal })).trainer.model).toEqual({ seqLen: 2048 })
    })
  )

  it.effect("of matrices that no layer has, or on CUDA, is refused", () =>
    Effect.gen(function* () {
      const lora = '[trainer.model.lora]\ndropout = 1\ntarget_modules = ["q_proj", "experts"]\n'
      const lines = yield* problems(`${minimal}${lora}`)
      expect(lines[0]).toMatch(/lora\.dropout: found 1, allowed is a number, at least 0 and below 1/)
      expect(lines[1]).toMatch(/lora\.target_modules\[1\]: found "experts", allowed is one of "q_proj"/)
      const [line] = yield* problems(`${minimal}[trainer.model.lora]\n[trainer.engine]\ndevice = "cuda"\n`)
      expect(line).toMatch(/trainer\.engine\.device: LoRA on CUDA is not there yet/)
    })
  )
})

describe("composition", () => {
  it.effect("tables merge and lists are replaced, left to right, whatever their spelling", () =>
    Effect.gen(function* () {
      const config = yield* load({
        "/a/base.toml": `${minimal}[trainer.optim]\nlr = 1e-3\nweight_decay = 0.1\n`,
        "/b/over.toml": '[trainer.optim]\nlr = 2e-3\n[[orchestrator.train.env]]\nid = "./x.ts"\n'
      })
      expect(config.trainer.optim).toMatchObject({ lr: 2e-3, weightDecay: 0.1 })
      expect(config.orchestrator.train.source.map(({ name, env }) => [name, env.id])).toEqual([["x", "/b/x.ts"]])
      expect(config.model.name).toBe("/a/policy")
    })
  )

  it.effect("--set takes TOML values, bare strings and list indices", () =>
    Effect.gen(function* () {
      const config = yield* load({ "rl.toml": minimal }, [
        "max_steps=7",
        "run.name=my-run",
        "orchestrator.train.env.0.env.split=held out",
        'orchestrator.algo={ type = "rae", decay = 0.5 }',
        "trainer.optim.max_norm=inf"
      ])
      expect(config.maxSteps).toBe(7)
      expect(config.run.name).toBe("my-run")
      expect(config.orchestrator.train.source[0]?.env).toEqual({ id: "reverse-text", split: "held out" })
      expect(config.orchestrator.train.source[0]?.algo).toEqual({ type: "rae", decay: 0.5 })
      expect(config.trainer.optim.maxNorm).toBe(Number.POSITIVE_INFINITY)
    })
  )

  it.effect("a --set value cannot smuggle in a second key", () =>
    Effect.gen(function* () {
      const [problem] = yield* problems(minimal, ["seed=1\nmax_steps = 3"])
      expect(problem).toContain('seed: found "1\\nmax_steps = 3"')
    })
  )
})

describe("spellings", () => {
  const blog = `
[model]
name = "policy"
[orchestrator.algo]
type = "grpo"
[[orchestrator.train.env]]
id = "math-env"
[[orchestrator.train.env]]
id = "code-env"
[orchestrator.train.env.algo]
type = "opd"
[orchestrator.train.env.algo.teacher]
name = "CodingExpertModel"
base_url = ["http://localhost:8001/v1"]
`
  it.effect("the alias of a source prints in canonical form", () =>
    Effect.gen(function* () {
      const text = Config.trainToml(yield* load({ "rl.toml": blog }))
      expect(text).toContain('[[orchestrator.train.source]]\nname = "math-env"\nenv = { id = "math-env" }')
      expect(text).toContain(
        '[orchestrator.train.source.algo]\ntype = "opd"\n\n[orchestrator.train.source.algo.teacher]\nname = "CodingExpertModel"'
      )
      expect(text).not.toContain("train.env")
    })
  )

  it.effect("two spellings of one thing contradict each other", () =>
    Effect.gen(function* () {
      const both = yield* problems(`${blog}[[orchestrator.train.source]]\nid = "a"\nenv = { id = "b" }\n`)
      expect(both.some((line) => line.includes('"env" and "source" are two spellings'))).toBe(true)
      expect(both.some((line) => line.includes('"id" and "env" both name the environment'))).toBe(true)
    })
  )

  it.effect("a source names who samples it: the policy, or a frozen model of its own or of all sources", () =>
    Effect.gen(function* () {
      const text = `${minimal}sampling = { source = "policy" }
[[orchestrator.train.source]]
env = { id = "other" }
[[orchestrator.train.source]]
env = { id = "third" }
sampling = { source = { name = "big", base_url = ["http://a/v1", "http://b/v1"], api_key_var = "KEY", max_retries = 0 } }
[orchestrator.train.sampling.source]
name = "small"
base_url = "http://localhost:1/v1"
`
      const { orchestrator } = yield* load({ "rl.toml": text })
      const waits = { timeout_ms: 600_000, max_retries: 5 }
      expect(orchestrator.train.source.map(({ sampling }) => sampling.source)).toEqual([
        "policy",
        { ...waits, name: "small", base_url: ["http://localhost:1/v1"] },
        { ...waits, name: "big", base_url: ["http://a/v1", "http://b/v1"], api_key_var: "KEY", max_retries: 0 }
      ])
      expect(orchestrator.eval.source.every(({ sampling }) => !("source" in sampling))).toBe(true)
    })
  )

  it.effect("what is wrong with a frozen model is told at its key", () =>
    Effect.gen(function* () {
      const sampling = (source: string) => `${minimal}sampling = { source = ${source} }\n`
      const at = "orchestrator.train.source[0].sampling.source"
      expect(yield* problems(sampling('"polcy"'))).toEqual([
        `rl.toml:6  ${at}: found "polcy", allowed is "policy" or a table, written [orchestrator.train.source.sampling.source] or { … }; did you mean "policy"?`
      ])
      expect(yield* problems(sampling('{ name = "t", base_urls = "http://a/v1" }'))).toEqual([
        `rl.toml:6  ${at}.base_urls: unknown key; did you mean "base_url"?`,
        `rl.toml:6  ${at}.base_url: missing. OpenAI-compatible roots, usually ending in /v1; requests are spread over all of them.`
      ])
      expect(yield* problems(sampling('{ name = "t", base_url = ["a:1"], timeout_ms = 0 }'))).toEqual([
        `rl.toml:6  ${at}.base_url[0]: found "a:1", allowed is a URL such as http://localhost:8000/v1, or a list of them`,
        `rl.toml:6  ${at}.timeout_ms: found 0, allowed is a whole number above 0`
      ])
    })
  )

  it.effect("where group sizes differ, a step need not be a multiple of each, but holds one of each", () =>
    Effect.gen(function* () {
      const text = `${minimal}[[orchestrator.train.source]]\nenv = { id = "alone" }\ngroup_size = 3\n`
      expect(yield* problems(`${text}[orchestrator]\nmax_inflight = 16\nbatch_size = 5\n`)).toEqual([
        "rl.toml:11  orchestrator.batch_size: batch_size 5 is less than one group of group_size 8"
      ])
      expect((yield* load({ "rl.toml": `${text}[orchestrator]\nbatch_size = 10\n` })).orchestrator.batchSize).toBe(10)
    })
  )

  it.effect("loss default is dppo", () =>
    Effect.gen(function* () {
      const config = yield* load({ "rl.toml": `${minimal}[trainer.loss]\ntype = "default"\nkl_tau = 0.1\n` })
      expect(config.trainer.loss).toEqual({ type: "dppo", kl_tau: 0.1 })
    })
  )

  it.effect("import_path names a loss relative to its file, alone or as custom, and kwargs are its own keys", () =>
    Effect.gen(function* () {
      const written = [
        'type = "./mine.ts"\nclip = 0.3',
        'import_path = "./mine.ts"\nkwargs = { clip = 0.3 }',
        'type = "custom"\nimport_path = "./mine.ts"\n[trainer.loss.kwargs]\nclip = 0.3'
      ]
      for (const section of written) {
        const config = yield* load({ "/a/rl.toml": `${minimal}[trainer.loss]\n${section}\n` })
        expect(config.trainer.loss).toEqual({ type: "/a/mine.ts", clip: 0.3 })
      }
      const overlaid = yield* load(
        {
          "/a/rl.toml": `${minimal}[trainer.loss]\ntype = "cispo"\n`,
          "/b/rl.toml": '[trainer.loss]\nimport_path = "../mine.ts"'
        },
        ["trainer.loss.kwargs.clip=0.4"]
      )
      expect(overlaid.trainer.loss).toEqual({ type: "/mine.ts", clip: 0.4 })
      const packaged = yield* load({ "rl.toml": minimal }, [
        "trainer.loss.type=custom",
        "trainer.loss.import_path=my-losses"
      ])
      expect(packaged.trainer.loss).toEqual({ type: "my-losses" })
    })
  )

  it.effect("a loss named twice, and a key beside and in kwargs, contradict each other", () =>
    Effect.gen(function* () {
      const section = '[trainer.loss]\ntype = "ipo"\nimport_path = "./mine.ts"\nclip = 1\nkwargs = { clip = 2 }\n'
      const lines = yield* problems(`${minimal}${section}`)
      expect(lines).toEqual([
        'rl.toml:8   trainer.loss.import_path: "import_path" and "type" both name the loss; keep type = "./my-loss.ts"',
        'rl.toml:10  trainer.loss.kwargs.clip: "clip" stands in kwargs and beside it; keep one'
      ])
    })
  )
})

describe("the report", () => {
  it.effect("CFG-01: a misspelt key is shown with its line, its path and the key that was meant", () =>
    Effect.gen(function* () {
      expect(yield* problems(`${minimal}[orchestrator]\nbacth_size = 4\n`)).toEqual([
        'rl.toml:7  orchestrator.bacth_size: unknown key; did you mean "batch_size"?'
      ])
    })
  )

  it.effect("CFG-01: a key in the wrong table is told where it belongs", () =>
    Effect.gen(function* () {
      const text = `${minimal}[trainer]\nlr = 1\n[orchestrator.train]\nbatch_size = 4\n[optim]\nlr = 1\n`
      expect(yield* problems(text)).toEqual([
        'rl.toml:7   trainer.lr: unknown key here; "lr" belongs in [trainer.optim]',
        'rl.toml:9   orchestrator.train.batch_size: unknown key here; "batch_size" belongs in [orchestrator]',
        "rl.toml:10  optim: unknown table; use [trainer.optim]"
      ])
    })
  )

  it.effect("a key of another dialect is told its name here", () =>
    Effect.gen(function* () {
      const [line] = yield* problems(`${minimal}[orchestrator]\nmax_off_policy_steps = 8\n`)
      expect(line).toContain("use orchestrator.off_policy.max_steps")
    })
  )

  it.effect("names every wrong value at once, with what was found and what is allowed", () =>
    Effect.gen(function* () {
      const text = `seed = "x"
${minimal}ratio = 0
[orchestrator]
group_size = 2.5
off_policy = { policy = "strickt" }
[orchestrator.train.sampling]
temperature = 0
[ckpt]
interval = [1]
`
      expect(yield* problems(text, ["trainer.optim.lr=fast"])).toEqual([
        'rl.toml:1   seed: found "x", allowed is a whole number from 0 to 4294967295',
        "rl.toml:7   orchestrator.train.source[0].ratio: found 0, allowed is a number from 0.000001 to 1000000",
        "rl.toml:9   orchestrator.group_size: found 2.5, allowed is a whole number from 1 to 1048576",
        'rl.toml:10  orchestrator.off_policy.policy: found "strickt", allowed is one of "pace", "drop", "strict"; did you mean "strict"?',
        "rl.toml:12  orchestrator.train.sampling.temperature: found 0, allowed is a number from 1.2e-38 to 3.4e38, as float32 holds it",
        "rl.toml:14  ckpt.interval: found a list, allowed is a whole number from 1 to 2147483647",
        '--set       trainer.optim.lr: found "fast", allowed is a number, at least 0'
      ])
    })
  )

  it.effect("contradictions are reported beside wrong values, unless they rest on them", () =>
    Effect.gen(function* () {
      const lines = yield* problems(
        `${minimal}[orchestrator]\nbatch_size = "10"\ngroup_size = 3\n[trainer.model]\nseq_len = 5\n`
      )
      expect(lines).toHaveLength(2)
      expect(lines[0]).toContain('orchestrator.batch_size: found "10"')
      expect(lines[1]).toContain("trainer.model.seq_len 5 is less than orchestrator.seq_len 2048")
    })
  )

  it.effect("a single table where a list of tables belongs is told how to write it", () =>
    Effect.gen(function* () {
      const [line] = yield* problems('[model]\nname = "x"\n[orchestrator.train.env]\nid = "a"\n')
      expect(line).toContain("found a table, allowed is a list of tables, each written [[orchestrator.train.source]]")
    })
  )

  it.effect("missing files and syntax errors are problems like others", () =>
    Effect.gen(function* () {
      const error = yield* Config.loadTrain(["none.toml", "bad.toml"], ["x"]).pipe(
        Effect.provide(files({ "bad.toml": "a = 1\nb = \n" })),
        Effect.flip
      )
      expect(error.problems.map(({ source, line }) => [source, line])).toEqual([
        ["none.toml", undefined],
        ["bad.toml", 2],
        ["--set", undefined]
      ])
      expect(error.message).toContain("no such file")
      const latin = Uint8Array.of(0x61, 0x20, 0x3d, 0x20, 0x22, 0xe4, 0x22)
      const long = `a = "${"x".repeat(5000)}"\nb = `
      const unread = yield* Config.loadTrain(["latin.toml", "long.toml"], []).pipe(
        Effect.flip,
        Effect.provide(files({ "latin.toml": latin, "long.toml": long }))
      )
      expect(unread.message).toMatch(/latin\.toml +is not UTF-8/)
      expect(unread.message.length).toBeLessThan(1500)
      expect(error.message).toContain("2:  b = ")
    })
  )

  it.effect("a file of supervised fine-tuning is sent to its command", () =>
    Effect.gen(function* () {
      const lines = yield* problems('[model]\nname = "x"\n[data]\npath = "a.jsonl"\n')
      expect(lines).toHaveLength(1)
      expect(lines[0]).toContain("primerl sft")
    })
  )

  it.effect("a training run must name its policy; a plan need not", () =>
    Effect.gen(function* () {
      const text = '[[orchestrator.train.env]]\nid = "math-env"\n'
      const [line] = yield* problems(text)
      expect(line).toContain("model.name: missing")
      const plan = yield* Config.loadAny(["rl.toml"], []).pipe(Effect.provide(files({ "rl.toml": text })))
      expect(plan._tag).toBe("Train")
    })
  )

  it.effect("what a check of one's own finds stands at the line of its key", () =>
    Effect.gen(function* () {
      const text = `${minimal}algo = { type = "rae",\n  decay = 2 }\n`
      const path = ["orchestrator", "train", "source", 0, "algo", "decay"]
      const check = () => Effect.succeed([{ keys: [path], what: "found 2, allowed is below 1" }])
      const error = yield* Config.loadTrain(["rl.toml"], [], check).pipe(
        Effect.provide(files({ "rl.toml": text })),
        Effect.flip
      )
      expect(error.problems[0]).toMatchObject({ line: 7, key: "orchestrator.train.source[0].algo.decay" })
    })
  )
})

describe("CFG-04: contradictions are found before anything starts, with both values", () => {
  const cases: ReadonlyArray<readonly [string, string, ReadonlyArray<string>, string]> = [
    [
      "batch and group",
      minimal,
      ["orchestrator.batch_size=10", "orchestrator.group_size=4"],
      "batch_size 10 is not a multiple of group_size 4"
    ],
    [
      "a source's own group",
      minimal,
      ["orchestrator.train.source.0.group_size=3"],
      "batch_size 128 is not a multiple of group_size 3"
    ],
    [
      "lengths",
      minimal,
      ["seq_len=64", "orchestrator.train.sampling.max_completion_tokens=65"],
      "max_completion_tokens 65 is more than seq_len 64"
    ],
    [
      "eval lengths",
      minimal,
      ["seq_len=64", "orchestrator.eval.sampling.max_completion_tokens=65"],
      "max_completion_tokens 65 is more than seq_len 64"
    ],
    [
      "negative staleness",
      minimal,
      ["orchestrator.off_policy.max_steps=-1"],
      "found -1, allowed is a whole number from 0 to 2147483647"
    ],
    ["no source", '[model]\nname = "x"', [], "no source to train on"],
    ["an empty list of sources", '[model]\nname = "x"', ["orchestrator.train.source=[]"], "no source to train on"],
    ["reserved name", minimal, ["orchestrator.train.source.0.name=all"], 'the name "all" is reserved'],
    [
      "names taken twice",
      `${minimal}[[orchestrator.train.source]]\nenv = { id = "a/reverse-text" }\n`,
      [],
      'the name "reverse-text" is taken by source 0'
    ],
    [
      "no room for a group",
      minimal,
      ["orchestrator.max_inflight=4"],
      "max_inflight 4 has no room for a group of group_size 8"
    ],
    [
      "warm-up and decay",
      minimal,
      ["max_steps=15", "trainer.scheduler.type=linear"],
      "warmup_steps 10 + decay_steps 10 is more than max_steps 15"
    ],
    [
      "warm-up alone",
      minimal,
      ["max_steps=10", "trainer.scheduler.type=cosine"],
      "warmup_steps 10 must be less than max_steps 10"
    ],
    [
      "a schedule without a slope",
      minimal,
      ["trainer.scheduler={type='linear', warmup_steps=0, decay_steps=0}"],
      "both are 0"
    ],
    [
      "keys of another schedule",
      minimal,
      ["trainer.scheduler.warmup_steps=3"],
      "a constant scheduler has no warmup_steps"
    ],
    ["learning rates", minimal, ["trainer.scheduler={type='cosine', min_lr=1.0}"], "min_lr 1 is above lr 0.000001"]
  ]
  for (const [name, text, sets, expected] of cases) {
    it.effect(name, () =>
      Effect.gen(function* () {
        const lines = yield* problems(text, sets)
        expect(lines).toHaveLength(1)
        expect(lines[0]).toContain(expected)
      })
    )
  }

  it.effect("what an algorithm says of a value that its source inherits stands at the inherited key, once", () =>
    Effect.gen(function* () {
      const error = yield* Config.loadTrain(["rl.toml"], [], Run.check).pipe(
        Effect.provide(files({ "rl.toml": `${minimal}[orchestrator]\ngroup_size = 1\n` })),
        Effect.flip
      )
      const found = error.problems.filter(({ what }) => !what.includes("environment"))
      expect(found).toHaveLength(1)
      expect(found[0]).toMatchObject({ key: "orchestrator.group_size" })
      expect(found[0]!.what).toContain("groups of 1: a rollout compared with itself alone has no advantage")
    })
  )

  it.effect("a renderer is named with keys of its own, and one that is not there is refused with its nearest", () =>
    Effect.gen(function* () {
      const section = '[orchestrator.renderer]\nname = "qwen3"\nenable_thinking = false\n'
      const config = yield* load({ "rl.toml": `${minimal}${section}` })
      expect(config.orchestrator.renderer).toEqual({ name: "qwen3", enable_thinking: false })
      expect(Config.trainToml(config)).toContain(section)
      const error = yield* Config.loadTrain(["rl.toml"], [], Run.check).pipe(
        Effect.provide(files({ "rl.toml": `${minimal}[orchestrator.renderer]\nname = "qwen-3"\n` })),
        Effect.flip
      )
      const found = error.problems.find(({ key }) => key === "orchestrator.renderer.name")
      expect(found?.what).toContain('there is no renderer "qwen-3". Did you mean "qwen3"?')
    })
  )

  it.effect("rae and opd take groups of one", () =>
    load({ "rl.toml": minimal }, ["orchestrator.group_size=1", "orchestrator.algo.type=rae"])
  )
})

describe("numbers that nothing could run with", () => {
  const cases = [
    ["orchestrator.batch_size=1e15", "allowed is a whole number from 1 to 1048576"],
    ["orchestrator.group_size=9007199254740991", "allowed is a whole number from 1 to 1048576"],
    ["orchestrator.max_inflight=4294967296", "allowed is a whole number from 1 to 1048576"],
    ["seq_len=4294967296", "allowed is a whole number from 1 to 16777216"],
    ["max_steps=9007199254740991", "allowed is a whole number from 1 to 2147483647"],
    ["orchestrator.train.sampling.top_k=4294967296", "allowed is a whole number from 1 to 2147483647"],
    ["orchestrator.train.sampling.temperature=1e300", "as float32 holds it"],
    ["orchestrator.train.sampling.temperature=1e-300", "as float32 holds it"],
    ["orchestrator.eval.sampling.temperature=1e-300", "as float32 holds it"],
    ["orchestrator.train.source.0.ratio=1e308", "allowed is a number from 0.000001 to 1000000"],
    ["trainer.engine.threads=100000", "allowed is a whole number from 1 to 1024"]
  ] as const
  it.effect.each(cases)("%s is refused", ([set, expected]) =>
    Effect.gen(function* () {
      const lines = yield* problems(minimal, [set])
      expect(lines).toHaveLength(1)
      expect(lines[0]).toContain(expected)
    })
  )
})

describe("canonical text", () => {
  const word = FastCheck.string({ minLength: 1, maxLength: 8 })
  const number = FastCheck.double({ noNaN: true, min: 0, max: 1e30 }).map((x) => x || 1)
  const sets = FastCheck.record(
    {
      seed: FastCheck.nat(),
      lr: number,
      norm: FastCheck.constantFrom(0.5, 1, Number.POSITIVE_INFINITY),
      group: FastCheck.constantFrom(2, 4, 8),
      model: FastCheck.record({
        name: FastCheck.constantFrom("teacher", "org/model"),
        base_url: FastCheck.constantFrom(["http://a:1/v1"] as const, ["http://a:1/v1", "https://b/v1"] as const),
        timeout_ms: FastCheck.integer({ min: 1 }),
        max_retries: FastCheck.integer({ min: 0 })
      }),
      topP: FastCheck.double({ min: 0.01, max: 1, noNaN: true }),
      scheduler: FastCheck.constantFrom("constant", "linear", "cosine"),
      option: FastCheck.dictionary(word, FastCheck.oneof(word, number, FastCheck.boolean(), FastCheck.array(word)))
    },
    { requiredKeys: ["scheduler", "option"] }
  )

  it.effect.prop(
    "reads back as an equal configuration",
    [sets],
    ([{ seed, lr, model, norm, group, topP, scheduler, option }]) =>
      Effect.gen(function* () {
        const config = yield* load({ "/a/rl.toml": minimal }, [`trainer.scheduler.type=${scheduler}`])
        const source = config.orchestrator.train.source[0]!
        const changed: Config.TrainConfig = {
          ...config,
          seed: seed ?? 0,
          trainer: {
            ...config.trainer,
            optim: { ...config.trainer.optim, lr: lr ?? 1e-6, maxNorm: norm ?? 1 }
          },
          orchestrator: {
            ...config.orchestrator,
            groupSize: group ?? 8,
            train: {
              ...config.orchestrator.train,
              source: [
                {
                  ...source,
                  sampling: { source: model ?? "policy", temperature: 1, ...(topP === undefined ? {} : { topP }) },
                  env: { ...option, id: "reverse-text" },
                  algo: { ...option, type: "rae", ...(model === undefined ? {} : { teacher: model }) }
                }
              ]
            }
          }
        }
        const text = Config.trainToml(changed)
        const again = yield* load({ "/elsewhere/config.toml": text })
        expect(again).toEqual(changed)
        expect(Config.trainToml(again)).toBe(text)
      }),
    { fastCheck: { numRuns: 40 } }
  )

  it.effect("of supervised fine-tuning reads back as an equal configuration", () =>
    Effect.gen(function* () {
      const text = `save_to = "policy"
[model]
name = "base"
random_init = { std = 0.01 }
[data]
env = { id = "./text.ts", split = "train" }
[scheduler]
type = "cosine"
`
      const read = (path: string, text: string) =>
        Config.loadSft([path], []).pipe(Effect.provide(files({ [path]: text })))
      const config = yield* read("/a/sft.toml", text)
      expect(config).toMatchObject({
        saveTo: "/a/policy",
        run: { name: "sft--text--base" },
        model: { name: "/a/base", randomInit: { seed: 0, std: 0.01 } },
        data: { env: { id: "/a/text.ts", split: "train" }, batchSize: 128 },
        scheduler: { type: "cosine", warmupSteps: 10, minLr: 0 }
      })
      expect(yield* read("/b/config.toml", Config.sftToml(config))).toEqual(config)
    })
  )

  it.effect("supervised fine-tuning needs one source of data", () =>
    Effect.gen(function* () {
      const read = (data: string) =>
        Config.loadSft(["s.toml"], []).pipe(
          Effect.provide(files({ "s.toml": `[model]\nname = "x"\n[data]\n${data}` })),
          Effect.flip
        )
      expect((yield* read("")).message).toContain("no data")
      expect((yield* read('path = "a"\nenv = { id = "b" }\n')).message).toContain("both name the data")
    })
  )
})
