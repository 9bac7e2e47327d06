import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { about } from "../../cli/algo.ts"
import { absent, type Ended, stringify } from "../../src/Rollout.ts"
import { registry } from "../../src/Run.ts"
import { group, planned, toolCall } from "../../src/testing/index.ts"
import * as Trace from "../../src/testing/traces.ts"
import { run } from "./kit.ts"

const lines = (...ended: ReadonlyArray<Ended>) => ended.map((one) => `${stringify(one)}\n`).join("")

const pair = group([1, 0], { trace: Trace.toolUse })
const policy = fileURLToPath(new URL("../../examples/reverse-text/policy", import.meta.url))

describe("primerl algo list", () => {
  it.effect("prints every algorithm of the registry with what it goes by", () =>
    Effect.gen(function* () {
      const { code, out } = yield* run(["algo", "list"], {})
      expect(code).toBe(0)
      const rows = out.split("\n").slice(1, 1 + registry.known.length)
      expect(rows.map((row) => row.split(" ")[0])).toEqual(registry.known)
      expect(out).toContain("grpo               rl               its group  reward less the mean reward of the group\n")
      expect(out).toContain("opd                ref_kl           nothing    a teacher's log-probability")
      expect(Object.keys(about).sort()).toEqual([...registry.known].sort())
    })
  )
})

describe("primerl algo explain", () => {
  it.effect("prints a table for each rollout and the totals, plain in a pipe", () =>
    Effect.gen(function* () {
      const { code, error, out } = yield* run(["algo", "explain", "t.jsonl", "--algo", "grpo"], {
        "t.jsonl": lines(...pair)
      })
      expect([code, error]).toEqual([0, ""])
      expect(out).not.toContain("\u001b")
      expect(out.split("\n").slice(0, 4)).toEqual([
        "rollout g0/0  reward 1  group g0  source mock  seat policy",
        "  tokens  role       sampled  ids           loss  weight  credit  why",
        "     0-1  user       no       1 2           -                     prompt",
        "     2-3  assistant  yes      3 4           rl         1    +0.5  advantage from grpo.scoreGroup"
      ])
      expect(out.endsWith("grpo: 2 rollouts, 18 tokens\n  rl      8 tokens, weights sum to 8\n")).toBe(true)
    })
  )

  it.effect("explains rollouts in the folder of a run by the algorithm of their source", () =>
    Effect.gen(function* () {
      const config = `[[orchestrator.train.source]]
env = { id = "reverse-text" }
name = "mock"
[[orchestrator.train.source]]
env = { id = "reverse-text" }
name = "terminal"
algo = { type = "echo", roles = { tool = 0.25 } }
`
      const files = {
        "/runs/one/config.toml": config,
        "/runs/one/rollouts/step_000001.jsonl": lines(...pair),
        "/runs/one/rollouts/step_000002.jsonl": lines(
          ...group([1, 0], { group: "g1", source: "terminal", trace: Trace.toolUse })
        )
      }
      const { code, out } = yield* run(["algo", "explain", ...Object.keys(files).slice(1)], files)
      expect(code).toBe(0)
      expect(out).toContain("advantage from grpo.scoreGroup")
      expect(out).toContain("ce      0.25          weight from echo.scoreRollout")
      expect(out).toMatch(/grpo: 2 rollouts[\s\S]*echo: 2 rollouts/)
    })
  )

  it.effect("takes the algorithm's keys from a file and from --set, and its module by its path", () =>
    Effect.gen(function* () {
      const files = { "t.jsonl": lines(...pair), "algo.toml": 'type = "echo"\nroles = { tool = 0.5 }\n' }
      const explained = (...args: ReadonlyArray<string>) => run(["algo", "explain", "t.jsonl", ...args], files)
      expect((yield* explained("--config", "algo.toml")).out).toContain("weights sum to 2\n")
      expect((yield* explained("--config", "algo.toml", "--set", "algo.roles.tool=0.25")).out).toContain(
        "weights sum to 1\n"
      )
      expect((yield* explained("--algo", "grpo", "--config", "algo.toml")).out).not.toContain("ce  ")
      expect((yield* explained("--algo", "./examples/rloo.ts")).out).toContain("+1  advantage from rloo.scoreGroup")
      const wrong = yield* explained("--algo", "grpo", "--set", "algo.length=3")
      expect([wrong.code, wrong.text]).toEqual([
        1,
        'primerl: algorithm grpo, length: is unexpected, expected: "length_penalty"\n'
      ])
      const other = yield* explained("--algo", "grpo", "--set", "trainer.x=3")
      expect(other.text).toBe(
        "primerl: --set takes the algorithm's own keys, as in algo.length_penalty.type=linear, not trainer\n"
      )
    })
  )

  it.effect("shows one rollout alone, scored with the others of its group", () =>
    Effect.gen(function* () {
      const { out } = yield* run(["algo", "explain", "t.jsonl", "--algo", "grpo", "--rollout", "g0/1"], {
        "t.jsonl": lines(...pair)
      })
      expect(out).toContain("rollout g0/1")
      expect(out).toContain("-0.5  advantage from grpo.scoreGroup")
      expect(out).not.toContain("rollout g0/0")
    })
  )

  it.effect("prints JSON with every token apart", () =>
    Effect.gen(function* () {
      const args = ["algo", "explain", "t.jsonl", "--algo", "grpo", "--json"]
      const gone = absent(planned({ id: "gone", sequence: 9 }), { _tag: "Cancelled", why: "stale" })
      const { out } = yield* run(args, { "t.jsonl": lines(...pair, gone) })
      const [explanation] = JSON.parse(out)
      expect(explanation.algorithm).toBe("grpo")
      expect(explanation.rollouts.map(({ id }: { id: string }) => id)).toEqual(["g0/0", "g0/1", "gone"])
      expect(explanation.rollouts[2].absent).toBe("cancelled: stale")
      expect(explanation.rollouts[0].branches[0].tokens[2].terms).toEqual([
        { component: "rl", weight: 1, credit: 0.5, by: "grpo.scoreGroup" }
      ])
    })
  )

  it.effect("reads the tokens with a tokenizer", () =>
    Effect.gen(function* () {
      const { out } = yield* run(["algo", "explain", "t.jsonl", "--algo", "sft", "--tokenizer", policy], {
        "t.jsonl": lines(
          ...group([1], { trace: Trace.conversation(Trace.node("user", [65]), Trace.node("assistant", [66, 67])) })
        )
      })
      expect(out).toMatch(/assistant {2}yes {6}"\S+" +ce {9}1/)
      const none = yield* run(["algo", "explain", "t.jsonl", "--algo", "sft", "--tokenizer", "/nowhere"], {
        "t.jsonl": lines(...pair)
      })
      expect(none.text).toContain("primerl: tokenizer /nowhere/tokenizer.json: cannot be read")
    })
  )

  it.live("says what is missing where an algorithm asks for a teacher or a policy that is not there", () =>
    Effect.gen(function* () {
      const opsd = yield* run(["algo", "explain", "t.jsonl", "--algo", "opsd"], {
        "t.jsonl": lines(...group([1], { trace: toolCall, info: { demonstration: "x" } }))
      })
      expect(opsd.out).toContain(
        "does not count: algorithm failed: opsd.scoreRollout of g0/0: renderer none: no policy is known here"
      )
      const teacher =
        'type = "opd"\nteacher = { name = "expert", base_url = "http://127.0.0.1:9/v1", max_retries = 0 }\n'
      const opd = yield* run(["algo", "explain", "t.jsonl", "--config", "a.toml", "--tokenizer", policy], {
        "t.jsonl": lines(...pair),
        "a.toml": teacher
      })
      expect(opd.code).toBe(1)
      expect(opd.text).toMatch(/^primerl: algorithm opd could not start: .*expert.*127\.0\.0\.1:9/)
    })
  )

  it.live(
    "explains the other sources where the teacher of one is gone, and does not ask it for a rollout of another",
    () =>
      Effect.gen(function* () {
        const files = {
          "/runs/one/config.toml": `[[orchestrator.train.source]]
env = { id = "reverse-text" }
name = "mock"
[[orchestrator.train.source]]
env = { id = "reverse-text" }
name = "taught"
[orchestrator.train.source.algo]
type = "opd"
teacher = { name = "expert", base_url = "http://127.0.0.1:9/v1", max_retries = 0 }
`,
          "/runs/one/rollouts/step_000001.jsonl": lines(...pair, ...group([1], { group: "g1", source: "taught" }))
        }
        const explained = (...args: ReadonlyArray<string>) =>
          run(["algo", "explain", "/runs/one/rollouts/step_000001.jsonl", "--tokenizer", policy, ...args], files)
        const all = yield* explained()
        expect(all.code).toBe(1)
        expect(all.out).toContain("+0.5  advantage from grpo.scoreGroup")
        expect(all.text).toMatch(
          /^primerl: 1 of 2 sources could not be explained\n {2}taught: algorithm opd could not start: .*expert/
        )
        const one = yield* explained("--rollout", "g0/0")
        expect([one.code, one.text]).toEqual([0, ""])
        const gone = yield* explained("--rollout", "g1/0")
        expect(gone.text).toMatch(/^primerl: algorithm opd could not start: .*expert/)
      })
  )

  it.effect("says that state begins anew", () =>
    Effect.gen(function* () {
      const { error } = yield* run(["algo", "explain", "t.jsonl", "--algo", "rae"], { "t.jsonl": lines(...pair) })
      expect(error).toBe(
        "primerl: state baselines begins empty here; in the run it began with what earlier steps had left\n"
      )
    })
  )

  const hint = "; a run keeps its rollouts in runs/NAME/rollouts/step_*.jsonl"
  const cases: ReadonlyArray<readonly [what: string, text: string, words: RegExp | string]> = [
    ["an empty file", "", `t.jsonl: there are no rollouts in it${hint}`],
    ["a file that is no JSON", "[model]\n", /^t\.jsonl:1: not a rollout: SyntaxError: .*; a run keeps/],
    ["rows of something else", '{"step":1}\n', /^t\.jsonl:1: not a rollout: .*; a run keeps/],
    ["a wrong line behind right ones", `${lines(pair[0]!)}{}\n${lines(pair[1]!)}`, /^t\.jsonl:2: not a rollout/],
    [
      "a rollout twice",
      lines(pair[0]!, pair[0]!),
      "t.jsonl:2: rollout g0/0 is also at t.jsonl:1; every rollout ends once"
    ]
  ]
  for (const [what, text, words] of cases) {
    it.effect(`says file, line and reason of ${what}`, () =>
      Effect.gen(function* () {
        const found = yield* run(["algo", "explain", "t.jsonl", "--algo", "grpo"], { "t.jsonl": text })
        expect(found.code).toBe(1)
        const said = found.text.replace(/^primerl: /, "").trimEnd()
        expect(said.split("\n")).toHaveLength(1)
        if (typeof words === "string") expect(said).toBe(words)
        else expect(said).toMatch(words)
      })
    )
  }

  it.effect("leaves out a last line that was cut short, and says so", () =>
    Effect.gen(function* () {
      const whole = lines(...group([1, 0, 1]))
      const { code, error, out } = yield* run(["algo", "explain", "t.jsonl", "--algo", "grpo"], {
        "t.jsonl": whole.slice(0, -40)
      })
      expect([code, error]).toEqual([0, "primerl: t.jsonl:3: the last line is cut short and left out\n"])
      expect(out).toContain("does not count: 1 members of its set g0 never ended")
    })
  )

  it.effect("says what is not there: a file, an algorithm, a rollout, any algorithm at all", () =>
    Effect.gen(function* () {
      const files = { "t.jsonl": lines(...pair) }
      const text = (...args: ReadonlyArray<string>) =>
        Effect.map(run(["algo", "explain", ...args], files), ({ text }) => text)
      expect(yield* text("x.jsonl")).toBe("primerl: x.jsonl: no such file or directory\n")
      expect(yield* text("t.jsonl", "--algo", "gpro")).toMatch(
        /^primerl: algorithm "gpro": .*Did you mean "grpo"\? Built in: grpo, /
      )
      expect(yield* text("t.jsonl", "--algo", "grpo", "--rollout", "g0/3")).toBe(
        'primerl: there is no rollout "g0/3". Did you mean "g0/0"? There are: g0/0, g0/1\n'
      )
      expect(yield* text("t.jsonl")).toBe(
        "primerl: t.jsonl does not lie in the folder of a run, so nothing says which algorithm: give --algo grpo, or --config\n"
      )
    })
  )
})
