import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Algorithm from "../../src/Algorithm.ts"
import Echo from "../../src/algorithms/Echo.ts"
import Grpo from "../../src/algorithms/Grpo.ts"
import Opd from "../../src/algorithms/Opd.ts"
import Sft from "../../src/algorithms/Sft.ts"
import * as Credit from "../../src/Credit.ts"
import { type Ended, isRollout } from "../../src/Rollout.ts"
import { Tokenizer } from "../../src/Tokenizer.ts"
import * as Testing from "../../src/testing/index.ts"

const { conversation, explain, forked, group, node, rollout, toolUse } = Testing

const tokensOf = (explanation: Testing.Explanation, id: string, branch = 0) => {
  const found = explanation.rollouts.find((one) => one.id === id)
  assert(found !== undefined)
  return found.branches[branch]?.tokens ?? []
}
const reasons = (explanation: Testing.Explanation, id: string, branch = 0) =>
  tokensOf(explanation, id, branch).map(({ reason }) => reason)

describe("explain", () => {
  it.effect("says of every token its component, weight, credit, and which hook said so", () =>
    Effect.gen(function* () {
      const found = yield* explain(Grpo.layer(), group([1, 0], { trace: toolUse }))
      const [, , first] = tokensOf(found, "g0/0")
      assert.deepStrictEqual(first, {
        position: 2,
        message: 1,
        role: "assistant",
        tokenId: 3,
        text: undefined,
        sampled: true,
        logprob: toolUse.nodes[1]!.logprobs[0]!,
        terms: [{ component: "rl", weight: 1, credit: 0.5, by: "grpo.scoreGroup" }],
        reason: "advantage from grpo.scoreGroup"
      })
      assert.deepStrictEqual(reasons(found, "g0/1"), [
        ...Array(2).fill("prompt"),
        ...Array(2).fill("advantage from grpo.scoreGroup"),
        "scaffold of the chat format",
        ...Array(2).fill("context: a tool message"),
        ...Array(2).fill("advantage from grpo.scoreGroup")
      ])
      assert.deepStrictEqual(found.totals, {
        rl: { tokens: 8, weight: 8 },
        ce: { tokens: 0, weight: 0 },
        refKl: { tokens: 0, weight: 0 }
      })
      assert.deepStrictEqual([found.algorithm, found.tokens], ["grpo", 18])
    })
  )

  it.effect("tells an advantage of exactly 0 from one that is small", () =>
    Effect.gen(function* () {
      const found = yield* explain(Grpo.layer(), group([0.5, 0.5]))
      assert.deepStrictEqual(
        reasons(found, "g0/0").slice(2),
        Array(2).fill("advantage exactly 0, from grpo.scoreGroup")
      )
      assert.strictEqual(found.totals.rl.tokens, 0)
      const mixed = yield* explain(Grpo.layer(), group([0, 0.5, 1]))
      assert.deepStrictEqual(
        mixed.rollouts.map(({ id }) => tokensOf(mixed, id)[2]!.terms.map(({ credit }) => credit)),
        [[-0.5], [], [0.5]]
      )
    })
  )

  it.effect("says why a token without context, a shared one, and one that is cut off are not trained", () =>
    Effect.gen(function* () {
      const two = forked(
        conversation(node("assistant", [1, 2]), node("user", [3])),
        0,
        node("user", [4]),
        node("assistant", [5, 6])
      )
      const found = yield* explain(Grpo.layer(), group([1, 0], { trace: two }), { maxSequenceLength: 4 })
      assert.deepStrictEqual(reasons(found, "g0/0"), [
        "first token: nothing stands before it",
        "advantage from grpo.scoreGroup",
        "context: a user message"
      ])
      assert.deepStrictEqual(reasons(found, "g0/0", 1), [
        "first token: nothing stands before it",
        "shared: trained in branch 0",
        "context: a user message",
        "advantage from grpo.scoreGroup",
        "cut: only the first 4 tokens fit"
      ])
      assert.strictEqual(found.totals.rl.tokens, 4)
    })
  )

  it.effect("shows two components at once, and the loss on actions where no hook speaks of it", () =>
    Effect.gen(function* () {
      const echo = yield* explain(Echo.layer(), group([1, 0], { trace: toolUse }))
      const [observed] = tokensOf(echo, "g0/0").slice(5)
      assert.deepStrictEqual(observed!.terms, [
        { component: "ce", weight: Math.fround(0.1), credit: undefined, by: "echo.scoreRollout" }
      ])
      assert.deepStrictEqual([echo.totals.rl.tokens, echo.totals.ce.tokens], [8, 4])
      const sft = yield* explain(Sft.layer(), [rollout()])
      assert.strictEqual(reasons(sft, "r0")[2], "weight from sft.actionLoss")
    })
  )

  it.effect("shows a teacher's log-probability as the credit of each token", () =>
    Effect.gen(function* () {
      const opd = Opd.layer({ teacher: { name: "expert", base_url: "http://localhost:1/v1" } })
      const found = yield* explain(opd, [rollout()]).pipe(
        Effect.provide(Testing.layerTeachers({ expert: { score: () => -0.25 } }))
      )
      assert.deepStrictEqual(tokensOf(found, "r0")[2]!.terms, [
        { component: "refKl", weight: 1, credit: -0.25, by: "opd.scoreRollout" }
      ])
      assert.strictEqual(found.totals.refKl.tokens, 2)
    })
  )

  it.effect("names who silenced a sampled token", () =>
    Effect.gen(function* () {
      const silent = Algorithm.define({
        type: "silent",
        actionLoss: "rl",
        hooks: () => ({
          scoreRollout: () => ({ claims: [{ stream: "rl", over: 1, values: 0, writer: "" }] }),
          scoreGroup: (group) => group.map(({ reward }) => Credit.uniform(reward))
        })
      })
      const found = yield* explain(silent.layer(), [rollout({ trace: toolUse, reward: 1 })])
      assert.strictEqual(reasons(found, "r0")[2], "weight 0, from silent.scoreRollout")
      assert.strictEqual(reasons(found, "r0")[7], "advantage from silent.scoreGroup")
    })
  )

  it.effect("says why a rollout does not count, at every token that it would have trained", () =>
    Effect.gen(function* () {
      const ended: ReadonlyArray<Ended> = Testing.without(group([1, Number.NaN, 0, 0.5]), {
        2: { _tag: "Failed", blame: "provider", message: "connection refused" }
      })
      const found = yield* explain(Grpo.layer(), ended)
      assert.deepStrictEqual(
        found.rollouts.map(({ absent }) => absent),
        [undefined, "its reward is NaN", "provider failed: connection refused", undefined]
      )
      assert.deepStrictEqual(reasons(found, "g0/1").slice(1, 3), [
        "prompt",
        "not trained: the rollout does not count, its reward is NaN"
      ])
      assert.deepStrictEqual(found.rollouts[2]!.branches, [])
      assert.strictEqual(tokensOf(found, "g0/0")[2]!.terms[0]!.credit, 0.25)
      const alone = yield* explain(Grpo.layer(), group([1, 0]).slice(0, 1))
      assert.strictEqual(alone.rollouts[0]!.absent, "1 members of its set g0 never ended")
    })
  )

  it.effect("refuses a rollout that is given twice", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(explain(Grpo.layer(), [rollout(), rollout()]))
      assert.strictEqual(
        error.message,
        "rollout r0 is given twice: every rollout ends once, and its credit would count twice"
      )
    })
  )

  it.effect("reads tokens as text where a character is whole, not before", () =>
    Effect.gen(function* () {
      const trace = conversation(Testing.spoken("user", "é?"), Testing.spoken("assistant", "ü"))
      const tokenizer = yield* Effect.provide(Tokenizer, Testing.layerTokenizer)
      const found = yield* explain(Sft.layer(), [rollout({ trace })], { tokenizer })
      assert.strictEqual(
        tokensOf(found, "r0")
          .map(({ text }) => text)
          .join("|"),
        "||é|?||||ü|"
      )
    })
  )
})

describe("table", () => {
  it.effect("compresses tokens of one fate into a row, in columns that line up", () =>
    Effect.gen(function* () {
      const tokenizer = yield* Effect.provide(Tokenizer, Testing.layerTokenizer)
      const found = yield* explain(Echo.layer(), group([1, 0], { trace: Testing.toolCall }), { tokenizer })
      assert.strictEqual(
        Testing.rolloutTable(found.rollouts[0]!).join("\n"),
        `rollout g0/0  reward 1  group g0  source mock  seat policy
  tokens  role       sampled  text          loss  weight  credit  why
       0  user       no       ""            -                     scaffold of the chat format
     1-5  user       no       "17+4?"       -                     prompt
       6  user       no       ""            -                     scaffold of the chat format
       7  assistant  no       ""            -                     scaffold of the chat format
    8-17  assistant  yes      "add(17,4)"   rl         1    +0.5  advantage from grpo.scoreGroup
      18  tool       no       ""            -                     scaffold of the chat format
   19-20  tool       no       "21"          ce       0.1          weight from echo.scoreRollout
      21  tool       no       ""            -                     scaffold of the chat format
      22  assistant  no       ""            -                     scaffold of the chat format
   23-32  assistant  yes      "It is 21."   rl         1    +0.5  advantage from grpo.scoreGroup`.replaceAll(
          "grpo.",
          "echo."
        )
      )
      assert.deepStrictEqual(Testing.totalsTable(found), [
        "echo: 2 rollouts, 66 tokens",
        "  rl      40 tokens, weights sum to 40",
        "  ce       4 tokens, weights sum to 0.4"
      ])
    })
  )

  it.effect("shows ids without a tokenizer, branches apart, and colours by component", () =>
    Effect.gen(function* () {
      const trace = forked(toolUse, 0, node("assistant", [5, 6, 7]))
      const found = yield* explain(Grpo.layer(), group([1, 0], { trace }))
      const painted = Testing.rolloutTable(found.rollouts[0]!, {
        columns: 60,
        paint: (component, line) => `${component ?? "none"}:${line}`
      })
      assert.include(painted, "  branch 1 of 2")
      assert.strictEqual(
        painted[2],
        "  tokens  role       sampled  ids   loss  weight  credit  why".replace("ids   ", "ids           ")
      )
      assert.isTrue(painted.some((line) => /^rl: {5}2-3 {2}assistant {2}yes/.test(line)))
      assert.isTrue(painted.some((line) => /^none: {5}0-1 {2}user/.test(line)))
    })
  )

  it.effect("says a range where a reference gives each token its own", () =>
    Effect.gen(function* () {
      const opd = Opd.layer({ teacher: { name: "expert", base_url: "http://localhost:1/v1" } })
      const found = yield* explain(opd, [rollout()]).pipe(
        Effect.provide(Testing.layerTeachers({ expert: { score: (ids) => Float32Array.from(ids, (_, i) => -i / 4) } }))
      )
      assert.include(Testing.table(found), "-0.75 to -0.5")
    })
  )
})

it.effect("an explanation is plain data: JSON holds all of it", () =>
  Effect.gen(function* () {
    const found = yield* explain(Grpo.layer(), group([1, 0]))
    const again = JSON.parse(JSON.stringify(found))
    assert.strictEqual(again.rollouts[0].branches[0].tokens[2].terms[0].credit, 0.5)
    assert.isTrue(group([1]).every(isRollout))
  })
)
